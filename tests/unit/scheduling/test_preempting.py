"""Whom a job takes cells from: enough and no more, and those whose loss costs least."""

from dataclasses import replace

import pytest

from scheduling import (
    Borrow,
    Code,
    Engine,
    FirstToPay,
    Job,
    Rules,
    Start,
    TaskRef,
)
from tests.unit.scheduling.builders import (
    carry_out,
    cluster,
    engine,
    job,
    node,
    role,
    running,
    victims_of,
    wait_of,
    with_rules,
)
from tests.unit.scheduling.simulator.traces import equal_nodes

HOUR = 3_600_000


def borrower(name: str, gpus: int = 1, *, vc: str = "vision", order: int = 0) -> Job:
    """A job of one task that starts on loan where its team's quota is not free yet."""
    return job(name, role(gpus=gpus, sku=None), vc=vc, order=order, borrow=Borrow.AUTO)


def lent(name: str, gpus: int = 1, *, order: int = 0) -> Job:
    """An opportunistic job of the team speech."""
    return borrower(name, gpus, vc="speech", order=order)._replace(borrow=Borrow.NEVER, priority=-1)


def firm(name: str, gpus: int = 1, *, vc: str = "vision", order: int = 0) -> Job:
    """A job that runs inside its team's quota alone."""
    return borrower(name, gpus, vc=vc, order=order)._replace(borrow=Borrow.NEVER)


def where(made: Engine, name: str) -> set[str]:
    """The nodes that a running job is on."""
    return {task.placement.node for one in made.snapshot().running if one.job.id == name for task in one.tasks}


# Inside a team


def test_a_strictly_lower_priority_makes_way_and_an_equal_one_does_not() -> None:
    made = running(cluster(node("a", 1), vision=1), job("low", priority=5))
    made.submit(job("equal", priority=5, order=1))
    assert made.plan(0).preemptions == ()
    made.submit(job("high", priority=6, order=2))
    assert victims_of(made.plan(0)) == ["low"]


def test_another_teams_guaranteed_jobs_are_never_victims() -> None:
    made = running(cluster(node("a", 2), vision=1, speech=1), job("theirs", vc="speech", priority=0), job("mine"))
    made.submit(job("more", priority=1000))
    assert victims_of(made.plan(0)) == ["mine"]


def test_as_few_jobs_as_needed_end() -> None:
    made = running(
        cluster(node("a", 4), vision=4), job("one", priority=1), job("two", priority=1), job("pair", role(gpus=2))
    )
    made.submit(job("high", role(gpus=2), priority=20))
    assert victims_of(made.plan(0)) == ["one", "two"]


def test_the_lower_priority_goes_first_whatever_it_loses() -> None:
    made = running(cluster(node("a", 2), vision=2), job("lowest", priority=1))
    made.submit(job("low", priority=2))
    made.advance(9 * HOUR)
    made.submit(job("high", priority=20))
    assert victims_of(made.plan(10 * HOUR)) == ["lowest"]


def test_of_equal_ones_the_least_lost_work_goes_first() -> None:
    made = running(cluster(node("a", 2), vision=2), job("long"))
    made.submit(job("short", order=1))
    made.advance(HOUR)
    made.submit(job("high", priority=20))
    assert victims_of(made.plan(2 * HOUR)) == ["short"]


def test_saved_work_is_not_lost() -> None:
    made = running(cluster(node("a", 2), vision=2), job("long"))
    made.submit(job("short", order=1))
    made.advance(HOUR)
    made.saved("long", 2 * HOUR - 1)
    made.submit(job("high", priority=20))
    assert victims_of(made.plan(2 * HOUR)) == ["long"]


def test_work_without_a_checkpoint_counts_for_four_hours_at_most() -> None:
    made = running(cluster(node("a", 3), vision=3), job("b-days"))
    made.submit(job("a-wide", role(gpus=2), order=1))
    made.advance(20 * HOUR)
    made.submit(job("high", priority=20))
    assert victims_of(made.plan(23 * HOUR)) == ["b-days"]


