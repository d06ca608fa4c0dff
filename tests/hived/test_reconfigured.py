"""A restart with another configuration: teams and machines that are gone; and claims that are followed."""

import json
from typing import Any

import pytest

from tests.hived.cases import read
from tests.hived.run import Tally, replay


def configuration(nodes: list[str], *teams: str) -> dict[str, Any]:
    """A rack of nodes of two GPUs; each team owns a node."""
    types = {
        "RACK": {"childCellType": "NODE", "childCellNumber": len(nodes)},
        "NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True},
    }
    cells = [{"cellType": "RACK", "cellChildren": [{"cellAddress": name} for name in nodes]}]
    quotas = {team: {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}]} for team in teams}
    return {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": quotas}


def pod(team: str, group: str, priority: int = 0, gpus: int = 2, pods: int = 1) -> dict[str, Any]:
    members = [{"podNumber": pods, "leafCellNumber": gpus}]
    asked = {"virtualCluster": team, "priority": priority, "leafCellType": "GPU", "leafCellNumber": gpus}
    return {**asked, "affinityGroup": {"name": group, "members": members}}


def asks(name: str, node: str, *gpus: int) -> list[dict[str, Any]]:
    """The pod is told to bind there, and is bound."""
    told = {"result": "bind", "node": node, "leafCells": list(gpus)}
    return [{"op": "schedule", "pod": name, "observed": told}, {"op": "addAllocated", "pod": name}]


def restarted(config: str, name: str) -> list[dict[str, Any]]:
    return [{"op": "newScheduler", "config": config}, {"op": "addAllocated", "pod": name, "recovered": True}]


def state(group: str, expected: str) -> dict[str, Any]:
    return {"op": "assertGroupState", "group": group, "state": expected}


def told(steps: list[dict[str, Any]], pods: dict[str, Any], follow: bool, config: str = "two") -> list[Any]:
    configs = {
        "two": configuration(["n0", "n1"], "a", "b"),
        "without a": configuration(["n0", "n1"], "b"),
        "elsewhere": configuration(["m0", "m1"], "a", "b"),
        "gpus": configuration(["n0", "n1"]),
    }
    configs["gpus"]["virtualClusters"] = {"c": {"virtualCells": [{"cellType": "RACK.NODE.GPU", "cellNumber": 2}]}}
    configs["kept"] = configuration(["n0", "n1"])
    configs["kept"]["physicalCluster"]["physicalCells"][0]["cellChildren"][0]["pinnedCellId"] = "corner"
    configs["kept"]["virtualClusters"] = {"c": {"pinnedCells": [{"pinnedCellId": "corner"}]}}
    configs["kept, of others"] = json.loads(json.dumps(configs["kept"]).replace("GPU", "TPU"))
    document = {"configs": configs, "pods": pods, "tests": [{"name": "it", "config": config, "steps": steps}]}
    return list(replay(read(document), follow, Tally()))


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
def test_a_group_of_a_team_that_is_gone_runs_on_outside_every_quota(follow: bool) -> None:
    steps = [
        *asks("p", "n0", 0, 1),
        *restarted("without a", "p"),
        {"op": "assertGroupLazyPreempted", "group": "p"},
        {"op": "schedule", "pod": "late", "observed": {"result": "wait"}},
        *asks("q", "n1", 0, 1),
        {"op": "deleteAllocated", "pod": "p"},
        {"op": "assertGroupAbsent", "group": "p"},
    ]
    assert told(steps, {"p": pod("a", "p"), "q": pod("b", "q"), "late": pod("a", "late")}, follow) == []


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
def test_a_group_whose_machines_are_all_gone_stays_allocated_until_its_pods_end(follow: bool) -> None:
    steps = [
        *asks("p", "n0", 0, 1),
        *restarted("elsewhere", "p"),
        state("p", "Allocated"),
        {"op": "assertGroupNotLazyPreempted", "group": "p"},
        {"op": "deleteAllocated", "pod": "p"},
        {"op": "assertGroupAbsent", "group": "p"},
    ]
    assert told(steps, {"p": pod("a", "p")}, follow) == []


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
@pytest.mark.parametrize("config", ["two", "without a", "elsewhere"])
def test_a_pod_that_binds_once_the_scheduler_is_another_runs_on(config: str, follow: bool) -> None:
    told_to, bound = asks("p", "n0", 0, 1)
    steps = [
        told_to,
        {"op": "newScheduler", "config": config},
        bound,
        state("p", "Allocated"),
        {"op": "assertLeafTypesUsed", "pods": ["p"], "types": ["GPU"]},
        {"op": "assertGroupLCA", "group": "p", "cellType": "NODE"},
        *([] if config == "elsewhere" else asks("q", "n1", 0, 1)),
        {"op": "deleteAllocated", "pod": "p"},
        {"op": "assertGroupAbsent", "group": "p"},
    ]
    found = told(steps, {"p": pod("a", "p"), "q": pod("b", "q")}, follow)
    assert [(one.expected, one.got) for one in found] == ([("NODE", None)] if config == "elsewhere" else [])


def test_followed_claims_lie_where_the_group_binds_later_whichever_of_its_pods_asks_first() -> None:
    preempts = {"result": "preempt", "victimsByNode": {"n0": ["low"]}}
    steps = [
        *asks("low", "n0", 0),
        {"op": "schedule", "pod": "high-0", "observed": preempts},
        *asks("lent", "n0", 1),
        state("high", "Preempting"),
        {"op": "deleteAllocated", "pod": "low"},
        *asks("high-1", "n1", 0),
        *asks("high-0", "n0", 0),
    ]
    both = {f"high-{number}": pod("c", "high", 5, 1, 2) for number in (0, 1)}
    pods = both | {"low": pod("c", "low", 0, 1), "lent": pod("c", "lent", -1, 1)}
    assert told(steps, pods, follow=True, config="gpus") == []


@pytest.mark.parametrize("follow", [False, True], ids=["strict", "follow"])
def test_whoever_names_a_pinned_cell_takes_it_of_whatever_type_it_is_now(follow: bool) -> None:
    steps = [
        *asks("low", "n0", 0, 1),
        *restarted("kept, of others", "low"),
        {"op": "schedule", "pod": "high", "observed": {"result": "preempt", "victimsByNode": {"n0": ["low"]}}},
        {"op": "deleteAllocated", "pod": "low"},
        *asks("high", "n0", 0, 1),
    ]
    pods = {name: {**pod("c", name, number), "pinnedCellId": "corner"} for number, name in enumerate(("low", "high"))}
    assert told(steps, pods, follow, config="kept") == []
