"""Gangs of tasks with GPUs and tasks without: whose CPU is kept for whom, and that they start at all."""

import pytest

from scheduling import Cluster, Engine, Job, JobRefused, Node, Plan, Start
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running

FOR_IDLE_GPUS = "do not fit the nodes beside the CPU and memory that these keep for idle GPUs"


def kept(name: str, gpus: int, cpu: int, each: int = 1) -> Node:
    """A node that keeps so many cores for each idle GPU."""
    return node(name, gpus, cpu=cpu, keep_cpu=each, keep_memory=0)


def alone(described: Cluster, asked: Job) -> dict[str, list[str]]:
    """The nodes of the roles of a job that is asked about on the idle cluster."""
    answer = engine(described).decide(asked, 0)
    found: dict[str, list[str]] = {}
    for one in answer.placements if isinstance(answer, Start) else ():
        found.setdefault(one.role, []).append(one.node)
    return found


def started(plan: Plan, name: str) -> dict[str, str]:
    """The nodes of the first tasks of a job that starts, by role."""
    places = [place for start in plan.starts if start.job.id == name for place in start.placements]
    return {place.role: place.node for place in places if not place.task.index}


def with_helpers(name: str, *, workers: int = 1, gpus: int = 1, cpu: int = 1, helpers: int = 1, help_cpu: int = 1,
                 priority: int = 10) -> Job:  # fmt: skip
    """A gang of workers on GPUs and helpers without."""
    roles = role(count=workers, gpus=gpus, cpu=cpu), role("helper", helpers, 0, cpu=help_cpu, sku=None)
    return job(name, *roles, priority=priority)


def test_gpus_that_a_gang_takes_itself_are_not_idle() -> None:
    described = cluster(kept("a", 2, 4, each=2), vision=2)
    assert alone(described, with_helpers("gang", gpus=2, helpers=2)) == {"worker": ["a"], "helper": ["a", "a"]}


def test_tasks_on_gpus_leave_the_cpu_that_the_others_of_their_gang_need() -> None:
    described = cluster(kept("a", 2, 3), kept("b", 4, 9), vision=6)
    gang = with_helpers("gang", workers=2, cpu=2, help_cpu=4)
    assert alone(described, gang) == {"worker": ["a", "b"], "helper": ["b"]}


def test_tasks_on_gpus_take_the_nodes_that_leave_the_others_of_their_gang_room_for_all() -> None:
    described = cluster(kept("a", 2, 3), kept("b", 4, 13), vision=6)
    gang = with_helpers("gang", workers=2, cpu=4, help_cpu=3)
    assert alone(described, gang) == {"worker": ["b", "b"], "helper": ["b"]}


def test_a_gang_for_whose_tasks_cpu_is_kept_on_every_idle_node_is_refused_and_told_so() -> None:
    small = cluster(node("a", 4, cpu=2, keep_cpu=None, keep_memory=0), vision=4)
    with pytest.raises(JobRefused, match=f"tasks of 1 x 1 A100, 1 x 0 GPUs {FOR_IDLE_GPUS}"):
        Engine(small).submit(with_helpers("gang"))


def test_tasks_without_gpus_by_themselves_may_wait_until_gpus_are_busy() -> None:
    small = cluster(node("a", 4, cpu=2, keep_cpu=None, keep_memory=0), vision=4)
    made = engine(small, job("alone", role(gpus=0, sku=None)))
    assert made.advance(0).starts == ()
    made.submit(job("gpus", role(gpus=4)))
    assert [start.job.id for start in made.advance(1).starts] == ["gpus", "alone"]


def test_a_gang_that_has_taken_its_gpus_puts_its_other_tasks_where_it_leaves_them_cpu() -> None:
    described = cluster(kept("n0", 4, 4), kept("n1", 2, 4), kept("n2", 4, 5), vision=5, speech=2)
    made = running(
        described, job("theirs", role(gpus=2), vc="speech"), job("three", role(count=3), gang=False),
        job("low", priority=0),
    )  # fmt: skip
    made.finish("theirs")
    made.submit(with_helpers("gang", gpus=2, cpu=4))
    assert [victim.job for victim in made.advance(1).preemptions[0].victims] == ["low"]
    made.finish("low")
    assert started(made.advance(2), "gang") == {"worker": "n1", "helper": "n2"}


def test_tasks_on_gpus_stay_on_nodes_that_take_none_without() -> None:
    described = cluster(node("a", 2, cpu_tasks=False), node("b", 0), vision=2)
    gang = with_helpers("gang", workers=2, helpers=2)
    assert alone(described, gang) == {"worker": ["a", "a"], "helper": ["b", "b"]}


def taken_and_stuck() -> Engine:
    """A gang has taken both GPUs of node a. Its helper found CPU on node b, whose GPUs were busy, and finds none there
    since they idle."""
    described = cluster(kept("a", 2, 2), kept("b", 2, 4), vision=2, speech=2)
    made = running(described, job("low", role(gpus=2), priority=0), job("theirs", role(gpus=2), vc="speech"))
    made.submit(with_helpers("gang", gpus=2, help_cpu=3))
    assert [one.job.id for one in made.advance(1).preemptions] == ["gang"]
    made.finish("theirs")
    made.finish("low")
    return made


def test_a_gang_whose_other_tasks_find_no_cpu_beside_its_claims_starts_where_all_of_it_can() -> None:
    made = taken_and_stuck()
    plan = made.advance(2)
    assert started(plan, "gang") == {"worker": "b", "helper": "b"}
    assert plan.releases == ("a:0", "a:1")
    state = made.snapshot()
    assert (state.claims, state.waiting) == ((), ())
    assert Engine.restore(state).snapshot() == state
