"""What holds in every world: no GPU twice, quotas kept, the same answer for the same state, true reasons."""

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduling import Cluster, Code, Engine, Job, Node, Plan, Policy, Snapshot, Standing, Start, Wait, refusals
from scheduling.model.cluster import Order
from tests.unit.scheduling.builders import carry_out, cluster, job, node, role
from tests.unit.scheduling.playing import run_to_the_end
from tests.unit.scheduling.worlds import (
    SKUS,
    VCS,
    clusters,
    fits_somehow,
    free_on,
    held,
    holds,
    jobs,
    named,
    passed,
    wanting_a_start,
    with_plenty,
)

EXAMPLES = os.environ.get("BERTH_TEST_EXAMPLES", "")
# The same ones each time, so that a run says what the change under it did; `make soak` looks for others.
few = settings(max_examples=int(EXAMPLES or 60), derandomize=not EXAMPLES)
JOBS = st.lists(jobs(), min_size=1, max_size=12).map(named)
ENDS = st.lists(st.integers(0, 7), max_size=4)


def lived(described: Cluster, waiting: list[Job], ends: list[int]) -> Engine:
    """An engine after some jobs came, started and ended, with the last halves still waiting."""
    made = Engine(described)
    accepted = [one for one in waiting if not refusals(described, one)]
    for one in accepted[::2]:
        made.submit(one)
    carry_out(made)
    for number in ends:
        running = made.snapshot().running
        if running:
            made.finish(running[number % len(running)].job.id)
    for one in accepted[1::2]:
        made.submit(one)
    return made


def check_books(state: Snapshot) -> None:
    assert all(len(holders) == 1 for holders in holds(state).values())
    for vc in state.cluster.virtual_clusters:
        for sku in SKUS:
            assert held(state, vc.id, sku) <= vc.owned(sku)
    for one in state.cluster.nodes:
        here = [task.placement for running in state.running for task in running.tasks if task.placement.node == one.id]
        assert sum(placement.cpu_milli for placement in here) <= one.cpu_milli
        assert sum(placement.memory_mb for placement in here) <= one.memory_mb
        ids = {leaf.id for leaf in one.leaves}
        assert all(use.leaf in ids for placement in here for use in placement.leaves)


@few
@given(clusters(), JOBS, ENDS)
def test_no_gpu_twice_and_quotas_cpu_and_memory_are_kept(
    described: Cluster, waiting: list[Job], ends: list[int]
) -> None:
    made = lived(described, waiting, ends)
    check_books(made.snapshot())
    carry_out(made)
    check_books(made.snapshot())


@few
@given(clusters(), JOBS, ENDS)
def test_every_task_gets_what_its_role_asks_for_on_one_node_in_service(
    described: Cluster, waiting: list[Job], ends: list[int]
) -> None:
    made = lived(described, waiting, ends)
    usable = {
        leaf.id: leaf.node for one in described.nodes if one.state == "open" for leaf in one.leaves if leaf.healthy
    }
    for start in made.plan(0).starts:
        for placement in start.placements:
            role = start.job.role(placement.role)
            assert len(placement.leaves) == role.gpus
            assert (placement.cpu_milli, placement.memory_mb) == (role.cpu_milli, role.memory_mb)
            assert {usable[use.leaf] for use in placement.leaves} <= {placement.node}
            standings = {use.standing for use in placement.leaves}
            lent = start.job.opportunistic or start.job.is_extra(placement.task)
            expected = Standing.BORROWED if lent else Standing.GUARANTEED
            assert standings <= {expected}


@few
@given(clusters(), st.integers(0, 15), JOBS, ENDS)
def test_no_task_without_gpus_comes_to_a_node_that_takes_none(
    described: Cluster, shut: int, waiting: list[Job], ends: list[int]
) -> None:
    nodes = tuple(
        replace(one, cpu_tasks=not shut >> number & 1) for number, one in enumerate(described.nodes)
    )  # fmt: skip
    made = lived(replace(described, nodes=nodes), waiting, ends)
    for now in range(3):
        plan = carry_out(made, now)
        for answer in plan.answers:
            assert all(answer.job.role(one.role).gpus or takes(nodes, one.node) for one in answer.placements)
        for one in made.snapshot().running:
            assert all(task.placement.leaves or takes(nodes, task.placement.node) for task in one.tasks)


def takes(nodes: tuple[Node, ...], name: str) -> bool:
    return next(one.takes_cpu_tasks for one in nodes if one.id == name)


