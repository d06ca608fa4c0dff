"""The compiled engine is used where it was made of the very sources that are here, and nowhere else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WHICH = "import scheduling; print(scheduling.COMPILED, getattr(scheduling.model.job, 'MARK', ''))"
FOLDER = "from scheduling.compiled import folder; print(folder())"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the engine's sources."""
    shutil.copytree(ROOT / "scheduling", tmp_path / "scheduling", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(tree: Path, code: str, engine: str = "auto") -> subprocess.CompletedProcess[str]:
    """A new process in the tree that runs this code."""
    env = os.environ | {"BERTH_ENGINE": engine, "PYTHONPATH": str(tree)}
    return subprocess.run([sys.executable, "-c", code], cwd=tree, env=env, capture_output=True, text=True, timeout=60)


def build(tree: Path) -> None:
    """Something in the place of the compiled engine of these sources: a module that can be told from its source."""
    there = Path(run(tree, FOLDER, "python").stdout.strip()) / "scheduling"
    shutil.copytree(tree / "scheduling" / "model", there / "model")
    with (there / "model" / "job.py").open("a") as source:
        source.write('\nMARK = "built"\n')


def test_what_was_built_of_these_sources_is_used(tree: Path) -> None:
    assert run(tree, WHICH).stdout == "False \n"
    build(tree)
    assert run(tree, WHICH).stdout == "True built\n"
    assert run(tree, WHICH, "compiled").stdout == "True built\n"


def test_what_was_built_of_other_sources_is_not(tree: Path) -> None:
    build(tree)
    with (tree / "scheduling" / "engine.py").open("a") as source:
        source.write("\n# another thought\n")
    assert run(tree, WHICH).stdout == "False \n"


def test_python_can_be_asked_for(tree: Path) -> None:
    build(tree)
    assert run(tree, WHICH, "python").stdout == "False \n"


def test_compiled_code_that_is_asked_for_and_not_there_is_an_error_that_says_what_to_do(tree: Path) -> None:
    found = run(tree, WHICH, "compiled")
    assert found.returncode != 0
    assert found.stderr.endswith("ImportError: BERTH_ENGINE is compiled, but these sources are not: run  make engine\n")


def test_another_word_is_refused(tree: Path) -> None:
    assert "BERTH_ENGINE is auto, python or compiled, not 'fast'" in run(tree, WHICH, "fast").stderr
