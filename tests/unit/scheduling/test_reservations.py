"""Cells kept for the first job that waits: who may run beside it, and who comes before it."""

from dataclasses import replace

import pytest

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    Code,
    Engine,
    Node,
    NodeState,
    Policy,
    QuotaLine,
    Snapshot,
    VirtualCluster,
    Wait,
)
from tests.unit.scheduling.builders import cluster, engine, give_back, job, node, role, running, wait_of

HOUR = 3_600_000
SHORT = 100


def lent_to_speech(grace: int) -> Engine:
    """`short` ends at 100 and lets `head` start then; the other GPU of the team is on loan."""
    made = running(
        cluster(node("a", 2), vision=2, speech=0),
        job("short", limit=SHORT),
        job("lent", vc="speech", priority=-1, grace=grace),
    )
    made.submit(job("head", role(count=2), order=1))
    return made


def test_the_grace_of_those_who_leave_counts_when_a_job_must_be_over_before_the_kept_cells_are_free() -> None:
    made = lent_to_speech(grace=60)
    made.submit(job("passes", limit=50, order=2))
    plan = made.plan(0)
    assert plan.preemptions == ()
    assert wait_of(plan, "passes").reason.numbers["job"] == "head"
    made.submit(job("passes", limit=40, order=2))
    assert [one.job.id for one in made.plan(0).preemptions] == ["passes"]


def test_of_several_who_leave_the_longest_grace_counts() -> None:
    made = running(
        cluster(node("a", 3), vision=3, speech=0),
        job("short", limit=SHORT),
        *(job(f"lent{grace}", vc="speech", priority=-1, grace=grace) for grace in (10, 60)),
    )
    made.submit(job("head", role(count=3), order=1))
    made.submit(job("passes", role(count=2), limit=50, order=2))
    assert made.plan(0).preemptions == ()
    made.submit(job("passes", role(count=2), limit=40, order=2))
    assert [one.job.id for one in made.plan(0).preemptions] == ["passes"]


def test_a_job_holds_its_cells_until_the_time_of_its_last_task_is_over() -> None:
    made = running(cluster(node("a", 3), vision=3), job("first", role(gpus=2)))
    made.submit(job("loose", role(count=2), gang=False, limit=SHORT))
    made.advance(0)
    made.finish("first")
    made.advance(50)
    made.submit(job("head", role(count=3), order=1))
    made.submit(job("passes", limit=60, order=2))
    assert [one.job.id for one in made.plan(50).starts] == ["passes"]
    made.submit(job("passes", limit=SHORT + 1, order=2))
    assert made.plan(50).starts == ()


def reserved_after_a_preemption(*, head_of: str) -> Engine:
    """`head` had cells kept when `early` of alice, submitted before it, lost its own to a higher class."""
    made = running(
        cluster(node("a", 2), vision=2), job("early", priority=5, at=1), job("long", priority=9, limit=SHORT)
    )
    made.submit(job("head", role(count=2), priority=5, at=2, user=head_of))
    made.advance(3)
    assert made.snapshot().reservations == ("head",)
    made.submit(job("high", priority=9, at=4))
    (preempt,) = made.advance(4).preemptions
    (victim,) = preempt.victims
    give_back(made, victim.job, victim.tasks)
    made.advance(4)
    return made


def test_a_preempted_job_waits_behind_another_users_for_which_cells_are_kept() -> None:
    """It keeps its submission, but a reservation stays with its holder until a higher priority comes."""
    made = reserved_after_a_preemption(head_of="bob")
    assert made.snapshot().reservations == ("head",)
    made.finish("high")
    made.finish("long")
    assert [one.job.id for one in made.advance(5).starts] == ["head"]


def test_a_preempted_job_waits_before_what_its_user_submitted_later() -> None:
    made = reserved_after_a_preemption(head_of="alice")
    assert made.snapshot().reservations == ("early",)
    made.finish("high")
    assert [one.job.id for one in made.advance(5).starts] == ["early"]


def test_an_earlier_job_that_is_held_or_wants_another_sku_takes_no_kept_cells() -> None:
    described = cluster(node("a", 2), node("h", 1, "H100"), vision={"A100": 2, "H100": 1})
    made = running(described, job("x", user="carol"), job("h", role(sku="H100"), user="carol"))
    made.submit(job("head", role(count=2), user="alice", at=5))
    made.advance(HOUR)
    earlier = (
        job("paused", paused=True, at=1), job("after", after=("x",), at=2), job("other", role(sku="H100"), at=3),
    )  # fmt: skip
    for one in (*earlier, job("fresh", role(count=2), user="dora", at=6)):
        made.submit(one)
    plan = made.plan(2 * HOUR)
    assert (wait_of(plan, "head").place, wait_of(plan, "fresh").place) == (1, 2)
    assert set(plan.reservations) == {"head", "other"}


