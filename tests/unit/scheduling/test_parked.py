"""A parked job is off its GPU, which is lent until the job wants it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling import Borrow, Cluster, Code, Engine, Job, NodeState, Plan, Standing
from tests.unit.scheduling.builders import carry_out, cluster, job, node, park, resume, role, running
from tests.unit.scheduling.test_properties import JOBS, check_books, few, lived
from tests.unit.scheduling.worlds import clusters


def planned(made: Engine, now: int) -> Plan:
    """The plan, carried out, but that victims still run; a restored engine plans the same, and the next plan does
    nothing."""
    assert Engine.restore(made.snapshot()).plan(now) == made.plan(now)
    plan = made.advance(now)
    assert not made.plan(now).answers
    followed = Engine(made.snapshot().cluster)
    followed.follow(made.snapshot())
    assert followed.plan(now) == made.plan(now)
    return plan


def started(plan: Plan) -> list[tuple[str, str, Standing]]:
    """Who starts where, and by what right."""
    return [
        (one.job.id, use.leaf, use.standing) for one in plan.starts for place in one.placements for use in place.leaves
    ]


def a_parked_job(*nodes: tuple[str, int], **quotas: int) -> tuple[Engine, Job]:
    """An engine where the job `mine` of the team vision is parked on a GPU of the first node."""
    made = running(
        cluster(*(node(name, gpus) for name, gpus in nodes or (("a", 1),)), **(quotas or {"vision": 1})), job("mine")
    )
    return made, park(made, "mine")


@pytest.mark.parametrize(
    "borrower",
    [job("cheap", priority=-1), job("cheap", vc="speech", priority=-1), job("eager", vc="speech", borrow=Borrow.AUTO)],
)
def test_the_gpu_of_a_parked_job_is_lent(borrower: Job) -> None:
    made, _ = a_parked_job(("a", 1), ("b", 1), vision=1, speech=1)
    made.submit(job("speaker", vc="speech"))
    planned(made, 0)
    made.submit(borrower)
    assert started(planned(made, 1)) == [(borrower.id, "a:0", Standing.BORROWED)]


def test_idle_gpus_are_lent_before_those_of_parked_jobs() -> None:
    made, _ = a_parked_job(("a", 1), ("b", 1))
    made.submit(job("first", priority=-1))
    made.submit(job("second", priority=-1, at=1))
    assert sorted(started(planned(made, 0))) == [
        ("first", "b:0", Standing.BORROWED),
        ("second", "a:0", Standing.BORROWED),
    ]


def test_who_has_a_right_to_gpus_does_not_get_the_parked_jobs_one() -> None:
    made, _ = a_parked_job()
    made.submit(job("colleague"))
    assert planned(made, 0).answers == ()


def test_a_parked_job_that_is_wanted_again_starts_where_it_was() -> None:
    made, parked = a_parked_job()
    resume(made, parked)
    assert started(planned(made, 0)) == [("mine", "a:0", Standing.GUARANTEED)]
    assert made.snapshot().claims == ()


def test_who_has_the_gpu_on_loan_leaves_for_the_parked_job() -> None:
    made, parked = a_parked_job()
    made.submit(job("cheap", priority=-1, grace=30_000))
    planned(made, 0)
    resume(made, parked)
    plan = planned(made, 1)
    (answer,) = plan.preemptions
    assert answer.job.id == "mine"
    assert [(one.job, one.grace_ms) for one in answer.victims] == [("cheap", 30_000)]
    assert plan.starts == ()
    made.finish("cheap")
    assert started(planned(made, 2)) == [("mine", "a:0", Standing.GUARANTEED)]


def test_the_whole_gang_leaves_a_gpu_that_is_wanted_back() -> None:
    made, parked = a_parked_job(("a", 1), ("b", 1))
    made.submit(job("cheap", role(count=2), priority=-1))
    assert len(started(planned(made, 0))) == 2
    resume(made, parked)
    assert [len(one.tasks) for one in planned(made, 1).preemptions[0].victims] == [2]


def test_a_second_parked_job_waits_for_a_borrower_that_is_leaving_for_the_first() -> None:
    made = running(cluster(node("a", 2), vision=2), job("mine"), job("yours"))
    mine, yours = park(made, "mine"), park(made, "yours")
    made.submit(job("cheap", role(gpus=2), priority=-1, grace=30_000))
    planned(made, 0)
    resume(made, mine)
    planned(made, 1)
    resume(made, yours)
    plan = planned(made, 2)
    assert plan.starts == ()
    assert [(one.job.id, [victim.job for victim in one.victims]) for one in plan.preemptions] == [("yours", ["cheap"])]
    made.finish("cheap")
    assert [name for name, _, _ in started(planned(made, 3))] == ["mine", "yours"]


def test_a_container_that_is_parked_keeps_its_cpu_and_memory() -> None:
    made = running(cluster(node("a", 1, cpu=4), vision=1), job("mine", role(cpu=3)))
    park(made, "mine")
    made.submit(job("cheap", role(cpu=2), priority=-1))
    assert planned(made, 0).starts == ()
    made.submit(job("small", role(cpu=1), priority=-1))
    assert started(planned(made, 1)) == [("small", "a:0", Standing.BORROWED)]


def test_a_parked_job_keeps_its_place_on_a_server_that_takes_no_more_jobs() -> None:
    made, parked = a_parked_job()
    made.set_node(node("a", 1, state=NodeState.CORDONED))
    assert planned(made, 0).releases == ()
    resume(made, parked)
    assert started(planned(made, 1)) == [("mine", "a:0", Standing.GUARANTEED)]


def test_a_parked_job_whose_quota_is_gone_loses_its_claim() -> None:
    made, _ = a_parked_job()
    made.reconfigure(cluster(node("a", 1), vision=0, speech=1))
    assert planned(made, 0).releases == ("a:0",)


def test_a_borrower_on_a_parked_jobs_gpu_does_not_move_into_its_quota_there() -> None:
    made, parked = a_parked_job(("a", 1), ("b", 1), vision=1, speech=1)
    made.submit(job("speaker", vc="speech"))
    made.submit(job("eager", vc="speech", borrow=Borrow.AUTO, at=1))
    planned(made, 0)
    made.finish("speaker")
    assert planned(made, 1).promotions == ()
    resume(made, parked)
    planned(made, 2)
    made.finish("eager")
    assert started(planned(made, 3)) == [("mine", "a:0", Standing.GUARANTEED)]


def test_a_higher_priority_takes_a_parked_jobs_right_as_a_running_ones() -> None:
    made, _ = a_parked_job(("a", 1), ("b", 1))
    made.submit(job("urgent", priority=20))
    plan = planned(made, 0)
    assert [one.job.id for one in plan.starts] == ["urgent"]
    assert [leaf for one in plan.starts for leaf in one.releases] == ["a:0"]


def test_a_parked_job_is_told_that_it_is_parked() -> None:
    made, parked = a_parked_job()
    assert [one.reason.code for one in made.plan(0).waits] == [Code.PARKED]
    made.submit(job("cheap", priority=-1))
    planned(made, 0)
    resume(made, parked)
    planned(made, 1)
    assert [one.reason.code for one in made.plan(2).waits] == [Code.PREEMPTING]


def test_those_with_a_right_are_answered_alike_whether_a_parked_gpu_is_lent_or_not() -> None:
    """Isolation: who may start, and who has to wait."""
    answers = []
    for borrowers in ((), ("first", "second", "third")):
        made, _ = a_parked_job(("a", 2), ("b", 1), vision=1, speech=2)
        for name in borrowers:
            made.submit(job(name, vc="speech", priority=-1))
        assert len(started(planned(made, 0))) == len(borrowers)
        for at, name in enumerate(("one", "two", "three")):
            made.submit(job(name, vc="speech", at=at))
        begun = [name for now in (1, 2) for name, _, _ in started(carry_out(made, now))]
        answers.append(sorted(set(begun) - set(borrowers)))
    assert answers[0] == answers[1] == ["one", "two"]


@few
@given(clusters(healthy=True), JOBS, st.integers(0, 7))
def test_in_every_world_parked_jobs_have_their_gpus_back_and_a_restored_engine_says_the_same(
    described: Cluster, waiting: list[Job], chosen: int
) -> None:
    made = lived(described, waiting, [])
    may_park = [
        one.job.id
        for one in made.snapshot().running
        if not one.job.opportunistic and [(role.count, role.gpus) for role in one.job.roles] == [(1, 1)]
    ]
    parked = [park(made, name) for number, name in enumerate(may_park) if chosen >> number & 1]
    for now in range(8):
        assert Engine.restore(made.snapshot()).plan(now) == made.plan(now)
        plan = carry_out(made, now)
        check_books(made.snapshot())
        claimed = {claim.claimant: claim.leaf for claim in made.snapshot().claims if claim.parked}
        for one in parked if now == 3 else ():
            if one.id in claimed:
                resume(made, one)
    assert not plan.answers
    assert not any(claim.parked for claim in made.snapshot().claims)
