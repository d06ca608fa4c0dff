"""HiveD's cases through a scheduler: what differs is told, what does not is not.

The scheduler here is the small HiveD of `reference`, so that the harness is tried by itself; what our engine
answers stands in `test_engine_cases`.
"""

import json
from copy import deepcopy
from typing import Any

import pytest

from scheduling.config.faults import ConfigError
from tests.hived.cases import read
from tests.hived.compare import Difference
from tests.hived.reference import Reference
from tests.hived.run import Tally, replay
from tests.hived.streams import stream
from tests.support.run.facts import hived_cases, hived_streams

CASES = hived_cases()
STREAMS = hived_streams()


def differences(document: Any, follow: bool = False) -> tuple[list[Difference], Tally]:
    tally = Tally()
    return list(replay(read(document), follow, tally, Reference)), tally


def only(document: Any, test: str) -> Any:
    return {**deepcopy(document), "tests": [deepcopy(one) for one in document["tests"] if one["name"] == test]}


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
@pytest.mark.parametrize(
    ("document", "tests", "steps"), [(CASES, 8, 226), (STREAMS, 20, 1019)], ids=["cases", "streams"]
)
def test_a_scheduler_that_answers_as_recorded_has_no_difference(
    document: Any, tests: int, steps: int, follow: bool
) -> None:
    assert differences(document, follow) == ([], Tally(tests, steps, 0, 0))


@pytest.mark.parametrize("seed", range(12))
def test_a_random_stream_followed_by_who_made_it_has_no_difference_and_breaks_no_invariant(seed: int) -> None:
    document, faults = stream(seed, Reference)
    assert faults == []
    assert differences(json.loads(json.dumps(document)), follow=True)[0] == []


def step_of(document: Any, op: str, **wanted: Any) -> Any:
    """The first step of this kind."""
    steps = document["tests"][0]["steps"]
    return next(
        one
        for one in steps
        if one["op"] == op and all((one.get("expect") or {}).get(key) == value for key, value in wanted.items())
    )


def told(document: Any) -> list[tuple[str, Any, Any]]:
    return [(one.kind, one.expected, one.got) for one in differences(document)[0]]


def test_another_result_is_told() -> None:
    document = only(CASES, "normal_operations")
    step_of(document, "schedule", result="bind")["expect"]["result"] = "preempt"
    found, tally = differences(document)
    assert (found, tally.better) == ([], 1)
    document = only(CASES, "normal_operations")
    step_of(document, "schedule", result="not_bind")["expect"]["result"] = "bind"
    assert told(document) == [("result", "bind", "wait")]


def test_a_refusal_counts_as_a_wait() -> None:
    document = only(CASES, "normal_operations")
    step_of(document, "schedule", result="user_error")["expect"]["result"] = "wait"
    assert told(document) == []


def test_more_victims_than_recorded_are_told_and_fewer_are_better() -> None:
    document = only(CASES, "normal_operations")
    step = step_of(document, "schedule", result="preempt")
    step["observed"]["victimsByNode"] = {"0.0.1.0": ["pod1"]}
    del step["expect"]["victimsSubsetOf"]
    assert [one.kind for one in differences(document)[0]] == ["victims"]
    step["observed"]["victimsByNode"] = {"0.0.3.0": ["pod5"], "0.0.3.1": ["pod6"], "0.0.1.0": ["pod1"]}
    found, tally = differences(document)
    assert (found, tally.better) == ([], 1)


def test_a_looser_affinity_is_told_and_a_tighter_one_is_better() -> None:
    document = only(CASES, "normal_operations")
    pod3 = next(one for one in document["tests"][0]["steps"] if one.get("pod") == "pod3")
    assert pod3["expect"]["leafCells"] == list(range(8, 16))
    for told_of in (pod3["expect"], pod3["observed"]):
        told_of["leafCells"] = [0, 1, 2, 3, 8, 9, 10, 11]
    found, tally = differences(document)
    assert (found, tally.better) == ([], 1)
    document["pods"]["pod3"] |= {"leafCellNumber": 9}
    document["pods"]["pod3"]["affinityGroup"]["members"][0]["leafCellNumber"] = 9
    for told_of in (pod3["expect"], pod3["observed"]):
        told_of["leafCells"] = [0]
    assert [one.kind for one in differences(document)[0]] == ["counts"]


