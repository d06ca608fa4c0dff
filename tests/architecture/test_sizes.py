"""Files and functions stay small enough to be read."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["scheduling", "nodes", "portal", "client", "tests"]
FUNCTION = 30
FILE = 450


def sources(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).rglob("*.py")) if "migrations" not in path.parts]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.name}:{node.name}", node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_nine_functions_in_ten_have_thirty_lines_or_fewer(package: str) -> None:
    found = [function for path in sources(package) for function in functions(path)]
    long = sorted((length, name) for name, length in found if length > FUNCTION)
    assert len(long) * 10 <= len(found), long


@pytest.mark.parametrize("package", PACKAGES)
def test_nine_files_in_ten_have_450_lines_or_fewer_and_none_has_a_thousand(package: str) -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in sources(package)}
    long = {name: length for name, length in lengths.items() if length > FILE}
    assert len(long) * 10 <= len(lengths), long
    assert not [name for name, length in lengths.items() if length > 1000]
