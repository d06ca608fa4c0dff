"""`pip install` of the repository: the `berth` command and the Python client, in an environment with nothing else."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from berth import __version__

ROOT = Path(__file__).parents[2]
TAKEN = ("pyproject.toml", "README.md", "LICENSE", "client")
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")


def quietly(*command: object) -> str:
    """What the command prints; it must succeed. It sees of the environment only what installers are told by."""
    told = {
        name: value for name, value in os.environ.items() if name in KEPT or name.startswith(("PIP_", "SSL_", "UV_"))
    }
    if "PIP_INDEX_URL" in told:
        told.setdefault("UV_DEFAULT_INDEX", told["PIP_INDEX_URL"])
    words = [str(word) for word in command]
    done = subprocess.run(words, env=told, cwd="/", capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment into which a copy of the repository was installed."""
    folder = tmp_path_factory.mktemp("package")
    source, environment = folder / "berth", folder / "venv"
    source.mkdir()
    for name in TAKEN:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    venv.create(environment)
    uv = Path(sys.executable).with_name("uv")
    quietly(uv, "pip", "install", "--no-config", "--python", environment / "bin" / "python", source)
    return environment / "bin"


def test_the_command_is_there_and_tells_its_version(installed: Path) -> None:
    assert quietly(installed / "berth", "--version") == f"berth {__version__}\n"
    said = quietly(installed / "berth", "--help")
    assert all(f"\n  {command} " in said for command in ("login", "submit", "run", "logs", "why", "top", "node"))


def test_the_client_comes_with_its_types_and_without_the_portal(installed: Path) -> None:
    look = "import berth, pathlib; print(pathlib.Path(berth.__file__).parent)"
    package = Path(quietly(installed / "python", "-c", look).strip())
    assert (package / "py.typed").exists()
    there = {path.name.lower() for path in package.parent.iterdir()}
    assert not there & {"django", "celery", "redis", "portal", "nodes", "scheduling", "tests", "client"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name.split(">")[0] for name in project["dependencies"]} == {
        "httpx", "msgspec", "pathspec", "pyyaml", "rich", "typer", "websockets",
    }  # fmt: skip
