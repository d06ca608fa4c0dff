"""Whatever the file holds, the answer is a spec or a list of problems."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from portal.job_file.model import JobSpec
from portal.job_file.problems import SpecInvalid
from portal.job_file.schema import schema_job
from portal.job_file.validate import parse
from tests.support.cluster.job_files import job_file, two_teams
from tests.support.run.facts import job_text

SAMPLE = job_text("parameter_servers")
KEYS = st.sampled_from(
    sorted(
        {key for part in schema_job()["$defs"].values() for key in part.get("properties", {})}
        | set(schema_job()["properties"])
        | {"train", "a", ""}
    )
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 20_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["job", "image", "data", "dockerimage", "cmd", "2h", "/mnt/x", "<% $data.uri[0] %>", "train"])
    | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
PATHS = st.sampled_from(
    [
        ("extras", "hivedScheduler", "taskRoles", "train"),
        ("extras", "com.microsoft.pai.runtimeplugin"),
        ("extras", "berth"),
        ("extras", "berth", "nodes"),
        ("extras", "storages"),
        ("taskRoles", "train", "completion"),
        ("taskRoles", "train", "resourcePerInstance"),
        ("prerequisites",),
        ("deployments",),
        ("defaults",),
        ("parameters",),
        ("secrets",),
    ]
)


def accepted(source: str | bytes) -> bool:
    """Whether the file is accepted; a refusal without words or any other exception fails the test."""
    try:
        spec = parse(source, two_teams())
    except SpecInvalid as refusal:
        words = [problem.message and problem.code for problem in refusal.problems]
    else:
        words = []
        assert JobSpec.from_json(json.loads(json.dumps(spec.to_json())), secrets=spec.secrets) == spec
    assert all(words)
    return not words


@given(value=VALUES, path=PATHS)
@settings(max_examples=300)
def test_a_good_file_with_anything_at_one_place_is_answered(value: Any, path: tuple[str, ...]) -> None:
    job: dict[str, Any] = json.loads(job_file(("defaults/virtualCluster", "vision")))
    at = job
    for key in path[:-1]:
        at = at.setdefault(key, {})
    at[path[-1]] = value
    accepted(json.dumps(job))


@given(source=st.text(max_size=200) | st.binary(max_size=200))
@settings(max_examples=200)
def test_any_text_and_any_bytes_are_answered(source: str | bytes) -> None:
    assert not accepted(source)


@given(
    start=st.integers(0, len(SAMPLE)), length=st.integers(0, 40), new=st.text("[]{}:&*!|>-#%'\"\n\t <$,ab1", max_size=6)
)
@settings(max_examples=200)
def test_a_real_file_with_a_wound_is_answered(start: int, length: int, new: str) -> None:
    accepted(SAMPLE[:start] + new + SAMPLE[start + length :])