@few
@given(clusters(), JOBS, ENDS)
def test_a_gang_starts_whole_or_not_at_all(described: Cluster, waiting: list[Job], ends: list[int]) -> None:
    plan = lived(described, waiting, ends).plan(0)
    for start in plan.starts:
        if start.job.gang and not all(map(start.job.is_extra, start.job.wanted)):
            assert {placement.task for placement in start.placements} == set(start.job.wanted)
    for one in {start.job.id for start in plan.starts} & {wait.job.id for wait in plan.waits}:
        assert not next(start.job.gang for start in plan.starts if start.job.id == one)


@few
@given(clusters(), JOBS, ENDS, st.randoms(use_true_random=False))
def test_the_same_state_gives_the_same_plan_whatever_the_order_of_its_rows(
    described: Cluster, waiting: list[Job], ends: list[int], shuffler: object
) -> None:
    made = lived(described, waiting, ends)
    state = made.snapshot()
    shuffle = shuffler.shuffle  # type: ignore[attr-defined]
    nodes, running, queue = list(state.cluster.nodes), list(state.running), list(state.waiting)
    for rows in (nodes, running, queue):
        shuffle(rows)
    shuffled = replace(
        state,
        cluster=Cluster(tuple(nodes), tuple(reversed(state.cluster.virtual_clusters))),
        running=tuple(running),
        waiting=tuple(queue),
    )
    assert Engine.restore(shuffled).plan(7) == made.plan(7)


@few
@given(clusters(), JOBS, ENDS)
def test_restoring_a_snapshot_is_going_on(described: Cluster, waiting: list[Job], ends: list[int]) -> None:
    made = lived(described, waiting, ends)
    again = Engine.restore(made.snapshot())
    assert again.snapshot() == made.snapshot()
    assert carry_out(again, 5) == carry_out(made, 5)
    assert again.snapshot() == made.snapshot()


@few
@given(clusters(), JOBS, ENDS)
def test_passes_come_to_rest(described: Cluster, waiting: list[Job], ends: list[int]) -> None:
    made = lived(described, waiting, ends)
    last = settled(made)
    again = made.plan(0)
    assert again.answers == ()
    assert {wait.job.id: wait for wait in again.waits} == {wait.job.id: wait for wait in last.waits}


def settled(made: Engine) -> Plan:
    """The first plan of which nothing can be done, and that keeps cells for the same jobs as before."""
    for _ in range(20):
        kept = made.snapshot().reservations
        plan = carry_out(made)
        moved = plan.answers or plan.promotions or plan.demotions or plan.releases
        if not moved and plan.reservations == kept:
            return plan
    raise AssertionError("the plans go round")


@few
@given(clusters(), JOBS, ENDS)
def test_every_waiting_job_starts_or_has_its_reason(described: Cluster, waiting: list[Job], ends: list[int]) -> None:
    made = lived(described, waiting, ends)
    plan = made.plan(0)
    told = {start.job.id for start in plan.starts} | {wait.job.id for wait in plan.waits}
    state = made.snapshot()
    assert wanting_a_start(state.waiting) <= told <= {one.id for one in state.waiting}
    assert len(plan.waits) == len({wait.job.id for wait in plan.waits})


@few
@given(clusters(), JOBS, ENDS, st.booleans(), st.booleans())
def test_a_plan_without_reasons_decides_the_same(
    described: Cluster, waiting: list[Job], ends: list[int], backfill: bool, fair: bool
) -> None:
    order = Order.FAIR if fair else Order.SUBMISSION
    made = lived(replace(described, policy=Policy(backfill=backfill, order=order)), waiting, ends)
    assert made.plan(0, with_reasons=False) == replace(made.plan(0), waits=())


@few
@given(clusters(), JOBS, ENDS)
def test_nobody_passes_a_waiting_job_of_the_same_team_and_sku(
    described: Cluster, waiting: list[Job], ends: list[int]
) -> None:
    plan = lived(replace(described, policy=Policy(backfill=False)), waiting, ends).plan(0)
    assert passed(described, plan) == []


@few
@given(clusters(healthy=True), st.lists(jobs(lowest=0), min_size=1, max_size=8).map(named))
def test_everything_that_was_accepted_runs_when_jobs_end(described: Cluster, waiting: list[Job]) -> None:
    accepted = [one for one in waiting if not refusals(described, one) and runs_on_the_idle_cluster(described, one)]
    arrivals = [(one.submitted_ms, one) for one in accepted]
    run = run_to_the_end(Engine(described), arrivals, {one.id: 3 + one.order_id for one in accepted})
    assert set(run.ended) == {one.id for one in accepted}
    assert all(set(run.tasks_of(one.id)) == set(one.wanted) for one in accepted)