def test_a_job_in_its_minimum_run_time_goes_only_when_nobody_else_can() -> None:
    made = running(cluster(node("a", 2), vision=2), job("fresh", min_run=HOUR), job("old"))
    made.submit(job("high", priority=20))
    assert victims_of(made.plan(10)) == ["old"]
    made.submit(job("wide", role(gpus=2), priority=30))
    assert victims_of(made.plan(10)) == ["fresh", "old"]


def test_a_job_that_is_not_preemptible_stays() -> None:
    made = running(cluster(node("a", 1), vision=1), job("firm", preemptible=False))
    made.submit(job("high", priority=20))
    assert made.plan(0).preemptions == ()


def test_of_a_job_that_is_no_gang_single_tasks_end_and_of_a_gang_all() -> None:
    for gang, lost in ((False, 1), (True, 3)):
        made = running(cluster(node("a", 3), vision=3), job("low", role(count=3), gang=gang))
        made.submit(job("high", priority=20))
        (preempt,) = made.plan(0).preemptions
        assert len(preempt.victims[0].tasks) == lost


def test_a_lazy_victim_becomes_a_borrower_where_gpus_are_idle() -> None:
    made = running(cluster(node("a", 2), vision=1, speech=1), job("lazy", lazy=True))
    made.submit(job("high", priority=20))
    plan = made.advance(0)
    assert [(start.job.id, start.demotes) for start in plan.starts] == [("high", ("lazy",))]
    state = made.snapshot()
    assert [(one.job, one.cause) for one in state.demotions] == [("lazy", "high")]
    made.finish("high")
    assert [one.job for one in made.advance(1).promotions] == ["lazy"]


def test_a_job_demoted_by_another_is_not_promoted_while_that_one_runs() -> None:
    made = running(cluster(node("a", 3), vision=2, speech=1), job("lazy", lazy=True), job("other"))
    made.submit(job("high", priority=20))
    made.advance(0)
    made.finish("other")
    assert made.advance(1).promotions == ()


# Across teams


def test_only_what_is_borrowed_is_taken_back_and_no_more_than_is_needed() -> None:
    made = running(cluster(node("a", 4), vision=4), *(job(f"o{n}", priority=-1, order=n) for n in range(4)))
    made.submit(job("mine", role(gpus=2)))
    assert len(victims_of(made.plan(0))) == 2


def test_idle_gpus_are_used_before_any_is_taken_back() -> None:
    made = running(cluster(node("a", 2), node("b", 2), vision=4), job("o", role(gpus=2), priority=-1))
    made.submit(job("mine", role(gpus=2)))
    assert isinstance(made.plan(0).starts[0], Start)


def test_the_team_with_the_largest_weighted_share_on_loan_pays_first() -> None:
    described = cluster(node("a", 4), owner=4, vision=0, speech=0)
    jobs = [job(f"v{n}", vc="vision", priority=-1, order=n) for n in range(2)]
    jobs += [job(f"s{n}", vc="speech", priority=-1, order=n) for n in range(2)]
    for heavy, payer in (("vision", "s"), ("speech", "v")):
        made = running(with_rules(described, **{heavy: Rules(weight=3)}), *jobs)
        made.submit(job("mine", vc="owner"))
        assert victims_of(made.plan(0))[0].startswith(payer)


def test_of_several_teams_that_would_pay_together_the_one_with_the_smallest_share_counts() -> None:
    """Together speech and audio would pay with what audio, which borrows least, has; so text does, which has more."""
    made = running(
        cluster(node("n"), node("m"), vision=4, speech=0, audio=0, text=0),
        *(job(f"more{number}", vc="speech", priority=-1, only=("m",)) for number in range(3)),
        job("speech", vc="speech", priority=-1, only=("n",)),
        job("audio", vc="audio", priority=-1, only=("n",)),
        job("text", role(gpus=2), vc="text", priority=-1, only=("n",)),
    )
    made.submit(job("owner", role(gpus=2), only=("n",)))
    (preempt,) = made.plan(0).preemptions
    assert [victim.job for victim in preempt.victims] == ["text"]


