"""Elastic jobs: extra tasks run on GPUs that nobody else wants, and leave before everybody else."""

from dataclasses import replace

import pytest

from scheduling import (
    Borrow,
    Code,
    Engine,
    FirstToPay,
    Job,
    NodeState,
    Plan,
    Policy,
    Preempt,
    Role,
    Rules,
    Start,
    TaskRef,
    UnknownJob,
    Wait,
)
from tests.unit.scheduling.builders import (
    a_claim,
    carry_out,
    cluster,
    engine,
    job,
    node,
    role,
    start_of,
    wait_of,
    with_rules,
)

SHARED = cluster(node("a"), node("b"), vision=4, speech=4)


def elastic(name: str = "elastic", count: int = 6, least: int = 2, *, gpus: int = 1, **about: object) -> Job:
    return job(name, role(count=count, gpus=gpus, least=least), **about)  # type: ignore[arg-type]


def grown(made: Engine, now: int = 0) -> Engine:
    """The engine when nothing more starts."""
    while carry_out(made, now).starts:
        pass
    return made


def indices(made: Engine, name: str = "elastic") -> list[int]:
    """The tasks of a job that run."""
    return [task.placement.task.index for one in made.snapshot().running if one.job.id == name for task in one.tasks]


def started(plan: Plan, name: str = "elastic") -> list[int]:
    """The tasks of a job that a plan starts."""
    return [one.task.index for start in plan.starts if start.job.id == name for one in start.placements]


def lost(plan: Plan) -> dict[str, list[int]]:
    """The tasks that end by a plan, by job."""
    return {
        victim.job: [task.index for task in victim.tasks] for one in plan.preemptions for victim in one.victims
    }  # fmt: skip


# Growing


def test_the_gang_starts_first_and_then_all_extra_tasks_that_fit_at_once() -> None:
    made = engine(SHARED, elastic(count=12))
    assert started(carry_out(made)) == [0, 1]
    assert started(carry_out(made)) == [2, 3, 4, 5, 6, 7]
    assert [task.index for task in made.snapshot().waiting[0].wanted] == [8, 9, 10, 11]


def test_extra_tasks_are_on_loan_and_lie_where_the_gang_is() -> None:
    made = engine(cluster(node("a"), node("b"), vision=7), job("busy", role(count=3), only=("a",), at=-1))
    made.submit(elastic(count=4, least=3))
    carry_out(made)
    (start,) = carry_out(made).starts
    assert {place.node for place in start.placements} == {"b"}, "a would do as well"
    assert {use.virtual_cell for place in start.placements for use in place.leaves} == {None}


def test_a_job_whose_gang_alone_fits_the_quota_is_accepted() -> None:
    assert indices(grown(engine(cluster(node("a"), vision=2), elastic(count=8)))) == [0, 1, 2, 3]


def test_it_does_not_grow_before_its_time() -> None:
    made = engine(SHARED, elastic()._replace(grow_from_ms=600_000))
    assert indices(grown(made, 599_999)) == [0, 1]
    assert indices(grown(made, 600_000)) == [0, 1, 2, 3, 4, 5]


def test_it_does_not_grow_while_it_is_paused() -> None:
    made = engine(SHARED, elastic())
    carry_out(made)
    (rest,) = made.snapshot().waiting
    made.submit(rest._replace(paused=True))
    assert started(made.plan(1)) == []


def test_it_does_not_grow_while_a_task_of_its_gang_is_missing_or_leaving() -> None:
    made = engine(SHARED, elastic())
    carry_out(made)
    left = Engine.restore(made.snapshot())
    left.leave("elastic", [TaskRef("worker", 1)])
    assert started(left.plan(1)) == []
    made.finish("elastic", [TaskRef("worker", 1)])
    assert started(made.plan(1)) == []


def test_it_does_not_grow_while_another_extra_task_is_leaving() -> None:
    made = engine(SHARED, elastic(count=8, least=2)._replace(only_nodes=frozenset("a")))
    grown(made)
    made.leave("elastic", [TaskRef("worker", 3)])
    (rest,) = made.snapshot().waiting
    made.submit(rest._replace(only_nodes=None))
    assert started(made.plan(1)) == []


@pytest.mark.parametrize(
    "asked", [job("other", role(count=2), priority=-1), job("other", role(count=2), borrow=Borrow.AUTO, order=9)]
)
def test_everybody_else_is_served_first(asked: Job) -> None:
    made = engine(cluster(node("a"), vision=2, speech=2), elastic())
    carry_out(made)
    made.submit(asked)
    assert {start.job.id for start in carry_out(made).starts} == {"other"}
    assert indices(grown(made)) == [0, 1]


