"""What was recorded of HiveD and of a real cluster is here as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.run.facts import DATA, read_json

FILES = {
    "hived/cases.json.gz": "hived/cases.json",
    "hived/streams.json.gz": "hived/streams.json",
    "worked_examples.json": "traces/worked_examples.json",
    **{f"traces/philly_3w.{part}.cluster.json": f"traces/philly_3w.{part}.cluster.json" for part in ("half", "third")},
    "traces/philly_3w.quarter.cluster.json": "traces/philly_3w.quarter.cluster.json",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_the_original_says(name: str, theirs: Path) -> None:
    assert read_json(name) == json.loads((theirs / FILES[name]).read_text())


def test_the_trace_is_the_original(theirs: Path) -> None:
    trace = "traces/philly_3w.csv.gz"
    assert (DATA / trace).read_bytes() == (theirs / trace).read_bytes()