def test_the_policy_may_ask_for_the_least_loss_whose_ever_it_is() -> None:
    for first, payer in ((FirstToPay.SHARE, "large"), (FirstToPay.LOSS, "small")):
        described = cluster(node("a", 4), owner=4, vision=0, speech=0)
        policy = replace(described.policy, first_to_pay=first)
        made = running(replace(described, policy=policy), job("large", role(gpus=3), priority=-1))
        made.submit(job("small", vc="speech", priority=-1, order=1))
        made.advance(HOUR)
        made.submit(job("mine", vc="owner", order=2))
        assert victims_of(made.plan(2 * HOUR)) == [payer]


def test_a_cell_goes_where_all_that_run_on_it_lose_least_for_it_will_fill() -> None:
    made = running(equal_nodes(2, 4, vision=1, speech=1), lent("old", 3), lent("wide", 4, order=1))
    made.advance(HOUR)
    made.finish("wide")
    for number in range(4):
        made.submit(lent(f"new{number}", 2 if number == 1 else 1, order=2 + number))
    made.advance(HOUR)
    made.submit(firm("mine", order=9))
    assert where(made, "new0") == where(made, "old") != where(made, "new1")
    assert victims_of(made.plan(2 * HOUR)) == ["new2"]


def test_of_a_team_the_borrower_that_loses_least_pays() -> None:
    made = running(cluster(node("a", 2), vision=2), job("old", priority=-1))
    made.submit(job("new", priority=-1, order=1))
    made.advance(HOUR)
    made.submit(job("mine"))
    assert victims_of(made.plan(2 * HOUR)) == ["new"]


def test_in_the_teams_own_cell_too_the_borrower_that_loses_least_pays() -> None:
    made = running(equal_nodes(2, 4, vision=1, speech=1), borrower("mine", 2), borrower("theirs", 4, vc="speech"))
    made.submit(borrower("old", vc="speech", order=1))
    made.advance(0)
    made.submit(borrower("new", vc="speech", order=2))
    made.advance(HOUR)
    made.submit(borrower("more", order=3))
    assert victims_of(made.plan(2 * HOUR)) == ["new"]


def test_who_leaves_anyway_leaves_for_all() -> None:
    lent = job("single", vc="speech", priority=-1)
    made = running(cluster(node("a", 4), node("b", 1), vision=5, speech=0), lent)
    made.submit(job("gang", role(gpus=3), vc="speech", priority=-1))
    made.advance(2 * HOUR)
    for number in range(4):
        made.submit(job(f"mine{number}", order=number))
    assert set(victims_of(made.plan(2 * HOUR + 1))) == {"gang"}


def test_a_borrower_lies_beside_its_teams_own_jobs_where_only_they_may_take_its_place() -> None:
    made = running(equal_nodes(3, 4, vision=1, speech=1), borrower("theirs", 2, vc="speech"), borrower("mine"))
    made.submit(borrower("wide", 4, order=1)._replace(borrow=Borrow.NEVER))
    made.submit(borrower("small", order=2))
    made.advance(0)
    assert where(made, "small") == where(made, "mine")


def test_a_borrower_keeps_off_another_teams_cell_where_it_can() -> None:
    made = running(equal_nodes(3, 4, vision=1, speech=1), firm("theirs", 2, vc="speech"), firm("wide", 3))
    made.submit(borrower("small", 2, order=1))
    made.advance(0)
    assert where(made, "small").isdisjoint(where(made, "theirs") | where(made, "wide"))


def test_a_borrower_lies_beside_borrowers_of_its_team_with_which_it_can_move_in() -> None:
    full = [firm("theirs", 4, vc="speech"), firm("wide", 4)]
    made = running(equal_nodes(4, 4, vision=1, speech=1), *full, borrower("other", 3, vc="speech"))
    made.submit(borrower("one", 2, order=1))
    made.submit(borrower("two", order=2))
    made.advance(0)
    assert where(made, "two") == where(made, "one") != where(made, "other")