def test_it_does_not_grow_into_gpus_that_are_claimed() -> None:
    made = engine(cluster(node("a"), vision=4), elastic())
    carry_out(made)
    idle = sorted({f"a:{n}" for n in range(4)} - {use.leaf for one in made.snapshot().running for task in one.tasks
                                                  for use in task.placement.leaves})  # fmt: skip
    made.submit(job("claimant", at=1, paused=True))
    made.claim(a_claim(idle[0])._replace(virtual_cell="vision/A100/2"))
    assert started(made.plan(1)) == [2]


def test_extra_tasks_that_wait_are_no_waiting_job_and_hold_up_nobody() -> None:
    made = engine(cluster(node("a", 2), node("b", 2), vision=2, speech=2), elastic(count=9))
    made.submit(job("theirs", role(count=2), vc="speech"))
    grown(made)
    made.submit(job("later", at=9))
    plan = made.plan(1)
    assert plan.waits == (wait_of(plan, "later"),)
    assert (plan.waits[0].place, plan.waits[0].reason.code) == (1, Code.QUOTA)


def test_extra_tasks_take_the_kind_of_gpu_that_the_gang_has() -> None:
    made = engine(cluster(node("a", 2), node("h", 4, "H100"), vision={"A100": 2, "H100": 4}))
    made.submit(job("busy", role(count=2)))
    made.submit(job("elastic", replace(role(count=9, least=2), sku=None), order=1))
    assert {place.node for start in carry_out(made).starts for place in start.placements} == {"a", "h"}
    made.finish("busy")
    assert {place.node for start in carry_out(made).starts for place in start.placements} == {"h"}


def test_the_team_with_the_smaller_share_on_loan_grows_first() -> None:
    made = engine(cluster(node("a"), node("b"), vision=4, speech=1, nlp=0))
    made.submit(elastic("large", 9, 2, vc="vision"))
    made.submit(elastic("small", 9, 1, vc="speech", at=5))
    made.submit(job("lent", role(count=3), priority=-1, vc="vision"))
    carry_out(made)
    assert started(made.plan(0), "small") == [1, 2]


def test_in_a_team_the_job_with_the_smaller_part_of_its_gpus_grows_first() -> None:
    made = engine(cluster(node("a"), node("b"), vision=8))
    made.submit(elastic("most", 5, 3))
    made.submit(elastic("least", 8, 2, at=5))
    carry_out(made)
    assert {start.job.id for start in made.plan(0).starts} == {"least"}


def test_an_opportunistic_job_grows_as_well() -> None:
    assert indices(grown(engine(SHARED, elastic(priority=-1)))) == [0, 1, 2, 3, 4, 5]


def test_tasks_that_were_lost_with_their_node_start_anew_while_later_ones_run() -> None:
    made = grown(engine(cluster(node("a"), node("b", 2), node("c", 2), vision=2), elastic(count=8)))
    (row,) = made.snapshot().running
    gone = tuple(task.placement.task for task in row.tasks if task.placement.node == "c")
    assert [index for _, index in gone] == [2, 3]
    made.set_node(node("c", 2, state=NodeState.DOWN))
    made.finish("elastic", gone)
    made.submit(row.job.wanting(gone))
    assert indices(grown(made)) == [0, 1, 4, 5, 6, 7]
    made.set_node(node("c", 2))
    assert indices(grown(made)) == list(range(8))


# Limits


def test_extra_tasks_count_in_what_a_team_may_borrow() -> None:
    limited = with_rules(SHARED, vision=Rules(max_borrow={"A100": 3}))
    assert indices(grown(engine(limited, elastic(count=8)))) == [0, 1, 2, 3, 4]


def test_extra_tasks_count_in_what_another_team_lends() -> None:
    limited = with_rules(SHARED, speech=Rules(max_lend={"A100": 1}))
    assert indices(grown(engine(limited, elastic(count=8)))) == [0, 1, 2, 3, 4]


def test_at_the_borrow_limit_an_opportunistic_job_of_the_team_gets_the_place_of_an_extra_task() -> None:
    made = grown(engine(with_rules(SHARED, vision=Rules(max_borrow={"A100": 3})), elastic(count=8)))
    made.submit(job("lent", role(count=2), priority=-1))
    assert lost(made.plan(1)) == {"elastic": [3, 4]}


def test_at_the_borrow_limit_of_its_team_nobody_gets_the_place_of_another_teams_extra_task() -> None:
    made = engine(with_rules(SHARED, speech=Rules(max_borrow={"A100": 1})), job("lent", priority=-1, vc="speech"))
    carry_out(made)
    made.submit(elastic(count=8))
    grown(made)
    made.submit(job("more", priority=-1, vc="speech"))
    plan = made.plan(1)
    assert (plan.answers, wait_of(plan, "more").reason.code) == ((), Code.BORROW_LIMIT)


