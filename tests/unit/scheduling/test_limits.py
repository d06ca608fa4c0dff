"""Limits of what a team borrows and lends, and of what one user and the high classes hold."""

import sys
from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from scheduling import Borrow, Code, Engine, NodeState, Plan, Rules
from scheduling.cycle.cycle import make_plan
from scheduling.cycle.memory import CycleMemory
from scheduling.queue.caps import LimitUsage
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running, wait_of, with_rules
from tests.unit.scheduling.cellworlds import ANY, World, damaged, worlds
from tests.unit.scheduling.playing import Player
from tests.unit.scheduling.test_forbearing import HOUR, a_loan_is_retracted
from tests.unit.scheduling.test_true_reasons import capped

TWO_SKUS = cluster(node("a", 4), node("h", 4, "H100"), vision={"A100": 4, "H100": 4})


def test_of_a_job_that_is_no_gang_no_large_task_passes_the_limit_that_a_small_one_keeps() -> None:
    described = with_rules(cluster(node("a"), vision=0, speech=4), vision=Rules(max_borrow={"A100": 2}))
    made = engine(described, job("j", role("large", gpus=3), role("small", gpus=1, count=3), gang=False, priority=-1))
    made.advance(0)
    (one,) = made.snapshot().running
    assert [task.placement.role for task in one.tasks] == ["small", "small"]


def test_a_user_at_the_cap_of_one_sku_gets_the_other() -> None:
    described = with_rules(TWO_SKUS, vision=Rules(user_factor=0.5))
    made = running(described, job("b", role(gpus=2)))
    made.submit(job("j", role(gpus=2, sku=None)))
    (start,) = made.plan(0).starts
    assert start.placements[0].node == "h"


def test_gpus_that_are_being_taken_count_to_the_users_cap() -> None:
    described = with_rules(cluster(node("a", 2), vision=2), vision=Rules(user_gpus=1))
    made = running(described, job("lent", role(gpus=2), priority=-1))
    for name in ("first", "second"):
        made.submit(job(name, order=ord(name[0])))
    plan = made.advance(0)
    assert [one.job.id for one in plan.preemptions] == ["first"]
    assert wait_of(made.plan(0), "second").reason.code == Code.USER_LIMIT


def test_a_user_at_the_cap_borrows_nothing_beyond_it() -> None:
    described = with_rules(cluster(node("a", 4), vision=2, speech=2), vision=Rules(user_factor=1))
    made = running(described, job("b", role(gpus=2)))
    made.submit(job("j", borrow=Borrow.AUTO))
    assert made.advance(0).starts == ()


def test_another_users_job_of_the_same_shape_is_not_held_back_by_the_first_ones_cap() -> None:
    described = with_rules(cluster(node("a", 4), vision=2, speech=2), vision=Rules(user_gpus=2))
    made = running(described, job("b", role(gpus=2)))
    made.submit(job("alices", borrow=Borrow.AUTO, order=1))
    made.submit(job("bobs", borrow=Borrow.AUTO, user="bob", order=2))
    assert [start.job.id for start in made.advance(0).starts] == ["bobs"]


def test_a_team_lends_no_more_of_its_idle_cells_than_it_allows() -> None:
    described = with_rules(cluster(node("a", 4), vision=4, speech=0), vision=Rules(max_lend={"A100": 3}))
    made = engine(described, *(job(f"o{number}", vc="speech", priority=-1, order=number) for number in range(4)))
    assert len(made.advance(0).starts) == 3
    assert wait_of(made.plan(0), "o3").reason.code == Code.LEND_LIMIT


def test_cells_that_no_team_owns_are_lent_to_all() -> None:
    made = engine(cluster(node("a", 4), vision=0, speech=0), job("o", role(gpus=4), vc="speech", priority=-1))
    assert [start.job.id for start in made.advance(0).starts] == ["o"]


def test_idle_cells_go_in_turns_to_the_team_with_the_smaller_weighted_share() -> None:
    described = with_rules(cluster(node("a", 6), vision=0, speech=0), vision=Rules(weight=2))
    jobs = [
        job(f"{vc}{number}", vc=vc, priority=-1, order=number) for vc in ("vision", "speech") for number in range(6)
    ]
    started = [start.job.vc for start in engine(described, *jobs).advance(0).starts]
    assert (started.count("vision"), started.count("speech")) == (4, 2)


