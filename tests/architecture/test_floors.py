"""The floors hold: who may import whom, in the code as written and in the code as it runs."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from berth import __version__
from scheduling.compiled import GROUP

ROOT = Path(__file__).parents[2]
WITH_CLIENT = {**os.environ, "PYTHONPATH": str(ROOT / "client")}

IMPORT_ALL_WITHOUT = """
import importlib, pkgutil, sys

package, banned = sys.argv[1], set(sys.argv[2:])

class Ban:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in banned:
            raise ImportError(f"{package} must not import {name}")

sys.meta_path.insert(0, Ban())
module = importlib.import_module(package)
for found in pkgutil.walk_packages(module.__path__, package + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def imported(package: str, *banned: str) -> set[str]:
    """Every top-level module that is loaded once all of `package` is imported, with `banned` out of reach."""
    command = [sys.executable, "-c", IMPORT_ALL_WITHOUT, package, *banned]
    done = subprocess.run(command, cwd=ROOT, env=WITH_CLIENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, env=WITH_CLIENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_client_and_portal_are_of_one_version() -> None:
    from portal.settings import VERSION

    assert __version__ == VERSION


def test_the_agent_works_without_django_the_portal_and_the_engine() -> None:
    imported("nodes", "django", "portal", "scheduling", "channels", "rest_framework")


def test_the_client_and_its_command_work_without_django_the_portal_the_agent_and_the_engine() -> None:
    imported("berth", "django", "portal", "nodes", "scheduling", "celery", "redis", "rest_framework")


def test_the_engine_works_with_the_standard_library_alone() -> None:
    loaded = imported("scheduling", "django", "portal", "nodes", "celery", "redis")
    own = {"__main__", "scheduling", f"{GROUP}__mypyc"}  # the last where the compiled engine is used
    assert loaded - set(sys.stdlib_module_names) - own <= packages_of_python_itself()


def packages_of_python_itself() -> set[str]:
    """What this interpreter loads at its start, such as the path hooks of installed packages."""
    command = [sys.executable, "-c", "import sys; print(*{name.partition('.')[0] for name in sys.modules})"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    ("folder", "listings"),
    [
        ("nodes", ["nodes/requirements.in"]),
        ("portal", ["nodes/requirements.in", "requirements.in", "requirements-plot.in"]),
    ],
)
def test_every_library_that_is_imported_is_asked_for_by_name(folder: str, listings: list[str]) -> None:
    lines = [line for listing in listings for line in (ROOT / listing).read_text().splitlines()]
    wanted = {normal(line) for line in lines if line[:1].isalpha()}
    owners = packages_distributions()
    ours = {"nodes", "portal", "scheduling"} | set(sys.stdlib_module_names)
    for module in sorted(top_level_imports(ROOT / folder) - ours):
        assert {normal(owner) for owner in owners[module]} & (wanted | BY_ITS_PARENT), f"{module} is not in {listings}"


# Parts of Django, Celery, psycopg and Docker's client that have a distribution of their own and show through theirs.
BY_ITS_PARENT = {"amqp", "asgiref", "kombu", "psycopg-pool", "requests", "urllib3"}


def test_every_library_that_the_client_imports_is_asked_for_by_its_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {normal(line) for line in project["dependencies"]}
    owners = packages_distributions()
    found = {
        normal(owner)
        for module in top_level_imports(ROOT / "client") - {"berth"} - set(sys.stdlib_module_names)
        for owner in owners[module]
    }
    assert found == wanted


def top_level_imports(folder: Path) -> set[str]:
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


def normal(line: str) -> str:
    return re.split(r"[\[=~<>; ]", line.lower().replace("_", "-"))[0]


@pytest.mark.parametrize("word", ["transaction.atomic", ".save(", "send_task", ".objects.create("])
def test_entry_points_hold_no_rules_of_their_own(word: str) -> None:
    entry_points = [
        path
        for name in ("views", "api", "consumers", "live_events", "tasks", "admin")
        for path in [*ROOT.glob(f"portal/*/{name}.py"), *ROOT.glob(f"portal/*/{name}/*.py")]
    ]
    assert entry_points
    assert [str(path) for path in entry_points if word in path.read_text()] == []


def test_nobody_listens_to_django_signals() -> None:
    for path in (ROOT / "portal").rglob("*.py"):
        assert "django.dispatch" not in path.read_text(), f"{path} uses a signal: call the service instead"


def test_no_type_is_worked_out_by_whichever_thread_decodes_first() -> None:
    """``nodes/protocol/decoding.py`` and that of the client have it done by one at a time; other decoders are made when
    their module is imported."""
    for folder in ("portal", "nodes", "client/berth"):
        for path in (ROOT / folder).rglob("*.py"):
            found = re.findall(r"msgspec\.(?:json\.decode|msgpack\.decode|convert)\(", path.read_text())
            assert found == [] or path == ROOT / "nodes/protocol/decoding.py", f"{path}: {found}"