def test_what_a_team_borrowed_beyond_its_quota_is_taken_and_what_is_its_own_is_not() -> None:
    """T5a of the worked examples: queue A configured 10, used 30; queue C configured 20, pending 20."""
    described = cluster(node("a", 3), a=1, c=2)
    made = engine(described, *(job(f"c{n}", vc="a", borrow=Borrow.AUTO, order=n) for n in (5, 6, 7)))
    for now in range(3):
        made.advance(now)
    made.submit(job("app3", role(count=2), vc="c", order=9, gang=False))
    assert victims_of(made.plan(9)) == ["c6", "c7"]


def test_who_gives_way_does_so_before_anybody_takes_cells() -> None:
    """`gang` needs the virtual cells that `lazy` leaves for `high`, and a node kept whole by that."""
    described = cluster(node("a", 4, shape="box"), node("b", 4, shape="box"), vision={"box": 1}, speech=3)
    lazy = job("lazy", role(count=3), vc="speech", lazy=True)
    made = running(described, lazy, borrower("lent", vc="speech", order=3))
    made.submit(job("idle", role(gpus=2), vc="vision", priority=-1))
    made.advance(1)
    made.submit(job("high", vc="speech", priority=20))
    made.submit(job("gang", role(count=2), vc="speech", order=2))
    plan = made.advance(2)
    assert [(one.job.id, one.demotes) for one in plan.starts] == [("high", ("lazy",))]
    assert victims_of(plan) == ["idle"]


def test_who_still_leaves_has_no_right_to_cells_in_which_another_runs() -> None:
    made = running(cluster(node("a", 1), node("b", 3), vision=3), job("small", grace=30_000))
    made.submit(job("large", role(gpus=3), priority=20))
    made.advance(1)
    assert where(made, "large") == set()
    made.advance(2)
    assert [where(made, name) for name in ("small", "large")] == [{"a"}, {"b"}]
    assert made.plan(3) == Engine.restore(made.snapshot()).plan(3)
    assert made.plan(3).demotions == ()


# Claims


def claiming(grace: int = 10) -> Engine:
    """`mine` has taken the GPU of `lent`, which is still there."""
    made = running(cluster(node("a", 1), vision=1), job("lent", priority=-1, grace=grace))
    made.submit(job("mine", priority=5))
    made.advance(0)
    return made


def test_the_cells_are_kept_for_the_preemptor_and_nobody_slips_in() -> None:
    made = claiming()
    made.submit(job("other", priority=5, order=1))
    made.finish("lent")
    assert [start.job.id for start in made.plan(5).starts] == ["mine"]


def test_a_higher_priority_takes_the_claim_over() -> None:
    made = claiming()
    made.submit(job("higher", priority=9))
    plan = made.advance(1)
    assert [one.job.id for one in plan.preemptions] == ["higher"]
    assert {claim.claimant for claim in made.snapshot().claims} == {"higher"}
    made.finish("lent")
    assert [start.job.id for start in made.advance(2).starts] == ["higher"]


def test_a_claim_is_given_up_when_its_node_fails() -> None:
    made = running(cluster(node("a", 1), node("b", 1), vision=1), job("lent", role(count=2), priority=-1, grace=10))
    made.submit(job("mine"))
    made.advance(0)
    (claim,) = made.snapshot().claims
    made.set_node(node(claim.leaf[0], 1, sick=(0,)))
    plan = made.advance(1)
    assert plan.releases == (claim.leaf,)
    assert {one.leaf for one in made.snapshot().claims} == {"b:0" if claim.leaf == "a:0" else "a:0"}


def test_the_claims_of_a_job_that_is_withdrawn_free_the_cells() -> None:
    made = claiming()
    made.finish("mine")
    assert made.snapshot().claims == ()


def test_claims_are_kept_over_a_restart() -> None:
    made = Engine.restore(claiming().snapshot())
    made.finish("lent")
    assert [start.job.id for start in made.advance(5).starts] == ["mine"]