def drained_with_three_jobs() -> tuple[Engine, Node]:
    """Their node was drained under `firm`, in quota, and `loan`, on loan; while they left, `waits` came first."""
    there = node("a", 4)
    made = engine(
        cluster(there, vision=2, speech=2),
        job("firm", role(gpus=2), at=1, limit=HOUR),
        job("loan", role(gpus=2), at=2, limit=HOUR, borrow=Borrow.AUTO),
    )
    assert {one.job.id for one in made.advance(3).starts} == {"firm", "loan"}
    made.submit(job("waits", role(gpus=2), at=4, limit=HOUR))
    made.set_node(replace(there, state=NodeState.DRAINING))
    leaving = {one.job.id: tuple(task.placement.task for task in one.tasks) for one in made.snapshot().running}
    for name, tasks in leaving.items():
        made.leave(name, tasks)
    made.advance(5)
    assert made.snapshot().reservations == ("waits",)
    for name, tasks in leaving.items():
        give_back(made, name, tasks)
    return made, there


def test_what_a_drained_node_lost_waits_before_what_its_user_submitted_later() -> None:
    made, there = drained_with_three_jobs()
    for at in (7, 8):
        plan = made.plan(at)
        assert [(one.job.id, one.place) for one in plan.waits] == [("firm", 1), ("loan", 2), ("waits", 3)]
        made.carry_out(plan)
    made.set_node(there)
    plan = made.advance(9)
    assert [one.job.id for one in plan.starts] == ["firm", "loan"]


def test_no_start_is_promised_where_no_node_takes_tasks() -> None:
    made, _ = drained_with_three_jobs()
    plan = made.plan(7)
    assert (
        wait_of(plan, "firm").reason.sentence
        == "it needs 2 A100; 0 are free, and 4 more cannot be used now: a (draining)"
    )
    for name in ("loan", "waits"):
        assert wait_of(plan, name).reason.code == Code.ORDER, name


def test_no_start_is_promised_at_the_end_of_what_still_runs_on_a_node_that_takes_no_tasks() -> None:
    there = node("a", 2)
    made = running(cluster(there, vision=2), job("runs", limit=HOUR))
    made.submit(job("head", role(gpus=2), at=1))
    made.submit(job("behind", at=2))
    reason = wait_of(made.plan(0), "behind").reason
    assert (
        reason.sentence
        == "the GPUs that it could have are kept for job head, which comes first and can start in 60 min"
    )
    made.set_node(replace(there, state=NodeState.CORDONED))
    assert wait_of(made.plan(0), "behind").reason.code == Code.ORDER


def test_who_has_cells_kept_of_one_sku_does_not_pass_who_had_them_kept_of_another_before() -> None:
    """`any` is the first that A100 are kept for; H100 are kept for `head`, though its user has had more of late."""
    described = cluster(node("a", 1), node("h", 2, "H100"), vision={"A100": 1, "H100": 2})
    full = [job("a", user="carol"), job("h", role(sku="H100"), user="bob")]
    made = running(described, *full)
    made.submit(job("head", role(gpus=2, sku="H100"), user="bob", order=1))
    made.advance(HOUR)
    made.submit(job("any", role(sku=None), user="alice", order=2))
    for _ in range(3):
        assert made.advance(2 * HOUR).starts == ()
        assert made.snapshot().reservations == ("head", "any")


def test_a_higher_priority_comes_before_the_one_for_which_cells_are_kept() -> None:
    made = running(cluster(node("a", 2), vision=2), *(job(name, priority=20, limit=SHORT) for name in ("x", "y")))
    made.submit(job("head", role(count=2), at=2))
    made.advance(3)
    assert made.snapshot().reservations == ("head",)
    made.submit(job("higher", role(count=2), priority=11, at=4))
    made.advance(5)
    assert made.snapshot().reservations == ("higher",)


def test_tasks_on_loan_of_a_job_are_not_ahead_of_its_own_and_count_once_for_others() -> None:
    described = cluster(node("a", 4), vision=1, speech=3)
    described = replace(described, policy=Policy(backfill=False))
    made = engine(described, job("first"), job("many", role(count=4), gang=False, borrow=Borrow.AUTO, order=1))
    made.advance(0)
    made.submit(job("later", order=2))
    plan = made.plan(0)
    assert len(next(one for one in made.snapshot().running if one.job.id == "many").tasks) == 3
    assert (wait_of(plan, "many").place, wait_of(plan, "later").place) == (1, 2)


# Jobs that the quota, or the cluster, cannot hold at all


