"""What an entry of the audit log shows of a change: single values, however large the thing is that they are part of."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.differences import LONGEST, MOST, differences


def cluster(count: int, name: str = "A100") -> dict[str, Any]:
    cells = [{"cellType": "V100", "cellNumber": 2}, {"cellType": name, "cellNumber": count}]
    return {"virtualClusters": {"vision": {"virtualCells": cells}}, "physicalCluster": {"nodes": ["a", "b"]}}


CASES: dict[str, tuple[Any, Any, list[tuple[str, str, str]]]] = {
    "a value": ({"role": "user", "email": ""}, {"role": "admin", "email": ""}, [("role", "user", "admin")]),
    "none, truth and no text": ({"a": None, "b": ""}, {"a": True, "b": "x"}, [("a", "null", "true"), ("b", '""', "x")]),
    "something new": (None, {"count": 3}, [("count", "–", "3")]),
    "something gone": ({"groups": ["a", "b"]}, None, [("groups", '["a", "b"]', "–")]),
    "a list of names": ({"nodes": ["a"]}, {"nodes": ["a", "b"]}, [("nodes", '["a"]', '["a", "b"]')]),
    "deep in a large thing": (
        cluster(8), cluster(4), [("virtualClusters.vision.virtualCells[1].cellNumber", "8", "4")]
    ),
    "one more of a list": (
        {"cells": [{"n": 1}]}, {"cells": [{"n": 1}, {"n": 2}]}, [("cells[1]", "–", '{"n": 2}')],
    ),
    "nothing": ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_of_two_descriptions_only_what_differs_is_shown(case: str) -> None:
    before, after, expected = CASES[case]
    assert differences(before, after) == expected


def test_long_values_and_long_lists_are_cut() -> None:
    (one,) = differences({"text": "x"}, {"text": "y" * 5000})
    assert one.became == "y" * LONGEST + "…"
    assert len(differences({}, {str(number): number for number in range(1000)})) == MOST