def test_a_victim_waits_again_at_its_old_place() -> None:
    made = running(cluster(node("a", 1), vision=1), job("low", priority=1, at=1))
    made.submit(job("high", priority=5, at=2))
    carry_out(made, 2)
    carry_out(made, 2)
    made.submit(job("later", priority=1, at=3))
    made.finish("high")
    assert [start.job.id for start in made.plan(4).starts] == ["low"]


def test_repeated_passes_come_to_rest() -> None:
    made = running(cluster(node("a", 2), vision=1, speech=1), job("o", role(gpus=2), priority=-1))
    for name in ("x", "y"):
        made.submit(job(name, lazy=True, priority=ord(name), borrow=Borrow.AUTO))
    plans = [carry_out(made, now) for now in range(6)]
    assert not plans[-1].answers
    assert (plans[-1].promotions, plans[-1].demotions) == ((), ())


def test_tasks_of_a_job_that_is_no_gang_are_taken_one_by_one_as_they_are_needed() -> None:
    made = running(cluster(node("a", 3), vision=3), job("many", role(count=3), priority=-1, gang=False))
    made.submit(job("mine"))
    (preempt,) = made.plan(0).preemptions
    assert preempt.victims[0].tasks in {(TaskRef("worker", index),) for index in range(3)}


def test_the_grace_of_a_victim_is_told() -> None:
    made = running(cluster(node("a", 1), vision=1), job("lent", priority=-1)._replace(grace_ms=30_000))
    made.submit(job("mine"))
    assert made.plan(0).preemptions[0].victims[0].grace_ms == 30_000


def test_a_job_of_which_a_part_starts_and_a_part_takes_over_quota_beside_free_gpus_is_told_whose_quota_it_is() -> None:
    mixed = cluster(node("a", 3), node("b", 3), node("h", sku="H100"), vision={"A100": 4, "H100": 1}, speech=2)
    made = running(mixed, job("other", priority=1), job("low", role(gpus=2), priority=0))
    made.submit(job("mine", role("h", sku="H100"), role("a", gpus=2), priority=1, gang=False))
    before = made.snapshot()
    plan = made.plan(1)
    assert made.snapshot() == before
    assert [one.placements[0].task.role for one in plan.starts] == ["h"]
    assert [victim.job for victim in plan.preemptions[0].victims] == ["low"]
    told = wait_of(plan, "mine").reason
    assert told.code == Code.PREEMPTING
    assert told.sentence == (
        "in the team's quota it gets the place of job low, which is ending; free GPUs are there, so it starts in a "
        "moment"
    )
    made.carry_out(plan)
    assert [one.placements[0].task.role for one in made.plan(2).starts] == ["a"]


def two_loans(first: Job, second: Job, first_to_pay: FirstToPay = FirstToPay.SHARE) -> Engine:
    """A job has run on loan for ten hours, another one since now, and their owner wants one of the GPUs back."""
    there = cluster(node("a", 3), vision=1, speech=2)
    made = engine(replace(there, policy=replace(there.policy, first_to_pay=first_to_pay)), job("own", priority=1000))
    for now, one in ((0, first), (10 * HOUR, second)):
        made.submit(one)
        assert one.id in {start.job.id for start in made.advance(now).starts}
    made.submit(job("owner", vc="speech", at=1))
    return made


@pytest.mark.parametrize("first_to_pay", FirstToPay)
def test_of_a_teams_loans_an_opportunistic_one_ends_before_any_other_whatever_it_loses(
    first_to_pay: FirstToPay,
) -> None:
    made = two_loans(job("oppo", priority=-1), job("crit", priority=120, borrow=Borrow.AUTO), first_to_pay)
    assert victims_of(made.plan(10 * HOUR + 1)) == ["oppo"]


def test_of_a_teams_loans_the_lower_priority_ends_first_whatever_it_loses() -> None:
    made = two_loans(job("test", borrow=Borrow.AUTO), job("crit", priority=120, borrow=Borrow.AUTO))
    assert victims_of(made.plan(10 * HOUR + 1)) == ["test"]
