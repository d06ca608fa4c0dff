"""manage.py replay: a line of JSON for each difference, a summary, and how it ends."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

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


def lines_of(*arguments: Any) -> list[dict[str, Any]]:
    out = StringIO()
    call_command("replay", *arguments, stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_without_a_difference_there_is_only_the_summary(tmp_path: Path) -> None:
    assert lines_of(case_file(tmp_path, "bind")) == [{"tests": 1, "steps": 1, "differences": 0, "better": 0}]


def test_what_is_better_is_counted_and_is_no_difference(tmp_path: Path) -> None:
    found = lines_of(case_file(tmp_path, "wait"), "--follow")
    assert found == [{"tests": 1, "steps": 1, "differences": 0, "better": 1}]


def test_a_difference_is_a_line_of_its_own_and_ends_the_command_with_1(tmp_path: Path) -> None:
    path = case_file(tmp_path, "bind")
    path.write_text(path.read_text().replace('"leafCellNumber": 2', '"leafCellNumber": 3'))
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("replay", path, stdout=out)
    assert ended.value.code == 1
    first, summary = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {"test": "t", "step": 0, "pod": "p", "expected": "bind", "got": "wait", "kind": "result"}
    assert summary == {"tests": 1, "steps": 1, "differences": 1, "better": 0}


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, '{"tests": []}', "\udcff"], ids=["empty", "deep", "none", "bytes"]
)
def test_what_is_no_file_of_cases_is_refused_with_2(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cases.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CommandError, match="no file of cases") as refused:
        call_command("replay", path)
    assert refused.value.returncode == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nowhere.json cannot be read"):
        call_command("replay", tmp_path / "nowhere.json")
