"""A higher priority takes over what another has claimed: whose cells the first victim's are meanwhile."""

from scheduling import Engine, Job, Plan
from tests.unit.scheduling.builders import cluster, job, node, role, running

GRACE = 60_000


def claimed(*first: Job, gpus: int = 1, spare: int = 1) -> Engine:
    """`low` held all of the team's quota and was told to leave by the first of these jobs, which waits for it."""
    described = cluster(node("a", gpus), node("b", spare), vision=gpus)
    made = running(described, job("low", role(count=gpus), priority=1, grace=GRACE, gang=False))
    for one in first:
        made.submit(one)
    made.advance(0)
    return made


def next_plan(made: Engine, now: int) -> Plan:
    """The plan, carried out; what is known afterwards is sound, and the next plan changes nothing."""
    plan = made.advance(now)
    assert not made.plan(now).answers
    assert Engine.restore(made.snapshot()).plan(now) == made.plan(now)
    return plan


def test_who_takes_a_claim_over_gets_the_cells_of_the_first_victim() -> None:
    made = claimed(job("middle", priority=5))
    made.submit(job("high", priority=9))
    next_plan(made, 1)
    assert [(one.leaf, one.claimant, one.victim) for one in made.snapshot().claims] == [("a:0", "high", "low")]
    made.finish("low")
    assert [one.job.id for one in made.advance(2).starts] == ["high"]


def test_cells_of_a_claim_that_is_only_partly_taken_over_are_their_holders_again() -> None:
    made = claimed(job("middle", role(count=2), priority=5), gpus=2, spare=2)
    made.submit(job("high", priority=9))
    made.submit(job("later", priority=0))
    plan = next_plan(made, 1)
    assert [one.job.id for one in plan.starts] == []
    assert {one.claimant for one in made.snapshot().claims} == {"high"}


def test_cells_of_a_claim_that_is_withdrawn_are_their_holders_until_they_leave() -> None:
    made = claimed(job("middle", priority=5))
    made.finish("middle")
    made.submit(job("later", priority=1, order=9))
    assert next_plan(made, 1).starts == ()
    made.finish("low")
    assert [one.job.id for one in made.advance(2).starts] == ["later"]


def test_of_tasks_that_took_cells_one_by_one_those_start_that_find_cpu() -> None:
    described = cluster(node("a", 2, cpu=5), vision=2)
    made = running(described, *(job(f"low{number}", priority=1) for number in range(2)))
    made.submit(job("high", role(count=2, cpu=4), priority=9, gang=False))
    made.advance(0)
    made.finish("low0")
    made.finish("low1")
    assert [len(one.placements) for one in made.advance(1).starts] == [1]