def test_a_place_that_is_not_there_is_told() -> None:
    document = only(CASES, "normal_operations")
    step_of(document, "schedule", result="bind")["expect"]["node"] = "9.9.9.9"
    assert [one.kind for one in differences(document)[0]] == ["counts"]


def test_an_assertion_that_does_not_hold_is_told() -> None:
    document = only(CASES, "stateful_preemption")
    document["tests"][0]["steps"] = document["tests"][0]["steps"][:3] + [
        {"op": "assertGroupState", "group": "group20", "state": "Allocated"},
        {"op": "assertGroupAbsent", "group": "group19"},
        {"op": "assertGroupLazyPreempted", "group": "group19"},
    ]
    assert [(kind, got) for kind, _, got in told(document)] == [
        ("assertGroupState", "Preempting"),
        ("assertGroupAbsent", "BeingPreempted"),
        ("assertGroupLazyPreempted", False),
    ]


def test_a_configuration_that_is_taken_or_refused_otherwise_is_told() -> None:
    document = only(CASES, "invalid_initial_assignment")
    document["tests"][0]["config"] = "design"
    assert [kind for kind, _, _ in told(document)] == ["construction"]
    document = only(CASES, "normal_operations")
    document["tests"][0]["config"] = "design-invalid-assignment"
    assert [kind for kind, _, _ in told(document)] == ["construction"]
    document = only(CASES, "reconfiguration")
    step_of(document, "newScheduler")["config"] = "design-invalid-assignment"
    assert [kind for kind, _, _ in told(document)] == ["construction"]


def test_follow_mode_says_where_the_record_contradicts_itself() -> None:
    document = only(STREAMS, "golden_003")
    steps = document["tests"][0]["steps"]
    second = next(one for one in steps if one.get("pod") == "t3.j1-0" and one["op"] == "schedule")
    first = steps[0]
    second["observed"] = {**first["observed"], "leafCells": [0, 1]}
    assert "follow" in {one.kind for one in differences(document, follow=True)[0]}


BAD = {
    "no tests": ({}, "tests"),
    "a step that is none": ({"tests": [{"steps": [{"op": "dance"}]}]}, "tests[0].steps[0].op"),
    "a step without its pod": ({"tests": [{"steps": [{"op": "schedule"}]}]}, "tests[0].steps[0].pod"),
    "an unknown pod": ({"tests": [{"steps": [{"op": "addAllocated", "pod": "p"}]}]}, "tests[0].steps[0].pod"),
    "an unknown configuration": ({"tests": [{"config": "c"}]}, "tests[0].config"),
    "a request that is no mapping": ({"pods": {"p": 7}}, "pods.p"),
    "a number that is none": ({"pods": {"p": {"leafCellNumber": "2"}}}, "pods.p.leafCellNumber"),
    "victims that are no names": (
        {"tests": [{"steps": [{"op": "schedule", "observed": {"result": "preempt", "victimsByNode": {"n": [1]}}}]}]},
        "tests[0].steps[0].observed.victimsByNode.n[0]",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_of_another_shape_is_refused_with_the_path(case: str) -> None:
    document, path = BAD[case]
    with pytest.raises(ConfigError) as refused:
        read(document)
    assert path in {fault.path for fault in refused.value.faults}


@pytest.mark.parametrize("document", [None, 7, [], "text", [[]], {"tests": 3}, {"pods": {"p": None}}], ids=str)
def test_junk_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError):
        read(document)


@pytest.mark.soak
def test_thousands_of_random_streams_have_no_difference_and_break_no_invariant() -> None:
    for seed in range(1000, 3000):
        document, faults = stream(seed, Reference)
        assert faults == [], seed
        assert differences(json.loads(json.dumps(document)), follow=True)[0] == [], seed
