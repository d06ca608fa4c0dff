"""A preemptor whose start fails keeps its cells while it pauses: its victim is ended for it once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase
from portal.accounts.models import User
from portal.hardware.models import CellType
from portal.jobs.models import Claim, Job, Preemption
from portal.jobs.services.submit import job_submit
from portal.jobs.states import JobState
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db

OPPO = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
FAULTS = [Exit(cause=Cause.ENGINE_FAULT, message="the runtime hung"), Exit(cause=Cause.SIGNALLED, code=137, signal=9)]


@pytest.fixture
def guest(world: World) -> User:
    """Carol is in a team that owns nothing."""
    carol = person("carol")
    member_set(vc=vc_create(name="guests", host_network=True, now=world.now), user=carol, role="lead", now=world.now)
    return carol


def lent(world: World, carol: User, *, gpu: int = 1) -> Job:
    """A job of Carol's that runs on loan."""
    text = job_file(name="guest", gpu=gpu, defaults={"virtualCluster": "guests"}, extras=OPPO)
    job = job_submit(user=carol, text=text, now=timezone.now())
    world.settle()
    assert state(job) == JobState.RUNNING
    return job


def state(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def placed(world: World, now: datetime | None = None) -> None:
    """Who must leave leaves, and who waits for that is placed; nothing of it has begun."""
    world.cycle(now=now)
    world.obeyed()
    world.cycle(now=now)


def fail(node: ScriptedNode, why: Exit) -> None:
    """Its task ends before it has begun."""
    (order,) = node.desired().orders
    assert order.phase is Phase.RUN
    node.end(order, why)
    node.report()
    node.obey()


def pause_on(owner: Job) -> None:
    """It pauses for longer than the test takes."""
    Job.objects.filter(pk=owner.pk).update(not_before=timezone.now() + timedelta(minutes=10))


@pytest.mark.parametrize("why", FAULTS, ids=["node", "own"])
def test_its_victim_is_ended_once_however_often_its_start_fails(world: World, guest: User, why: Exit) -> None:
    node = world.node("gpu01", gpus=1)
    victim = lent(world, guest)
    owner = world.submit(name="owner")
    placed(world)
    for pause in (5, 10):
        fail(node, why)
        again = Job.objects.get(pk=owner.pk).not_before
        assert again is not None
        world.cycle(now=again - timedelta(seconds=1))
        assert (state(owner), state(victim)) == (JobState.WAITING, JobState.WAITING), f"it pauses {pause} s"
        assert Job.objects.get(pk=owner.pk).waiting_code == "backoff"
        world.cycle(now=again)
        assert state(owner) == JobState.STARTING
    world.obeyed()
    assert (state(owner), state(victim)) == (JobState.RUNNING, JobState.WAITING)
    assert Preemption.objects.filter(victim__job=victim).count() == 1
    assert not Claim.objects.exists()


def test_what_it_would_keep_for_more_than_a_minute_is_lent_meanwhile(world: World, guest: User) -> None:
    node = world.node("gpu01", gpus=1)
    victim = lent(world, guest)
    owner = world.submit(name="owner")
    placed(world)
    for _ in range(5):
        fail(node, FAULTS[0])
        again = Job.objects.get(pk=owner.pk).not_before
        assert again is not None
        if again - timezone.now() <= timedelta(minutes=1):
            world.cycle(now=again)
    assert not Claim.objects.exists()
    pause_on(owner)
    other = lent(world, guest)
    assert [state(one) for one in (owner, victim, other)] == [JobState.WAITING, JobState.WAITING, JobState.RUNNING]


def test_it_keeps_nothing_on_a_node_that_it_avoids_from_now_on(world: World, guest: User) -> None:
    first, second = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    quota_set(vc=world.vc, cell_type=CellType.objects.get(child__isnull=True), count=1, now=world.now)
    lent(world, guest)
    lent(world, guest)
    owner = world.submit(name="owner")
    placed(world)
    here = next(node for node in (first, second) if node.desired().orders[0].phase is Phase.RUN and not node.containers)
    fail(here, FAULTS[0])
    pause_on(owner)
    world.cycle()
    assert not Claim.objects.exists()
    assert state(owner) == JobState.WAITING
    lent(world, guest)
    assert here.containers, "another has that GPU on loan"


def test_a_job_that_took_nothing_from_anybody_keeps_nothing(world: World, guest: User) -> None:
    node = world.node("gpu01", gpus=1)
    owner = world.submit(name="owner")
    world.cycle()
    fail(node, FAULTS[0])
    pause_on(owner)
    assert not Claim.objects.exists()
    victim = lent(world, guest)
    assert (state(owner), state(victim)) == (JobState.WAITING, JobState.RUNNING)


def test_a_higher_priority_of_its_team_passes_it_while_it_pauses(world: World, guest: User) -> None:
    node = world.node("gpu01", gpus=1)
    lent(world, guest)
    owner = world.submit(name="owner")
    placed(world)
    fail(node, FAULTS[0])
    pause_on(owner)
    urgent = world.submit(name="urgent", extras={"hivedScheduler": {"jobPriorityClass": "prod"}})
    world.cycle()
    assert (state(owner), state(urgent)) == (JobState.WAITING, JobState.STARTING)
    assert not Claim.objects.exists()
