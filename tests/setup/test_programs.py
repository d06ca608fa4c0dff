"""`tests/support/run/programs.txt` names what tests run on this machine, so that it is there before the first test."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.services import Services

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "support" / "run" / "programs.txt"
PACKAGED = [line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
MINIMAL = {
    "apt-cache", "base64", "bash", "cat", "cp", "dpkg", "dpkg-deb", "env", "false", "id", "ldd", "ls", "mount", "nohup",
    "nsenter", "rm", "setpriv", "setsid", "sh", "sleep", "tar", "true", "umount", "unshare",
}  # fmt: skip
"""What the smallest Debian has."""
OF_SETUP = {"make", "node", "npm", "python", "python3"}
"""What README names, or setup brings."""
OF_A_PART = {"apt-get": "soak", "mount.nfs": "where it is", "initdb": "postgres", "pg_dump": "postgres"}
"""Looked up in the place that the part has it in, or used only where it is."""
RUNS = {"run", "Popen", "check_output", "check_call", "which", "_run"}


def started(file: Path) -> Iterator[str]:
    """The programs that a file of tests names where it starts or looks one up."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        if called in RUNS and isinstance(first, ast.List | ast.Tuple) and first.elts:
            first = first.elts[0]
        elif called not in {"which", "_run"}:
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def test_every_program_that_a_test_starts_is_listed_with_its_package() -> None:
    known = {name for programs, *_ in PACKAGED for name in programs.split("|")} | MINIMAL | OF_SETUP | OF_A_PART.keys()
    found = {
        (program, file.name)
        for file in (ROOT / "tests").rglob("*.py")
        for program in started(file)
        if re.fullmatch(r"[a-z][a-z0-9.+-]*", program)
    }
    assert {name for name, _ in found} >= {"ssh-keygen", "chattr", "ip", "psql"}
    assert {(name, file) for name, file in found if name not in known} == set()


@pytest.fixture
def machine(services: Services) -> Path:
    """A folder of the programs that a machine has: those of the smallest one."""
    folder = services.new_folder("machine")
    (folder / "berth/tests/support/run").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", folder / "berth/scripts")
    shutil.copy(LIST, folder / "berth/tests/support/run")
    (folder / "berth/.venv/bin").mkdir(parents=True)
    (folder / "berth/.venv/bin/python").symlink_to(Path(sys.executable).resolve())  # which nobody may run, too
    (folder / "bin").mkdir()
    for tool in ("bash", "dirname", "grep", "sort", "tr", "id", "apt-cache"):
        (folder / "bin" / tool).symlink_to(shutil.which(tool) or "/missing")
    return folder


def test_without_root_what_is_missing_is_one_command_and_no_test_begins(machine: Path) -> None:
    """As `make test` does."""
    told = {"PATH": f"{machine}/bin", "BERTH_TEST_SKIP": "docker,root,postgres"}
    script = (machine / "berth/scripts/test-parts").read_text().replace("PATH=$PATH:/usr/sbin:/sbin", "")
    (machine / "berth/scripts/test-parts").write_text(script)
    as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    line = [shutil.which("env") or "env", *(f"{name}={value}" for name, value in told.items()), "scripts/test"]
    done = subprocess.run([*as_nobody, *line], cwd=machine / "berth", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "begun" not in done.stdout
    (said,) = done.stderr.splitlines()
    named = re.search(r"sudo apt-get install --no-install-recommends (.*) and try again", said)
    assert named, said
    packages = set(named[1].split())
    assert {"curl", "openssh-client", "git", "openssl", "chromium", "prometheus"} <= packages
    assert not packages & {"docker.io", "bindfs", "postgresql", "debootstrap", "mmdebstrap"}