# Shrinking


def test_an_owner_takes_as_few_extra_tasks_as_it_needs_the_highest_index_first() -> None:
    made = grown(engine(SHARED, elastic(count=8)))
    made.submit(job("mine", vc="speech"))
    assert lost(carry_out(made)) == {"elastic": [7]}
    assert indices(made) == [0, 1, 2, 3, 4, 5, 6]


def test_an_extra_task_gives_way_to_its_own_teams_jobs_of_any_priority() -> None:
    made = grown(engine(SHARED, elastic(count=8, priority=100)))
    made.submit(job("low", role(count=2), priority=0))
    assert lost(made.plan(1)) == {"elastic": [6, 7]}


@pytest.mark.parametrize("first", FirstToPay)
def test_extra_tasks_go_before_opportunistic_jobs_of_a_team_with_a_larger_share(first: FirstToPay) -> None:
    described = replace(cluster(node("a"), node("b"), vision=1, speech=5, nlp=2), policy=Policy(first_to_pay=first))
    made = engine(described, job("lent", role(count=5), priority=-1, vc="nlp", at=100))
    carry_out(made, 100)
    made.submit(elastic(count=3, least=1))
    grown(made, 100)
    made.submit(job("mine", role(count=2), vc="speech"))
    assert lost(made.plan(101)) == {"elastic": [1, 2]}


def test_the_shortest_run_time_protects_no_extra_task() -> None:
    made = grown(engine(cluster(node("a"), vision=2, speech=2), elastic(count=3, min_run=10_000)))
    carry_out(made)
    made.submit(job("lent", priority=-1, vc="vision", min_run=0))
    carry_out(made)
    made.submit(job("mine", role(count=1), vc="speech"))
    assert lost(made.plan(1)) == {"elastic": [2]}


def test_extra_tasks_of_a_job_that_is_not_preemptible_go_all_the_same() -> None:
    made = grown(engine(SHARED, elastic(count=8, preemptible=False)))
    made.submit(job("mine", role(count=4), vc="speech"))
    assert lost(made.plan(1)) == {"elastic": [4, 5, 6, 7]}


def test_an_extra_task_of_several_gpus_goes_whole() -> None:
    made = grown(engine(SHARED, elastic(count=4, least=1, gpus=2)))
    made.submit(job("mine", vc="speech"))
    assert lost(made.plan(1)) == {"elastic": [3]}


def test_with_its_gang_all_its_extra_tasks_end() -> None:
    made = grown(engine(SHARED, elastic(count=5, least=2, priority=0, grace=7)))
    made.submit(job("high", role(count=4), priority=9))
    (preempt,) = made.plan(1).preemptions
    assert lost(made.plan(1)) == {"elastic": [0, 1, 2, 3, 4]}
    assert preempt.victims[0].grace_ms == 7


def test_a_gang_that_is_put_on_loan_keeps_its_extra_tasks() -> None:
    made = grown(engine(SHARED, elastic(count=4, least=2, priority=0, lazy=True)))
    made.submit(job("high", role(count=4), priority=9))
    plan = carry_out(made)
    assert [start.demotes for start in plan.starts] == [("elastic",)]
    assert indices(made) == [0, 1, 2, 3]


def test_extra_tasks_are_never_promoted() -> None:
    made = engine(cluster(node("a"), vision=4), elastic(count=4, least=1, borrow=Borrow.AUTO))
    grown(made)
    plan = made.plan(1)
    assert plan.promotions == ()
    assert indices(made) == [0, 1, 2, 3]


@pytest.mark.parametrize("about", [{"priority": -1}, {"borrow": Borrow.AUTO, "priority": 0}])
def test_a_job_on_loan_gets_the_place_of_extra_tasks_whose_ever_they_are(about: dict[str, object]) -> None:
    made = engine(cluster(node("a"), node("b"), vision=2, speech=2, nlp=4), elastic(count=9))
    made.submit(job("busy", role(count=2), vc="speech", priority=100))
    grown(made)
    made.submit(job("lent", role(gpus=2), vc="speech", **about))  # type: ignore[arg-type]
    plan = made.plan(1)
    (preempt,) = plan.preemptions
    assert len(preempt.victims[0].tasks) == 2
    assert {use.virtual_cell for use in preempt.placements[0].leaves} == {None}
    made.carry_out(plan)
    meanwhile = made.plan(2)
    assert (meanwhile.answers, meanwhile.releases) == ((), ())
    assert wait_of(meanwhile, "lent").reason.numbers["first"] == "elastic"
    made.finish("elastic", preempt.victims[0].tasks)
    assert start_of(made.plan(3), "lent").placements == preempt.placements


