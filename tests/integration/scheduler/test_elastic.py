"""Elastic jobs as the portal's rows tell them: extra tasks come and go, and the gang runs on."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from nodes.protocol.messages import ContainerSpec
from nodes.protocol.states import Phase
from portal.accounts.models import User
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_set_intent
from portal.jobs.models import Job, JobAttempt, JobEvent, Task, TaskAttempt
from portal.jobs.services.drain import nodes_drain
from portal.jobs.services.lost import node_tasks_lose
from portal.jobs.services.submit import job_submit
from portal.jobs.states import JobState, TaskState
from portal.scheduler.resting import loans_lost
from portal.usage.selectors.gpu_hours import usage_of_days
from scheduling import TaskRef
from tests.integration.scheduler.plans import (
    PROD,
    carry_out,
    engine_job,
    obey,
    preempt,
    read,
    running,
    start,
    submitted,
)
from tests.support.cluster.world import World, job_file

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
GANG = {0: "gpu01/0", 1: "gpu01/1"}
EXTRA = {2: "gpu02/0", 3: "gpu02/1"}
OPPO = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
ELASTIC = {"elastic": {"worker": {"max": 4}}}


def grown(world: World, teams: Teams, **changes: object) -> Job:
    """A job of two tasks on gpu01 that has grown by two on gpu02."""
    job = running(world, teams["alice"], GANG, name="grows", berth={**ELASTIC, **changes})
    assert grow(world, job) == 1
    return job


def grow(world: World, job: Job) -> int:
    loaded = read()
    started = carry_out(loaded, starts=[start(loaded, job, EXTRA, borrowed=True)]).started
    obey(world)
    return started


def states(job: Job) -> tuple[str, list[str]]:
    """Of the job and its tasks."""
    return Job.objects.get(pk=job.pk).state, [*Task.objects.filter(job=job).values_list("state", flat=True)]


RUNS, WAITS = TaskState.RUNNING, TaskState.WAITING


def test_a_job_runs_with_its_gang_alone_and_its_extra_tasks_join_it(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], GANG, name="grows", berth=ELASTIC)
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, WAITS, WAITS])
    known = engine_job(read(), job)
    assert (known.wanted, known.grow_from_ms) == ((TaskRef("worker", 2), TaskRef("worker", 3)), None)
    assert grow(world, job) == 1
    assert states(job) == (JobState.RUNNING, [RUNS] * 4)
    assert JobAttempt.objects.get(job=job).number == 1


def test_the_scheduler_lets_it_grow_into_idle_gpus_and_takes_them_back_for_others(world: World, teams: Teams) -> None:
    job = submitted(world, teams["alice"], GANG, name="grows", berth=ELASTIC)
    world.settle()
    assert states(job) == (JobState.RUNNING, [RUNS] * 4)
    other = job_submit(
        user=teams["carol"],
        text=job_file(name="owner", instances=2, defaults={"virtualCluster": "language"}),
        now=timezone.now(),
    )
    world.settle()
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, WAITS, WAITS])
    assert states(other) == (JobState.RUNNING, [RUNS, RUNS])


def test_an_opportunistic_job_gets_the_gpu_of_an_extra_task(world: World, teams: Teams) -> None:
    job = submitted(world, teams["alice"], GANG, name="grows", berth=ELASTIC)
    world.settle()
    other = submitted(world, teams["carol"], {0: "gpu02/1"}, name="cheap", extras=OPPO)
    world.settle()
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, RUNS, WAITS])
    assert states(other) == (JobState.RUNNING, [RUNS])
    assert "extra tasks are the first to give theirs back" in JobEvent.objects.get(code="task_preempted").message


def test_it_grows_again_only_after_a_while(world: World, teams: Teams) -> None:
    before = timezone.now()
    job = grown(world, teams)
    later = engine_job(read(), job).grow_from_ms
    assert later is not None
    assert 0 <= later / 1000 - (before.timestamp() + 600) < 60


def test_nor_does_it_grow_soon_after_it_shrank(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    now = timezone.now().replace(microsecond=0)
    TaskAttempt.objects.filter(job_attempt__job=job).update(created_at=now - timedelta(hours=1))
    node_tasks_lose(node=Node.objects.get(name="gpu02"), now=now)
    assert engine_job(read(), job).grow_from_ms == (now.timestamp() + 600) * 1000
    ended = now - timedelta(minutes=1)
    TaskAttempt.objects.filter(lost_at__isnull=False).update(lost_at=None, released_at=ended)
    assert engine_job(read(), job).grow_from_ms == (ended.timestamp() + 600) * 1000


def test_a_gang_never_starts_twice_in_an_attempt(world: World, teams: Teams) -> None:
    job = running(world, teams["alice"], GANG, name="grows", berth=ELASTIC)
    loaded = read()
    again = {1: "gpu02/1", **EXTRA}
    assert carry_out(loaded, starts=[start(loaded, job, again, borrowed=True)]).started == 0


def test_extra_tasks_give_way_and_the_job_runs_on(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    other = submitted(world, teams["bob"], {0: "gpu02/1"}, name="wants", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, other, {0: "gpu02/1"}, {job: (3,)})])
    obey(world)
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, RUNS, WAITS])
    assert loans_lost(now=timezone.now()) == {}, "it lost no run"
    assert Task.objects.get(job=job, index=3).retries_counted == 0
    told = {event.code: event.message for event in JobEvent.objects.filter(job=job)}
    assert told["grew"] == "It grows to 4 tasks: 2 more on gpu02, whose GPUs nobody else wants now."
    assert told["shrank"].startswith("Task worker/3 on gpu02: Preempted by bob/wants#1, ")
    assert told["shrank"].endswith(". The job runs on with 3 tasks.")


def test_what_extra_tasks_held_is_told_apart_from_other_loans(world: World, teams: Teams) -> None:
    grown(world, teams)
    now = timezone.now() + timedelta(minutes=1)
    found = usage_of_days(first=world.now.date(), last=now.date(), now=now).values()
    assert 0 < sum(sums.grown_ms for sums in found) == sum(sums.opportunistic_ms for sums in found)


@pytest.mark.parametrize("taken", [(0, 1), (0, 1, 2, 3)])
def test_the_whole_job_gives_way_when_its_gang_is_wanted(world: World, teams: Teams, taken: tuple[int, ...]) -> None:
    job = grown(world, teams)
    other = submitted(world, teams["bob"], {0: "gpu01/0"}, name="wants", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, other, {0: "gpu01/0"}, {job: taken})])
    obey(world)
    assert states(job) == (JobState.WAITING, [WAITS] * 4)


def test_a_node_lost_under_extra_tasks_shrinks_the_job(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    node_tasks_lose(node=Node.objects.get(name="gpu02"), now=timezone.now())
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, WAITS, WAITS])


def test_a_node_lost_under_the_gang_ends_the_attempt(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    node_tasks_lose(node=Node.objects.get(name="gpu01"), now=timezone.now())
    obey(world)
    assert states(job)[0] == JobState.WAITING


def test_a_drained_node_takes_only_the_extra_tasks_there(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    now = timezone.now()
    node_set_intent(node=Node.objects.get(name="gpu02"), intent="draining", reason="", actor="root", now=now)
    nodes_drain(now=now)
    obey(world)
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, WAITS, WAITS])


def test_an_extra_task_that_fails_is_left_out_and_the_job_is_not_failed(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    world.nodes["gpu02"].finish(code=1)
    assert states(job) == (JobState.RUNNING, [RUNS, RUNS, TaskState.FAILED, TaskState.FAILED])
    assert engine_job(read(), job).wanted == ()


@pytest.mark.parametrize(("code", "state"), [(0, JobState.SUCCEEDED), (1, JobState.FAILED)])
def test_the_gang_alone_decides_how_the_job_ends(world: World, teams: Teams, code: int, state: str) -> None:
    job = grown(world, teams)
    world.nodes["gpu01"].finish(code=code)
    obey(world)
    assert states(job)[0] == state
    assert Task.objects.get(job=job, index=3).state == TaskState.STOPPED


def test_each_task_is_told_which_others_there_are_now(world: World, teams: Teams) -> None:
    job = grown(world, teams)
    assert told(world) == [4, 4, 4, 4]
    other = submitted(world, teams["bob"], {0: "gpu02/1"}, name="wants", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, other, {0: "gpu02/1"}, {job: (3,)})])
    assert told(world) == [3, 3, 3], "not the one that is told to leave"
    ports = {spec.index: spec.ports["http"][0] for spec in specs(world).values() if spec.job == job.label}
    (order, *_) = (order for order in world.nodes["gpu01"].desired().orders if order.peers)
    assert order.peers == tuple(f"127.0.0.1:{ports[index]}" for index in range(3))


def told(world: World) -> list[int]:
    """How many tasks each running one knows of."""
    orders = [order for node in world.nodes.values() for order in node.desired().orders]
    return [len(order.peers) for order in orders if order.phase is Phase.RUN and order.peers]


def specs(world: World) -> dict[int, ContainerSpec]:
    """By the task's index."""
    orders = [(node, order) for node in world.nodes.values() for order in node.desired().orders]
    found = [node.spec(order) for node, order in orders if order.phase is Phase.RUN]
    return {spec.index: spec for spec in found}


def test_torchrun_is_told_to_be_elastic_and_where_to_meet(world: World, teams: Teams) -> None:
    grown(world, teams)
    by_index = specs(world)
    for index, spec in by_index.items():
        assert spec.env["PET_NNODES"] == "2:4"
        (port,) = by_index[0].ports["berth_master"]
        assert spec.env["PET_RDZV_ENDPOINT"] == f"127.0.0.1:{port}"
        assert f"is_host={int(index == 0)}" in spec.env["PET_RDZV_CONF"]
        assert not {"PET_NODE_RANK", "PET_MASTER_ADDR", "RANK", "WORLD_SIZE"} & spec.env.keys()
    met_at = {spec.env["PET_LOCAL_ADDR"] for spec in by_index.values()}
    assert len(met_at) == 4, "torchrun would take two tasks of one node for one"
    assert {socket.gethostbyname(address) for address in met_at} == {"127.0.0.1"}
    told = [by_index[index].env["PAI_TASK_ROLE_TASK_COUNT_worker"] for index in range(4)]
    assert told == ["2", "2", "4", "4"], "who was there when it started"
