"""Limits of what a team borrows and lends, and of what one user and the high classes hold."""

from scheduling import Borrow, Code, Rules
from tests.scheduling.builders import cluster, engine, job, node, role, running, wait_of, with_rules

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
