"""The commands of the Makefile, on a machine that has had none of them yet."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES, WORDS, PAGES, ENGINE = "packages requirements-dev.txt", "languages compile", "frontend-build", "engine-build"
PARTS = "scripts/test-parts"
TESTED = (PACKAGES, WORDS, PAGES)
FIRST = {
    "setup": ("packages requirements.txt", WORDS, PAGES),
    "demo": ("packages requirements.txt", WORDS, PAGES, "-m portal.embedded"),
    "run": ("packages requirements.txt", WORDS, PAGES, "-m portal.embedded --no-job"),
    "engine": (PACKAGES, ENGINE),
    "test": (*TESTED, "scripts/test"),
    "gpu-check": ("packages requirements.txt", "-m tests.gpu_check"),
    "lint": (PACKAGES, PAGES, "scripts/lint"),
    "bench": (*TESTED, PARTS, "tests.benchmarks"),
    "mutants": (*TESTED, PARTS, "-m tests.mutants.run"),
    "pictures": (*TESTED, PARTS, "-m tests.e2e.browser.pictures"),
    "examples": (*TESTED, "tests/integration/common/test_examples.py"),
    "soak": (*TESTED, f"{PARTS} soak", "-m soak"),
    "compose-test": (*TESTED, f"{PARTS} soak", "-m soak tests/e2e/compose"),
    "chaos": (*TESTED, "scripts/chaos-parts", "-m tests.reliability.chaos"),
    "endurance": (*TESTED, "scripts/chaos-parts", "-m tests.reliability.chaos.soak"),
    "audit": (PACKAGES, "scripts/audit"),
    "lock": ("scripts/lock",),
}
"""What each command does, in this order, where nothing is there yet but the clone."""
COMPILED = {"engine", "bench", "soak", "chaos", "endurance"}


def steps(folder: Path, target: str) -> list[str]:
    """What make would do in a clone in which nothing was made yet."""
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("requirements.txt", "requirements-dev.txt", "portal/locale/zh/django.po", "frontend/package.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    done = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_list_has_every_command() -> None:
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in told.splitlines()} - {"help", "clean"} == FIRST.keys()


@pytest.mark.parametrize("target", FIRST)
def test_a_command_makes_everything_that_it_stands_on_first(target: str, tmp_path: Path) -> None:
    told = steps(tmp_path, target)
    assert told[0] == "scripts/python-setup venv"
    places = [next((place for place, line in enumerate(told) if wanted in line), -1) for wanted in FIRST[target]]
    assert -1 not in places, told
    assert places == sorted(places), told
    assert any(ENGINE in line for line in told[: places[-1]] + told[-1:]) == (target in COMPILED)
