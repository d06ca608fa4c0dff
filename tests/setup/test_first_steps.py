"""What somebody meets whose machine lacks something: one line that names it, and the cure."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services.services import Services

ROOT = Path(__file__).parents[2]
TOOLS = ["env", "bash", "sh", "dirname", "id", "stat", "mktemp", "tail", "rm", "grep", "setpriv", "sleep", "tr", "cut"]
OLD_PYTHON = """#!/bin/sh
[ "$1" = --version ] && echo "Python 3.9.2" && exit
exit 1
"""
PYTHON_WITHOUT_VENV = f"""#!/bin/sh
[ "$2" = "import ensurepip, venv" ] && exit 1
exec {sys.executable} "$@"
"""


class Machine:
    """A machine with few tools and a copy of the project's scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "berth"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or "/missing")
        shutil.copytree(ROOT / "scripts", self.folder / "scripts")

    def has(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "HOME": str(self.folder)}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(services: Services) -> Machine:
    return Machine(services.new_folder("machine"))


def test_without_any_python_the_line_says_which_one_to_install(machine: Machine) -> None:
    done = machine.run("scripts/python-setup", "venv")
    assert done.returncode == 1
    assert done.stderr.startswith("berth: Python 3.11 or newer is needed; found none. Install it")


def test_a_python_that_is_too_old_is_named(machine: Machine) -> None:
    machine.has("python3", OLD_PYTHON)
    done = machine.run("scripts/python-setup", "venv")
    assert done.returncode == 1
    assert done.stderr.startswith("berth: Python 3.11 or newer is needed; found Python 3.9.2. Install it")
    assert len(done.stderr.splitlines()) == 1


def test_a_python_without_venv_is_told_with_the_package_to_install(machine: Machine) -> None:
    machine.has("python3", PYTHON_WITHOUT_VENV)
    done = machine.run("scripts/python-setup", "venv")
    assert done.returncode == 1
    assert "sudo apt-get install python3-venv" in done.stderr.splitlines()[-1]


def test_a_python_that_is_named_is_the_only_one_that_is_tried(machine: Machine) -> None:
    machine.has("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    done = machine.run("env", "PYTHON=python9.9", "scripts/python-setup", "venv")
    assert done.returncode == 1
    assert "name one: make PYTHON=" in done.stderr


def test_a_package_that_does_not_come_ready_built_is_told_and_nothing_is_compiled(machine: Machine) -> None:
    there = machine.folder / ".venv" / "bin"
    there.mkdir(parents=True)
    (there / "uv").write_text('#!/bin/sh\ncase "$*" in *"--only-binary :all:"*) echo "no wheels"; exit 1 ;; esac\n')
    (there / "uv").chmod(0o755)
    (machine.folder / "locked.txt").write_text("something==6\n")
    done = machine.run("scripts/python-setup", "packages", "locked.txt")
    assert (done.returncode, done.stdout) == (1, "- installing 1 Python packages (locked.txt)\n")
    assert done.stderr.splitlines()[0] == "no wheels"
    assert done.stderr.splitlines()[1].startswith("berth: could not install the packages of locked.txt (see above): ")


def test_a_long_step_says_every_few_seconds_what_came_last(machine: Machine) -> None:
    done = machine.run("bash", "-c", ". scripts/lib.sh; watched sh -c 'echo one of two; sleep 5.5; echo two; exit 3'")
    assert (done.returncode, done.stdout, done.stderr) == (3, "  5 s one of two\n", "one of two\ntwo\n")


def test_a_folder_that_may_not_be_written_is_told_with_its_owner(machine: Machine) -> None:
    machine.folder.chmod(0o555)
    as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = machine.run(*as_nobody, "scripts/python-setup", "venv")
    machine.folder.chmod(0o755)
    assert done.returncode == 1
    assert done.stderr.startswith(f"berth: no write permission in {machine.folder}: ")


def test_a_node_that_is_new_enough_is_used_as_it_is(machine: Machine) -> None:
    machine.has("node", "#!/bin/sh\nexit 0\n")
    machine.has("npm", '#!/bin/sh\necho "the npm of this machine: $*"\n')
    done = machine.run("scripts/with-node", "npm", "ci")
    assert done.stdout == "the npm of this machine: ci\n"


def test_make_lists_its_commands() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"setup", "demo", "test", "lint", "bench", "run"} <= set(listed)


def test_packages_behind_a_link_are_left_alone(machine: Machine) -> None:
    """`npm ci` begins by emptying the folder, which is another clone's."""
    others = machine.folder / "others"
    for made in (machine.folder / "frontend", others):
        made.mkdir()
    (machine.folder / "frontend" / "node_modules").symlink_to(others)
    done = machine.run("scripts/frontend-build")
    assert done.returncode == 1
    assert done.stderr.startswith("berth: frontend/node_modules is a symbolic link, and npm ci would empty the folder")


def test_the_front_end_is_built_without_arguments(machine: Machine) -> None:
    (machine.folder / "frontend").mkdir()
    done = machine.run("scripts/frontend-build", "--help")
    assert (done.returncode, done.stderr) == (1, "berth: scripts/frontend-build takes no arguments, not --help\n")
