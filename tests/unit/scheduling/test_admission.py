"""A request that can never run is refused at once, saying which number is too large."""

from dataclasses import replace

import pytest

from scheduling import (
    CellType,
    Engine,
    Job,
    JobRefused,
    NodeState,
    PinnedCell,
    QuotaLine,
    Role,
    TaskRef,
    VirtualCluster,
    refusals,
)
from tests.unit.scheduling.builders import cluster, job, node, role

HERE = cluster(
    node("a", 4, cpu=16, memory=64), node("b", 2, cpu=32, memory=64), node("h", 4, "H100"), vision=4,
    speech={"A100": 2, "H100": 4}, guests=0,
)  # fmt: skip
NOTHING = Role("worker", 1, 0, 0, 0)

REFUSED: dict[str, tuple[Job, str, str]] = {
    "an unknown team": (job("j", vc="nobody"), "vc", "there is no virtual cluster nobody"),
    "a priority too high": (job("j", priority=1001), "priority", "priority 1001 is not in the range from -1 to 1000"),
    "a role without resources": (job("j", NOTHING), "gpus", "role worker asks for no resources"),
    "an unknown SKU": (job("j", role(sku="V100")), "sku", "no node has V100"),
    "an elastic role with no task in the gang": (
        job("j", role(count=4, least=0)), "least",
        "role worker is to run with at least 0 tasks; that is not in the range 1 to 4",
    ),
    "an elastic role with more tasks in the gang than it has": (
        job("j", role(count=4, least=5)), "least",
        "role worker is to run with at least 5 tasks; that is not in the range 1 to 4",
    ),
    "an elastic role of a job that is no gang": (
        job("j", role(count=4, least=2), gang=False), "least",
        "role worker is to run with at least 2 tasks, but the job is no gang",
    ),
    "an elastic role without GPUs": (
        job("j", role(count=4, gpus=0, least=2)), "least",
        "role worker has no GPUs: it cannot grow into idle ones",
    ),
    "more GPUs than a node has": (
        job("j", role(gpus=5)), "gpus", "role worker asks for 5 GPUs on one node; a node has 4",
    ),
    "more CPU than a node of the SKU has": (
        job("j", role(cpu=33)), "cpu_milli", "role worker asks for 33000 milli-cores of CPU; a node has 32000",
    ),
    "more memory than a node of the SKU has": (
        job("j", role(memory=65)), "memory_mb", "role worker asks for 66560 MB of memory; a node has 65536",
    ),
    "amounts that exist, but not on one node": (
        job("j", role(gpus=4, cpu=20)), "cpu_milli",
        "no single node has all that a task of role worker asks for",
    ),
    "a gang larger than the quota": (
        job("j", role(count=5)), "gpus", "the job needs 5 A100 at once; team vision owns 4",
    ),
    "a single task larger than the quota": (
        job("j", role(gpus=3, count=2), vc="speech", gang=False), "gpus",
        "the job needs 3 A100 at once; team speech owns 2",
    ),
    "an opportunistic gang larger than the cluster": (
        job("j", role(count=7), priority=-1), "gpus", "the job needs 7 A100 at once; the cluster has 6",
    ),
    "a gang that fits no set of nodes": (
        job("j", role(count=2, gpus=2, cpu=20)), "roles",
        "tasks of 2 x 2 A100 do not fit the nodes, even when all are idle",
    ),
    "a gang whose other task needs CPU that is kept for GPUs": (
        job("j", role(), role("helper", gpus=0, cpu=17, sku=None)), "roles",
        "tasks of 1 x 1 A100, 1 x 0 GPUs do not fit the nodes beside the CPU and memory that these keep for idle GPUs",
    ),
    "a job for nodes that are not there": (
        job("j", only=("z",)), "roles", "tasks of 1 x 1 A100 do not fit the nodes, even when all are idle",
    ),
    "GPUs for a team that owns none": (job("j", role(sku=None), vc="guests"), "sku", "team guests owns no GPUs"),
    "a job that waits for itself": (job("j", after=("j",)), "after", "the job waits for itself"),
    "no tasks": (job("j", role(count=0)), "wanted", "the job asks for no task"),
    "a task asked for twice": (
        job("j")._replace(wanted=(TaskRef("worker", 0), TaskRef("worker", 0))), "wanted",
        "the job asks for a task twice",
    ),
    "a pinned cell, which nobody has": (
        job("j", replace(role(), pinned_cell="rack1")), "pinned_cell", "team vision has no reserved servers rack1",
    ),
    "tasks that no role has": (
        job("j")._replace(wanted=(TaskRef("worker", 1),)), "wanted",
        "the job asks for tasks that its roles do not have",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    asked, field, sentence = REFUSED[case]
    with pytest.raises(JobRefused) as refused:
        Engine(HERE).submit(asked)
    assert [(one.field, one.sentence) for one in refused.value.refusals] == [(field, sentence)]


ACCEPTED: dict[str, Job] = {
    "a gang as large as the quota": job("j", role(count=4)),
    "tasks beyond the quota that need not run together": job("j", role(count=40), gang=False),
    "an opportunistic job beyond the quota": job("j", role(count=6), vc="guests", priority=-1),
    "a gang that fits the second of its team's SKUs": job("j", role(gpus=4, sku=None), vc="speech"),
    "a task without GPUs of a team that owns none": job("j", role(gpus=0, sku=None), vc="guests"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str) -> None:
    assert refusals(HERE, ACCEPTED[case]) == ()


PINNED = replace(
    cluster(node("a", shape="box"), node("h", 4, "H100", shape="hbox"), vision={"H100": 4}),
    cell_types=(CellType("box", "A100", 4, node_level=True), CellType("hbox", "H100", 4, node_level=True)),
    pinned_cells=(PinnedCell("mine", "box", "a"),),
    virtual_clusters=(VirtualCluster("vision", (QuotaLine("H100", 4),), pinned=("mine",)),),
)
PINS: dict[str, tuple[Job, list[tuple[str, str]]]] = {
    "a pinned cell": (job("j", replace(role(sku=None), pinned_cell="mine")), []),
    "a pinned cell with its SKU named": (job("j", replace(role(), pinned_cell="mine")), []),
    "a pinned cell of another SKU": (
        job("j", replace(role(sku="H100"), pinned_cell="mine")),
        [("sku", "role worker asks for H100; the reserved servers mine have A100")],
    ),
    "more than a pinned cell has": (
        job("j", replace(role(gpus=5), pinned_cell="mine")),
        [("gpus", "role worker asks for 5 GPUs on one node; the reserved servers have 4")],
    ),
    "equal tasks of which only some name the pinned cell": (
        job("j", replace(role("x", gpus=4, sku=None), pinned_cell="mine"), role("y", gpus=4), gang=False),
        [("roles", "tasks of 1 x 4 A100 do not fit the cells of team vision (none)")],
    ),
    "a pinned cell for an opportunistic job": (
        job("j", replace(role(), pinned_cell="mine"), priority=-1),
        [("pinned_cell", "an opportunistic job cannot use reserved servers")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PINS)
def test_pinned_cells(case: str) -> None:
    asked, expected = PINS[case]
    assert [(one.field, one.sentence) for one in refusals(PINNED, asked)] == expected


def test_what_is_out_of_service_now_is_no_reason_to_refuse() -> None:
    down = cluster(node("a", state=NodeState.DOWN), node("b", sick=(0, 1, 2, 3)), vision=8)
    assert refusals(down, job("j", role(count=8))) == ()


WITHOUT = role(gpus=0, cpu=8, sku=None)
SHUT: dict[str, tuple[Job, list[tuple[str, str]]]] = {
    "no node takes tasks without GPUs": (
        job("j", WITHOUT, only=("a",)), [("roles", "tasks of 1 x 0 GPUs do not fit the nodes, even when all are idle")],
    ),
    "none of the SKU does": (
        job("j", replace(WITHOUT, sku="A100")),
        [("gpus", "role worker asks for no GPUs; no server with A100 takes tasks without GPUs")],
    ),
    "more than one that does has": (
        job("j", replace(WITHOUT, cpu_milli=9000)),
        [("cpu_milli", "role worker asks for 9000 milli-cores of CPU; a node has 8000")],
    ),
    "one that does has room": (job("j", WITHOUT), []),
    "beside tasks with GPUs": (job("j", role(gpus=4), replace(WITHOUT, name="helper")), []),
}  # fmt: skip


@pytest.mark.parametrize("case", SHUT)
def test_tasks_without_gpus_count_on_the_nodes_that_take_them(case: str) -> None:
    asked, expected = SHUT[case]
    here = cluster(node("a", cpu_tasks=False), node("c", 0, cpu=8), vision=4)
    assert [(one.field, one.sentence) for one in refusals(here, asked)] == expected


def test_where_no_node_takes_them_tasks_without_gpus_are_refused() -> None:
    found = refusals(cluster(node("a", cpu_tasks=False), vision=4), job("j", WITHOUT))
    assert [one.sentence for one in found] == [
        "role worker asks for no GPUs; no server of this cluster takes tasks without GPUs"
    ]


def test_every_problem_is_told_at_once() -> None:
    found = refusals(HERE, job("j", role("x", gpus=9), role("y", sku="V100"), vc="nobody"))
    assert [(one.role, one.field) for one in found] == [(None, "vc"), ("x", "gpus"), ("y", "sku")]