@pytest.mark.parametrize("backfill", [True, False])
@pytest.mark.parametrize("gang", [True, False])
def test_a_job_that_has_become_larger_than_the_quota_holds_up_nobody(backfill: bool, gang: bool) -> None:
    described = replace(cluster(node("a", 8), vision=4, speech=4), policy=Policy(backfill=backfill))
    big = job("big", role(count=2 if gang else 1, gpus=4 if gang else 8), gang=gang)
    small = [job(f"s{number}", limit=60_000, order=1 + number) for number in range(5)]
    plan = Engine.restore(Snapshot(described, waiting=(big, *small))).plan(0)
    assert sorted(start.job.id for start in plan.starts) == ["s0", "s1", "s2", "s3"]
    assert plan.reservations == (("s4",) if backfill else ())
    assert (wait_of(plan, "big").reason.code, wait_of(plan, "big").place) == (Code.QUOTA, None)
    assert wait_of(plan, "big").reason.numbers == {"vc": "vision", "sku": "A100", "owned": 4, "needed": 8}
    assert wait_of(plan, "s4").place == 1


def test_a_job_behind_others_that_the_quota_cannot_hold_is_counted_ahead_of_nobody() -> None:
    made = running(cluster(node("a", 8), vision=4, speech=4), job("holds", role(gpus=4)))
    waiting = (job("first", role(gpus=4), order=1), job("big", role(count=2, gpus=4), order=2), job("last", order=3))
    plan = Engine.restore(replace(made.snapshot(), waiting=waiting)).plan(0)
    assert (wait_of(plan, "big").place, wait_of(plan, "last").place) == (None, 2)


def test_a_task_larger_than_the_cells_of_the_quota_holds_up_nobody_and_says_how_large_they_are() -> None:
    halves = CellType("half", "A100", 2)
    whole = CellType("whole", "half", 2, node_level=True)
    team = VirtualCluster("vision", (QuotaLine("half", 2),))
    described = Cluster((node("a", 4, shape="whole"),), (team,), cell_types=(halves, whole))
    big = job("big", role(gpus=4))
    plan = Engine.restore(Snapshot(described, waiting=(big, job("small", role(gpus=2), order=1)))).plan(0)
    assert [start.job.id for start in plan.starts] == ["small"]
    numbers = {"vc": "vision", "sku": "A100", "owned": 4, "whole": 2, "needed": 4}
    assert wait_of(plan, "big").reason.numbers == numbers


def test_a_smaller_task_of_a_job_that_is_no_gang_starts_though_the_quota_does_not_hold_the_larger_one() -> None:
    described = cluster(node("a", 8), vision=4, speech=4)
    parts = job("parts", role("large", gpus=8), role("small", gpus=2), gang=False)
    plan = Engine.restore(Snapshot(described, waiting=(parts, job("next", role(gpus=2), order=1)))).plan(0)
    assert sorted(start.job.id for start in plan.starts) == ["next", "parts"]
    assert [task.role for task in wait_of(plan, "parts").job.wanted] == ["large"]
    assert wait_of(plan, "parts").reason.numbers["needed"] == 8


@pytest.mark.parametrize("backfill", [True, False])
def test_a_job_for_a_server_that_is_gone_holds_up_nobody_and_says_so(backfill: bool) -> None:
    described = replace(cluster(node("a", 4), vision=4), policy=Policy(backfill=backfill))
    only = job("only", role(gpus=4), only=("gone", "lost"))
    here = job("here", role(gpus=4), only=("a", "gone"), order=1)
    plan = Engine.restore(Snapshot(described, waiting=(only, here, job("next", order=2)))).plan(0)
    assert [start.job.id for start in plan.starts] == ["here"]
    reason = wait_of(plan, "only").reason
    assert (reason.code, reason.numbers) == (Code.NO_NODE, {"nodes": 2, "where": "gone, lost"})
    assert (wait_of(plan, "only").place, wait_of(plan, "next").place) == (None, 1)
    assert Engine.restore(Snapshot(described, waiting=(only,))).decide(only, 0) == Wait(only, reason)


def test_a_job_for_a_server_that_is_gone_is_counted_ahead_of_nobody_and_starts_when_the_server_is_back() -> None:
    made = running(cluster(node("a", 4), vision=4), job("holds", role(gpus=4)))
    waiting = (job("first", order=1), job("only", only=("gone",), order=2), job("last", order=3))
    made = Engine.restore(replace(made.snapshot(), waiting=waiting))
    plan = made.plan(0)
    assert (wait_of(plan, "only").place, wait_of(plan, "last").place) == (None, 2)
    made.set_node(node("gone", 4))
    made.finish("holds")
    assert sorted(start.job.id for start in made.plan(0).starts) == ["first", "last", "only"]
    made.set_node(node("a", 1))
    assert next(start for start in made.plan(0).starts if start.job.id == "only").placements[0].node == "gone"
