"""python -m tests.hived: a line of JSON for each difference, a summary, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hived.__main__ import main

CONFIG = {
    "physicalCluster": {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": "n0"}],
    },
    "virtualClusters": {"vision": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}},
}
POD = {"virtualCluster": "vision", "priority": 1, "leafCellType": "GPU", "leafCellNumber": 2}


def case_file(folder: Path, result: str) -> Path:
    steps = [{"op": "schedule", "pod": "p", "expect": {"result": result}}]
    cases = {"configs": {"c": CONFIG}, "pods": {"p": POD}, "tests": [{"name": "t", "config": "c", "steps": steps}]}
    path = folder / "cases.json"
    path.write_text(json.dumps(cases))
    return path


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> list[dict[str, Any]]:
    assert main([str(one) for one in arguments]) == status
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_without_a_difference_there_is_only_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines_of(capsys, case_file(tmp_path, "bind"))
    assert found == [{"tests": 1, "steps": 1, "differences": 0, "better": 0}]


def test_what_is_better_is_counted_and_is_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines_of(capsys, case_file(tmp_path, "wait"), "--follow")
    assert found == [{"tests": 1, "steps": 1, "differences": 0, "better": 1}]


def test_a_difference_is_a_line_of_its_own_and_ends_the_command_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = case_file(tmp_path, "bind")
    path.write_text(path.read_text().replace('"leafCellNumber": 2', '"leafCellNumber": 3'))
    first, summary = lines_of(capsys, path, status=1)
    assert first == {"test": "t", "step": 0, "pod": "p", "expected": "bind", "got": "wait", "kind": "result"}
    assert summary == {"tests": 1, "steps": 1, "differences": 1, "better": 0}


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, '{"tests": []}', "\udcff"], ids=["empty", "deep", "none", "bytes"]
)
def test_what_is_no_file_of_cases_is_refused_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "cases.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert main([str(path)]) == 2
    assert "no file of cases" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere.json")]) == 2
    assert "nowhere.json cannot be read" in capsys.readouterr().err