def runs_on_the_idle_cluster(described: Cluster, one: Job) -> bool:
    """Not so for tasks without GPUs, by themselves, that need what is kept for the GPUs while these idle. Whoever wants
    GPUs and was accepted can start there."""
    pieces = [one] if one.gang else [one._replace(wanted=(task,)) for task in one.wanted]
    bare = [piece for piece in pieces if not any(piece.role(task.role).gpus for task in piece.wanted)]
    return all(isinstance(Engine(described).decide(piece, 0), Start) for piece in bare)


@few
@given(clusters(healthy=True), st.lists(jobs(lowest=0), min_size=1, max_size=6).map(named), st.sampled_from(VCS))
def test_single_gpu_jobs_inside_the_quota_start_at_once_whatever_the_other_team_runs(
    described: Cluster, theirs: list[Job], mine: str
) -> None:
    made = lived(described, [one._replace(vc=next(vc for vc in VCS if vc != mine)) for one in theirs], [])
    carry_out(made)
    state = made.snapshot()
    roomy = Engine.restore(with_plenty(state))
    sku = next((sku for sku in SKUS for vc in described.virtual_clusters if vc.id == mine and vc.owned(sku)), None)
    assume(sku is not None)
    answer = roomy.decide(one_gpu_each(mine, str(sku), described), 0)
    assert not isinstance(answer, Wait)
    extra = {(one.id, task) for one in theirs for task in one.wanted if one.is_extra(task)}
    assert {(one.job, task) for one in getattr(answer, "victims", ()) for task in one.tasks} <= extra


def one_gpu_each(vc: str, sku: str, described: Cluster) -> Job:
    """A gang of one-GPU tasks that fills the team's whole quota of a SKU."""
    owned = next(one.owned(sku) for one in described.virtual_clusters if one.id == vc)
    return job("mine", role(count=owned, cpu=0, memory=0, sku=sku), vc=vc)


USED = st.lists(st.integers(0, 4), min_size=1, max_size=3)
SIZES = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5)


@settings(max_examples=300)
@given(USED, SIZES)
def test_a_gang_starts_exactly_when_some_way_of_placing_it_exists(used: list[int], sizes: list[int]) -> None:
    described = cluster(*(node(f"n{number}", 4) for number in range(len(used))), vision=4 * len(used))
    made = Engine(described)
    for number, gpus in enumerate(used):
        if gpus:
            made.submit(job(f"busy{number}", role(gpus=gpus, cpu=0), only=(f"n{number}",)))
    carry_out(made)
    state = made.snapshot()
    gang = job("gang", *(role(f"r{number}", gpus=gpus) for number, gpus in enumerate(sizes)))
    answer = made.decide(gang, 0)
    assert isinstance(answer, Start) == fits_somehow(state, [(gpus, "A100") for gpus in sizes])
    if isinstance(answer, Wait) and sum(sizes) <= 4 * len(used) - sum(used):
        assert answer.reason.code == Code.FRAGMENTED
        assert answer.reason.numbers["largest"] == max(free_on(state).values())


LIVED = (clusters(), JOBS, ENDS)
HEALTHY = (clusters(healthy=True), st.lists(jobs(lowest=0), min_size=1, max_size=12).map(named))
SOAKED: dict[str, tuple[Any, tuple[st.SearchStrategy[Any], ...]]] = {
    "books": (test_no_gpu_twice_and_quotas_cpu_and_memory_are_kept, LIVED),
    "equal plans": (
        test_the_same_state_gives_the_same_plan_whatever_the_order_of_its_rows,
        (*LIVED, st.randoms(use_true_random=False)),
    ),
    "restoring": (test_restoring_a_snapshot_is_going_on, LIVED),
    "rest": (test_passes_come_to_rest, LIVED),
    "reasons": (test_every_waiting_job_starts_or_has_its_reason, LIVED),
    "order": (test_nobody_passes_a_waiting_job_of_the_same_team_and_sku, LIVED),
    "no starvation": (test_everything_that_was_accepted_runs_when_jobs_end, HEALTHY),
}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SOAKED)
def test_the_same_in_thousands_of_cases(name: str) -> None:
    test, strategies = SOAKED[name]
    many = settings(max_examples=3_000, suppress_health_check=list(HealthCheck))
    many(given(*strategies)(test.hypothesis.inner_test))()
