"""A job that can never run is refused when it is submitted, with the number that is too large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.common.priorities import PRIORITY_CLASSES
from portal.job_file.engine_job import engine_job
from portal.job_file.facts import ClusterFacts
from portal.job_file.model import JobSpec
from portal.job_file.validate import parse
from scheduling import Cluster, Engine, Job, Rules, Snapshot
from scheduling.cycle.context import ClusterContext
from tests.support.cluster.job_files import Change, facts, job_file, problems, server, two_teams
from tests.support.cluster.lab6 import lab_job
from tests.unit.scheduling.cellworlds import clusters

VISION = ("defaults/virtualCluster", "vision")
SPEECH = ("defaults/virtualCluster", "speech")
TASKS = "taskRoles/train/instances"
GPU = "taskRoles/train/resourcePerInstance/gpu"
CPU = "taskRoles/train/resourcePerInstance/cpu"
MEMORY = "taskRoles/train/resourcePerInstance/memoryMB"
SKU = "extras/hivedScheduler/taskRoles/train/skuType"
CELL = "extras/hivedScheduler/taskRoles/train/pinnedCellId"
OPPO = ("extras/hivedScheduler/jobPriorityClass", "oppo")
LOOSE = ("extras/gangAllocation", False)

REFUSED: dict[str, tuple[list[Change], str, str, str]] = {
    "an unknown team": (
        [("defaults/virtualCluster", "nlp")],
        "defaults.virtualCluster",
        "vc_unknown",
        "you may not submit to virtual cluster nlp; yours: default, speech, vision",
    ),
    "an unknown SKU": (
        [VISION, (SKU, "V100")],
        "extras.hivedScheduler.taskRoles.train.skuType",
        "sku_unknown",
        "no SKU is named V100; known: A100, H100",
    ),
    "a SKU the team has none of": (
        [VISION, (SKU, "H100")],
        "extras.hivedScheduler.taskRoles.train.skuType",
        "sku_not_in_vc",
        "virtual cluster vision has no H100; it has: A100",
    ),
    "more GPUs per task than any node of the team's SKUs": (
        [VISION, LOOSE, (GPU, 5)],
        "taskRoles.train.resourcePerInstance.gpu",
        "node_too_small",
        "asks for 5 GPUs per task; the largest node it may use has 4",
    ),
    "more GPUs per task than any node of the SKU it names": (
        [SPEECH, LOOSE, (GPU, 5), (SKU, "A100")],
        "taskRoles.train.resourcePerInstance.gpu",
        "node_too_small",
        "asks for 5 GPUs per task; the largest node of SKU A100 it may use has 4",
    ),
    "more CPU cores than any GPU node": (
        [VISION, (CPU, 33)],
        "taskRoles.train.resourcePerInstance.cpu",
        "node_too_small",
        "asks for 33 CPU cores per task; the largest node it may use has 32",
    ),
    "more memory than any node": (
        [VISION, (GPU, 0), (MEMORY, 256_001)],
        "taskRoles.train.resourcePerInstance.memoryMB",
        "node_too_small",
        "asks for 256,001 MB of memory per task; the largest node it may use has 256,000",
    ),
    "a mix no single node has": (
        [SPEECH, (GPU, 8), (TASKS, 1), (MEMORY, 200_000)],
        "taskRoles.train.resourcePerInstance",
        "node_too_small",
        "no node has 8 GPUs, 1 CPU core and 200,000 MB together",
    ),
    "a gang beyond the quota": (
        [VISION, (TASKS, 5)],
        "taskRoles",
        "over_quota",
        "Job requests 5 SKUs, exceeds maximum 4 SKUs in VC vision.",
    ),
    "a gang beyond the quota of the SKU it names": (
        [SPEECH, (TASKS, 5), (SKU, "A100")],
        "taskRoles",
        "over_quota",
        "Job requests 5 A100 SKUs, exceeds maximum 4 A100 SKUs in VC speech.",
    ),
    "a gang beyond each single SKU's quota, since it does not mix them": (
        [SPEECH, (TASKS, 9)],
        "taskRoles",
        "over_quota",
        "Job requests 9 SKUs, exceeds maximum 8 SKUs in VC speech.",
    ),
    "a gang with GPUs in a team without": (
        [],
        "taskRoles",
        "over_quota",
        "Job requests 2 SKUs, exceeds maximum 0 SKUs in VC default.",
    ),
    "a gang that all nodes together cannot hold": (
        [VISION, OPPO, (GPU, 3), (TASKS, 5), (SKU, "A100")],
        "taskRoles.train.instances",
        "cluster_too_small",
        "asks for 5 tasks at once; all nodes together, empty, hold 2 of this size",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_its_number(name: str) -> None:
    changes, path, code, message = REFUSED[name]
    found = problems(job_file(*changes), two_teams())
    assert (path, code, message) in [(problem.path, problem.code, problem.message) for problem in found]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([VISION, (TASKS, 4)], id="the whole quota"),
        pytest.param([VISION, (TASKS, 50), LOOSE], id="more than the quota when not a gang"),
        pytest.param([VISION, (TASKS, 8), OPPO], id="more than the quota when opportunistic"),
        pytest.param([VISION, OPPO, (SKU, "H100"), (GPU, 4)], id="another team's SKU when opportunistic"),
        pytest.param([SPEECH, (GPU, 8), (TASKS, 1)], id="a whole node"),
        pytest.param([VISION, (TASKS, 1), (GPU, 0), (CPU, 100)], id="CPU only on a node without GPUs"),
        pytest.param([VISION, (CELL, "rack-1"), (TASKS, 8)], id="a pinned cell beside the quota"),
    ],
)
def test_what_can_run_one_day_is_accepted(changes: list[Change]) -> None:
    assert isinstance(parse(job_file(*changes), two_teams()), JobSpec)


def test_fit_is_told_together_with_the_other_problems() -> None:
    found = problems(job_file(VISION, (GPU, 5), ("extras/berth/borrow", "maybe")), two_teams())
    assert {problem.code for problem in found} == {"node_too_small", "over_quota", "enum"}


@pytest.mark.parametrize(("gang", "accepted"), [("true", False), ("false", True)])
def test_the_lab_s_four_tasks_on_two_gpus_are_refused_as_a_gang_only(gang: str, accepted: bool) -> None:
    lab = facts([server(name, 1, "LAB", cpu=2, memory_mb=4_096) for name in "ab"], {"default": {"LAB": 2}})
    text = lab_job(6)
    text = text.replace("instances: 2", "instances: 4").replace("gangAllocation: true", f"gangAllocation: {gang}")
    messages = [problem.message for problem in problems(text, lab)]
    sentence = "Job requests 4 SKUs, exceeds maximum 2 SKUs in VC default."
    assert (messages == []) if accepted else (sentence in messages)


# ---------------------------------------------------------------- the scheduler itself


RULES = st.builds(
    Rules,
    user_factor=st.none() | st.sampled_from([0.3, 0.5, 1.0, 2.0]),
    user_gpus=st.none() | st.integers(0, 6),
    class_gpus=st.none() | st.integers(0, 6),
    class_priority=st.just(PRIORITY_CLASSES["prod"]),
)
SIZES = st.integers(1, 6)


@st.composite
def described(draw: st.DrawFn) -> Cluster:
    """A cluster of any cells, quotas and limits, which keeps nothing for idle GPUs."""
    made = draw(clusters())
    nodes = tuple(replace(node, reserve_cpu_milli=0, reserve_memory_mb=0) for node in made.nodes)
    vcs = tuple(replace(vc, rules=draw(RULES)) for vc in made.virtual_clusters)
    return replace(made, nodes=nodes, virtual_clusters=vcs)


@st.composite
def files(draw: st.DrawFn, cluster: Cluster) -> str:
    """A job file for it, which asks for anything."""
    vc = draw(st.sampled_from(cluster.virtual_clusters))
    roles: dict[str, Any] = {}
    cells: dict[str, Any] = {}
    level = draw(st.sampled_from(["oppo", "test", "prod"]))
    for name in draw(st.sampled_from([("a",), ("a", "b")])):
        needs = {"gpu": draw(st.integers(0, 5)), "cpu": draw(SIZES), "memoryMB": draw(SIZES) * 2048}
        roles[name] = {
            "instances": draw(SIZES), "dockerImage": "image", "resourcePerInstance": needs, "commands": ["true"],
        }  # fmt: skip
        pins = [
            {"pinnedCellId": pin} for pin in vc.pinned if level != "oppo"
        ]  # else it asks for what contradicts itself
        cell = draw(st.sampled_from([{}, {}, {"skuType": "A"}, {"skuType": "B"}, *pins]))
        cells |= {name: cell} if cell else {}
    names = [node.id for node in cluster.nodes]
    nodes = draw(st.sampled_from([{}, {}, {"only": names[:1]}, {"not": names[:1]}]))
    hived = {"jobPriorityClass": level, "taskRoles": cells}
    extras = {"hivedScheduler": hived, "gangAllocation": draw(st.booleans()), "berth": {"nodes": nodes}}
    return job_file(("taskRoles", roles), ("defaults", {"virtualCluster": vc.id}), ("extras", extras))


@settings(max_examples=150)
@given(st.data())
def test_a_job_is_accepted_exactly_when_it_would_run_on_the_empty_cluster(data: st.DataObject) -> None:
    cluster = data.draw(described())
    text = data.draw(files(cluster))
    known = ClusterFacts(vcs=tuple(vc.id for vc in cluster.virtual_clusters), context=ClusterContext(cluster))
    job = engine_job(parse(text), [node.id for node in cluster.nodes])
    alone = [job.wanted] if job.gang else [(task,) for task in job.wanted]
    runs = all(starts(cluster, job._replace(wanted=tasks)) for tasks in alone)
    assert runs == (not problems(text, known)), problems(text, known)


def starts(cluster: Cluster, job: Job) -> bool:
    """Whether the scheduler's first pass over this job alone starts all of it."""
    plan = Engine.restore(Snapshot(cluster, waiting=(job,))).plan(0)
    return {place.task for start in plan.starts for place in start.placements} == set(job.wanted)
