"""`pipx install` of the repository: the `berth` command and the Python client, in an environment with nothing else."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from berth import __version__
from tests.support.people.reader import reader_of

ROOT = Path(__file__).parents[2]
TAKEN = ("pyproject.toml", "README.md", "LICENSE", "client")
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")


AS_SOMEBODY = ("-c", "user.name=Berth", "-c", "user.email=berth@example.org")


def told() -> dict[str, str]:
    """Of the environment only what installers are told by."""
    found = {
        name: value for name, value in os.environ.items() if name in KEPT or name.startswith(("PIP_", "SSL_", "UV_"))
    }
    if "PIP_INDEX_URL" in found:
        found.setdefault("UV_DEFAULT_INDEX", found["PIP_INDEX_URL"])
    return found


def quietly(*command: object) -> str:
    """What the command prints; it must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=told(), cwd="/", capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment into which a copy of the repository was installed, as its page says."""
    folder = tmp_path_factory.mktemp("package")
    source, environment = folder / "berth", folder / "venv"
    source.mkdir()
    for name in TAKEN:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    for words in (["init", "-q"], ["add", "."], [*AS_SOMEBODY, "commit", "-q", "-m", "Berth"]):
        quietly("git", "-C", source, *words)
    venv.create(environment)
    uv, known = Path(sys.executable).with_name("uv"), {"UV_CACHE_DIR": f"{Path.home()}/.cache/uv", **told()}
    with reader_of(folder, {"PYTHONPATH": "", "SHELL": "/bin/bash", **known}) as reader:
        reader.program("pipx", f'exec {uv} pip "$@" --no-config --python {environment}/bin/python')
        reader.program("berth", f'exec {environment}/bin/berth "$@"')
        address = {"https://example.org/berth.git": f"file://{source}"}
        reader.section("docs/user/command-line.md", "Installing it", words=address)
    assert ".bash_completions/berth.sh" in (folder / ".bashrc").read_text()
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
