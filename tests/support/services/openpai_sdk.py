"""OpenPAI's published JavaScript SDK, as npm has it: installed once from its lock file, run with Node."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "integration" / "openpai" / "sdk"
MODULES = FOLDER / "node_modules"
PACKAGE = MODULES / "@microsoft" / "openpai-js-sdk"
WITH_NODE = ROOT / "scripts" / "with-node"
INSTALL_S = 240


def install() -> str | None:
    """Bring what the lock file names, where it is newer than what is there; why that cannot be, else None. Test runs
    beside this one wait."""
    with (FOLDER / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done, wanted = MODULES / ".package-lock.json", FOLDER / "package-lock.json"
        if done.exists() and done.stat().st_mtime >= wanted.stat().st_mtime:
            return None
        command = [str(WITH_NODE), "npm", "--prefix", str(FOLDER), "ci", "--no-progress", "--ignore-scripts"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            return f"npm ci in {FOLDER.relative_to(ROOT)} did not end within {INSTALL_S} s"
        if ended.returncode == 0:
            return None
        why = "; ".join([line for line in ended.stderr.splitlines() if "error" in line][:2])
        return f"npm ci in {FOLDER.relative_to(ROOT)} failed (it needs a registry of npm): {why}"


def run(*command: str, home: Path, deadline_s: float = 120) -> subprocess.CompletedProcess[str]:
    """A command with Node in its PATH, without proxies; ``home`` is where the SDK keeps what it is told."""
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(
        [str(WITH_NODE), *command],
        env={**plain, "HOME": str(home)}, capture_output=True, text=True, timeout=deadline_s, check=False,
    )  # fmt: skip


def own_tests(folder: Path, *, schema: Path) -> Path:
    """A copy of the package's compiled tests with all they import, to be given a cluster. Its API document names the
    schema of job files by an address; in the copy by this file."""
    copy = folder / "sdk" / "lib"
    shutil.copytree(PACKAGE / "lib", copy)
    (folder / "node_modules").symlink_to(MODULES)
    shutil.copy(schema, copy / "src" / "api" / "v2" / "protocol.yaml")
    document = copy / "src" / "api" / "v2" / "swagger.yaml"
    document.write_text(re.sub(r"https://[^\"#]*/schema\.yaml#", "./protocol.yaml#", document.read_text()))
    (copy / ".tests").mkdir(exist_ok=True)
    return copy