def test_a_job_that_would_end_hours_of_work_gets_the_place_of_extra_tasks_instead() -> None:
    made = engine(cluster(node("a"), node("b"), vision=4, speech=4), job("old", role(count=2), priority=0))
    made.submit(elastic(count=6, priority=100, vc="vision"))
    grown(made)
    made.submit(job("new", role(count=2), priority=50, borrow=Borrow.AUTO))
    hours = 9 * 3_600_000
    plan = made.plan(hours)
    assert lost(plan) == {"elastic": [4, 5]}
    made.carry_out(plan)
    assert made.plan(hours + 1).answers == ()
    made.finish("elastic", plan.preemptions[0].victims[0].tasks)
    assert start_of(carry_out(made, hours + 2), "new").placements == plan.preemptions[0].placements
    assert made.plan(hours + 3).answers == ()


def test_a_job_on_loan_ends_no_extra_task_where_gpus_idle() -> None:
    made = grown(engine(SHARED, elastic(count=6)))
    made.submit(job("lent", role(count=2), priority=-1))
    plan = made.plan(1)
    assert ([start.job.id for start in plan.starts], plan.preemptions) == (["lent"], ())


def test_a_job_on_loan_that_would_not_fit_all_the_same_ends_nobody() -> None:
    made = grown(engine(SHARED, job("busy", role(count=3)), elastic(count=8, least=1)))
    made.submit(job("lent", role(count=6), priority=-1))
    assert made.plan(1).preemptions == ()


def test_an_owner_takes_what_was_claimed_for_an_opportunistic_job() -> None:
    made = grown(engine(cluster(node("a", 2), vision=1, speech=1), elastic(count=2, least=1)))
    made.submit(job("lent", priority=-1, vc="speech"))
    carry_out_orders(made)
    made.submit(job("mine", vc="speech"))
    plan = made.advance(2)
    assert [one.job.id for one in plan.preemptions] == ["mine"]
    assert [claim.claimant for claim in made.snapshot().claims] == ["mine"]


def carry_out_orders(made: Engine) -> None:
    """Carries a plan out, all but the ends of its victims."""
    made.carry_out(made.plan(1))


# The job outside is one


def test_extra_tasks_end_with_their_job() -> None:
    made = grown(engine(SHARED, elastic(count=12)))
    made.finish("elastic")
    state = made.snapshot()
    assert (state.running, state.waiting) == ((), ())
    with pytest.raises(UnknownJob):
        made.finish("elastic")


def test_its_saved_work_is_that_of_all_tasks() -> None:
    made = grown(engine(SHARED, elastic(count=3)))
    made.saved("elastic", 7)
    assert {task.checkpoint_ms for one in made.snapshot().running for task in one.tasks} == {7}


def test_it_is_asked_about_its_gang_and_then_about_its_next_extra_task() -> None:
    made = engine(SHARED)
    first = made.decide(elastic(), 0)
    assert isinstance(first, Start)
    assert [place.task.index for place in first.placements] == [0, 1]
    made.submit(elastic())
    made.start(first)
    (rest,) = made.snapshot().waiting
    then = made.decide(rest, 0)
    assert isinstance(then, Start)
    assert ([place.task.index for place in then.placements], then.job) == ([2], rest)


def test_a_victim_that_is_asked_about_has_the_name_of_its_job() -> None:
    made = grown(engine(SHARED, elastic(count=8)))
    answer = made.decide(job("mine", role(count=4), vc="speech"), 1)
    assert isinstance(answer, Preempt)
    assert [(one.job, len(one.tasks)) for one in answer.victims] == [("elastic", 4)]


def test_whoever_waits_for_cpu_is_told_of_the_job_and_not_of_its_extra_task() -> None:
    described = cluster(node("a", 2, cpu=8, keep_cpu=0, keep_memory=0), vision=2)
    made = engine(described, job("elastic", role(count=2, cpu=3, least=1)))
    grown(made)
    answer = made.decide(job("bare", role(gpus=0, cpu=4, sku=None)), 1)
    assert isinstance(answer, Wait)
    assert "worker/" not in answer.reason.sentence


def test_two_elastic_roles_grow_one_after_the_other() -> None:
    roles = (Role("worker", 4, 1, 0, 1, "A100", least=1), Role("server", 3, 1, 0, 1, "A100", least=1))
    made = engine(cluster(node("a"), vision=4), job("elastic", *roles))
    grown(made)
    tasks = [task.placement.task for one in made.snapshot().running for task in one.tasks]
    assert tasks == [TaskRef("server", 0), *(TaskRef("worker", index) for index in range(3))]