# What is held is kept as sums


def check_sums(made: Engine, plan: Plan) -> None:
    """After a pass, before which every second running job has ended and the first node went, the sums are what the jobs
    that then run and take cells hold, counted one by one."""
    known = made.snapshot()
    ended = {one.job.id for one in known.running[::2]}
    first, *nodes = known.cluster.nodes
    claims = tuple(one._replace(victim=None) if one.victim in ended else one for one in known.claims)
    for node_state in (first.state, NodeState.DOWN):
        changed = replace(known.cluster, nodes=(replace(first, state=node_state), *nodes))
        left = replace(known, cluster=changed, running=known.running[1::2], claims=claims)
        check_a_pass(Engine.restore(left), plan.at_ms)


def check_a_pass(made: Engine, now: int) -> None:
    made._allocator.begin()
    state = made._engine_context.state(now, (), CycleMemory())
    users = {(one.job.vc, one.job.user) for one in state.running.values()}
    users |= {(one.vc, one.user) for one in state.waiting.values()}
    state.limit_usage.of_class("")
    try:
        make_plan(state, now, with_reasons=False, without_quota=made._without_quota)
    finally:
        made._allocator.rollback()
    counted = LimitUsage(state.placer.allocator.layout, state.running, state.waiting, state.claims)
    for vc, user in users:
        found = {kind: count for kind, count in state.limit_usage.of_user(vc, user).items() if count}
        assert found == counted.of_user(vc, user)
        assert state.limit_usage.of_class(vc) == counted.of_class(vc)


@settings(max_examples=20)
@given(worlds(ANY, damaged()))
def test_the_sums_of_what_is_held_follow_a_pass(world: World) -> None:
    one = capped(world)
    Player(Engine(one.cluster), one.lasts, check_sums).play(one.arrivals)


def taking() -> Engine:
    """`first` has taken a GPU from a job that is gone, and may start there; a job of its user runs."""
    described = with_rules(cluster(node("a", 1), node("b", 2), vision=2, speech=1), vision=Rules(user_gpus=2))
    made = running(described, job("lent", role(gpus=2), priority=-1), job("runs"))
    made.submit(job("first", order=1))
    assert len(made.advance(1).preemptions) == 1
    made.finish("lent")
    return made


def test_the_sums_follow_who_starts_on_the_gpus_that_it_has_taken() -> None:
    assert [start.job.id for start in taking().plan(2).starts] == ["first"]
    check_a_pass(taking(), 2)


def test_the_sums_follow_who_gives_up_the_gpus_that_it_has_taken() -> None:
    made = taking()
    made.set_node(node("b", 2, state=NodeState.DOWN))
    assert made.plan(2).releases
    check_a_pass(made, 2)


def test_the_sums_follow_a_loan_that_is_retracted() -> None:
    made = a_loan_is_retracted()
    made.reconfigure(with_rules(made.snapshot().cluster, **dict.fromkeys("abcd", Rules(user_gpus=9))))
    check_a_pass(made, 2 * HOUR)


def calls(made: Engine) -> int:
    """How many functions of Python a pass calls; none where the engine is compiled."""
    found = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        made.plan(1)
    finally:
        sys.setprofile(None)
    return found


def test_a_limit_does_not_make_a_pass_look_at_all_running_jobs_for_each_waiting_one() -> None:
    described = cluster(*(node(f"n{number}", 8) for number in range(20)), vision=160)
    made = running(described, *(job(f"r{number}", user=f"u{number % 8}", order=number) for number in range(160)))
    waiting = tuple(job(f"w{number}", user=f"u{number % 8}", order=200 + number, at=1) for number in range(100))
    state = replace(made.snapshot(), waiting=waiting)
    without = calls(Engine.restore(state))
    for limit in (10, 100):
        limited = replace(state, cluster=with_rules(described, vision=Rules(user_gpus=limit)))
        assert calls(Engine.restore(limited)) <= without + 60 * len(waiting)
