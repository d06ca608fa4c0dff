"""A job that may borrow starts on idle GPUs rather than end work of hours."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import Borrow, CellType, Cluster, Engine, FirstToPay, Job, Plan, Policy, QuotaLine, VirtualCluster
from scheduling.model.cluster import Order
from tests.unit.scheduling.builders import carry_out, job, node, role
from tests.unit.scheduling.cellworlds import ANY, ISOLATED, Mix, World, worlds
from tests.unit.scheduling.playing import Player
from tests.unit.scheduling.test_isolation import check_isolation
from tests.unit.scheduling.test_safety_always import check_safety
from tests.unit.scheduling.test_true_reasons import check_reasons

HOUR = 3_600_000


def boxes(teams: str, first: FirstToPay = FirstToPay.LOSS) -> Engine:
    """A node of four GPUs for each letter, which the team of that name owns as a whole."""
    return Engine(
        Cluster(
            tuple(node(f"n{number}", 4, shape="box") for number in range(len(teams))),
            tuple(VirtualCluster(team, (QuotaLine("box", teams.count(team)),)) for team in sorted(set(teams))),
            cell_types=(CellType("box", "A100", 4, node_level=True),),
            policy=Policy(order=Order.SUBMISSION, backfill=False, first_to_pay=first),
        )
    )


def asked(name: str, gpus: int, order: int, borrow: Borrow = Borrow.AUTO) -> Job:
    """A job of the team that its name begins with."""
    return job(name, role(gpus=gpus), vc=name[0], order=order, borrow=borrow)


def lent_out(first: FirstToPay = FirstToPay.LOSS) -> Engine:
    """Team `c` runs on loan on the node that is left for `a`; in the cell of `b` two GPUs idle."""
    made = boxes("abc", first)
    for order, (name, gpus) in enumerate([("b-own", 2), ("c-own", 4), ("c-lent", 4)]):
        made.submit(asked(name, gpus, order))
        made.advance(0)
    return made


def victims(plan: Plan) -> list[str]:
    return [victim.job for preempt in plan.preemptions for victim in preempt.victims]


def on_loan(made: Engine) -> set[str]:
    return {
        one.job.id
        for one in made.snapshot().running
        if any(use.virtual_cell is None for task in one.tasks for use in task.placement.leaves)
    }


def test_a_job_with_free_quota_starts_on_idle_gpus_where_its_cells_would_end_work_of_hours() -> None:
    made = lent_out()
    made.submit(asked("a-new", 1, 9))
    plan = made.advance(HOUR)
    assert ([start.job.id for start in plan.starts], victims(plan)) == (["a-new"], [])
    assert on_loan(made) == {"a-new", "c-lent"}


def test_by_shares_it_takes_its_cells() -> None:
    made = lent_out(FirstToPay.SHARE)
    made.submit(asked("a-new", 1, 9))
    assert victims(made.plan(HOUR)) == ["c-lent"]


def of_one_team(first: FirstToPay, *jobs: Job) -> Engine:
    """The team owns four GPUs, on which its own job has run for long; four of nobody idle."""
    there = Cluster(
        tuple(node(name, 4) for name in "ab"),
        (VirtualCluster("a", (QuotaLine("A100", 4),)),),
        policy=Policy(order=Order.SUBMISSION, backfill=False, first_to_pay=first),
    )
    made = Engine(there)
    made.submit(job("a-test", role(gpus=4), vc="a"))
    made.advance(0)
    for one in jobs:
        made.submit(one)
    return made


@pytest.mark.parametrize("first", FirstToPay)
@pytest.mark.parametrize("gang", [True, False])
def test_nor_does_it_end_lower_priorities_of_its_team_while_gpus_idle(gang: bool, first: FirstToPay) -> None:
    prod = job("a-prod", role(count=2), vc="a", priority=100, borrow=Borrow.AUTO, gang=gang)
    made = of_one_team(first, prod)
    for now in (200 * HOUR, 201 * HOUR):
        assert victims(carry_out(made, now)) == []
    assert on_loan(made) == {"a-prod"}
    assert [len(one.tasks) for one in made.snapshot().running if one.job.id == "a-prod"] == [2]
    made.finish("a-test")
    carry_out(made, 202 * HOUR)
    assert on_loan(made) == set(), "its right was kept"


def test_those_behind_it_take_the_place_of_lower_priorities_beside_its_own() -> None:
    made = of_one_team(FirstToPay.SHARE, job("a-prod", role(), vc="a", priority=100, borrow=Borrow.AUTO))
    carry_out(made, 200 * HOUR)
    made.submit(job("a-next", role(gpus=3), vc="a", priority=100, order=1, borrow=Borrow.NEVER))
    assert victims(carry_out(made, 201 * HOUR)) == ["a-test"]
    made.finish("a-test")
    carry_out(made, 201 * HOUR)
    assert on_loan(made) == set(), "its cell was left to it"
    assert {one.job.id for one in made.snapshot().running} == {"a-prod", "a-next"}


def test_where_too_few_gpus_idle_for_a_gang_it_takes_the_place_of_lower_priorities() -> None:
    made = of_one_team(FirstToPay.SHARE, job("a-oppo", role(), vc="a", priority=-1))
    carry_out(made, 199 * HOUR)
    made.submit(job("a-prod", role(gpus=4), vc="a", priority=100, order=1, borrow=Borrow.AUTO))
    assert victims(carry_out(made, 200 * HOUR)) == ["a-test"]


def test_a_job_that_may_not_borrow_takes_its_cells() -> None:
    made = lent_out()
    made.submit(asked("a-new", 1, 9, Borrow.NEVER))
    assert victims(made.plan(HOUR)) == ["c-lent"]


def test_where_little_work_would_be_lost_it_takes_its_cells() -> None:
    made = lent_out()
    made.submit(asked("a-new", 1, 9))
    assert victims(made.plan(HOUR // 5)) == ["c-lent"]


def test_a_job_for_which_too_few_gpus_idle_takes_its_cells() -> None:
    made = lent_out()
    made.submit(asked("a-new", 3, 9))
    assert victims(made.plan(HOUR)) == ["c-lent"]


def test_when_the_idle_gpus_are_wanted_back_it_takes_its_cells_at_once() -> None:
    made = lent_out()
    made.submit(asked("a-new", 1, 9))
    made.advance(HOUR)
    made.submit(asked("b-more", 2, 10))
    assert victims(carry_out(made, 2 * HOUR)) == ["a-new"]
    assert victims(carry_out(made, 2 * HOUR)) == ["c-lent"]
    carry_out(made, 2 * HOUR)
    assert on_loan(made) == set()


def test_its_cells_are_kept_from_those_behind_it() -> None:
    made = lent_out()
    made.submit(asked("a-new", 2, 9))
    made.advance(HOUR)
    made.submit(asked("a-large", 3, 10))
    (wait,) = made.plan(HOUR).waits
    assert wait.reason.sentence == (
        "4 of team a's A100 are free, but 2 of them are for earlier jobs that run on borrowed GPUs and will move "
        "there; this job needs 3"
    )
    made.submit(asked("a-large", 2, 10))
    assert victims(made.plan(HOUR)) == ["c-lent"]


def a_loan_is_retracted() -> Engine:
    """At the end of the pass `a-one` is given the idle GPU in the cell of `b`, `a-two` those in the cell of `d`. None
    idle for `b-wide`, which takes its own: that of `a-one`, too, which takes its own in turn."""
    made = boxes("abcd")
    first = [("b-own", 1), ("d-own", 2), ("d-rest", 2), ("c-own", 4), ("c-lent", 4), ("c-old", 1), ("c-older", 1)]
    for order, (name, gpus) in enumerate(first):
        made.submit(asked(name, gpus, order))
        made.advance(0)
    made.finish("d-rest")
    for order, (name, gpus) in enumerate([("a-one", 1), ("a-two", 2), ("b-wide", 2)]):
        made.submit(asked(name, gpus, 10 + order))
    return made


def test_a_loan_given_in_the_same_pass_yields_to_whoever_takes_those_very_gpus() -> None:
    made = a_loan_is_retracted()
    plan = made.plan(2 * HOUR)
    assert [start.job.id for start in plan.starts] == ["a-two"]
    assert {one.job.id: [gone.job for gone in one.victims] for one in plan.preemptions} == {
        "b-wide": ["c-old"],
        "a-one": ["c-lent"],
    }
    made.carry_out(plan)
    assert made.snapshot() == Engine.restore(made.snapshot()).snapshot()


@st.composite
def shared_boxes(draw: st.DrawFn) -> Cluster:
    """Nodes of four GPUs, of which each of three or four teams owns some as a whole."""
    counts = draw(st.lists(st.integers(1, 2), min_size=3, max_size=4))
    teams = "".join(name * count for name, count in zip("abcd", counts, strict=False))
    return boxes(teams).snapshot().cluster


BORROWERS = Mix(priorities=(10, 10, 10, 0, -1), borrow=(Borrow.AUTO,), preemptible=(True,), cpu_only=False, most=20)


def in_hours(world: World, first: FirstToPay = FirstToPay.LOSS) -> World:
    """The same world an hour for each moment, in which the least lost work pays first, or the largest share."""
    policy = replace(world.cluster.policy, first_to_pay=first)
    arrivals = tuple((at * HOUR, slowed(one)) for at, one in world.arrivals)
    lasts = {name: last * HOUR for name, last in world.lasts.items()}
    return replace(world, cluster=replace(world.cluster, policy=policy), arrivals=arrivals, lasts=lasts)


def slowed(one: Job) -> Job:
    limit = None if one.time_limit_ms is None else one.time_limit_ms * HOUR
    return one._replace(submitted_ms=one.submitted_ms * HOUR, time_limit_ms=limit, min_run_ms=one.min_run_ms * HOUR)


def follows(made: Engine, carried_out: Plan) -> None:
    assert Engine.restore(made.snapshot()).plan(carried_out.at_ms) == made.plan(carried_out.at_ms)


def check_forbearing(world: World) -> None:
    Player(Engine(world.cluster), world.lasts, follows).play(world.arrivals)
    check_safety(world)
    check_reasons(world)


@settings(max_examples=30)
@given(worlds(ANY) | worlds(BORROWERS, shared_boxes()), st.sampled_from(FirstToPay))
def test_safety_and_true_reasons_hold_and_nothing_depends_on_history(world: World, first: FirstToPay) -> None:
    check_forbearing(in_hours(world, first))


@settings(max_examples=25)
@given(worlds(ISOLATED))
def test_teams_that_do_not_borrow_start_as_on_their_own_cells(world: World) -> None:
    check_isolation(in_hours(world))
