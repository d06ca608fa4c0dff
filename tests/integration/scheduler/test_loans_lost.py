"""Who lost what it had on loan is lent again what has idled for a while: as the portal's rows tell it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from portal.accounts.models import User
from portal.hardware.models import Gpu
from portal.jobs.models import Allocation, Job, Preemption
from portal.jobs.services.submit import job_submit
from portal.jobs.states import JobState
from portal.scheduler.dependencies import job_key
from portal.scheduler.resting import leaves_freed, loans_lost
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person

pytestmark = pytest.mark.django_db

OPPO = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def guest(world: World) -> User:
    """Carol is in a team that owns nothing."""
    carol = person("carol")
    member_set(vc=vc_create(name="guests", host_network=True, now=world.now), user=carol, role="lead", now=world.now)
    return carol


def state(job: Job) -> str:
    return Job.objects.get(pk=job.pk).state


def test_a_loan_that_was_taken_back_is_given_again_when_the_gpu_has_idled(world: World, guest: User) -> None:
    node = world.node("gpu01", gpus=1)
    text = job_file(name="guest", defaults={"virtualCluster": "guests"}, extras=OPPO)
    job = job_submit(user=guest, text=text, now=timezone.now())
    world.settle()
    owner = world.submit(name="owner")
    world.settle()
    assert (state(job), state(owner)) == (JobState.WAITING, JobState.RUNNING)
    assert Preemption.objects.get().on_loan
    node.finish()
    world.settle()
    told = Job.objects.get(pk=job.pk)
    assert (told.state, told.waiting_code) == (JobState.WAITING, "loans_lost")
    assert told.waiting_numbers == {"times": 1, "minutes": 2, "place": 1}
    later = timezone.now()
    world.cycle(now=later + MINUTE)
    assert state(job) == JobState.WAITING
    world.cycle(now=later + 2 * MINUTE)
    assert state(job) == JobState.STARTING


def test_what_a_wrong_clock_dated_in_the_future_or_an_hour_ago_counts_for_nothing(world: World, guest: User) -> None:
    world.node("gpu01", gpus=1)
    text = job_file(name="guest", defaults={"virtualCluster": "guests"}, extras=OPPO)
    job = job_submit(user=guest, text=text, now=timezone.now())
    world.settle()
    world.submit(name="owner")
    world.settle()
    world.nodes["gpu01"].finish()
    now = timezone.now()
    (leaf,) = Gpu.objects.values_list("pk", flat=True)
    Allocation.objects.filter(task_attempt__task__job=job).update(released_at=now - 10 * MINUTE)
    read = partial(leaves_freed, leaf_ids={leaf: "leaf"})
    assert loans_lost(now=now) == {job_key(job.pk): 1}
    assert [now.timestamp() - one.at_ms / 1000 < 60 for one in read(now=now)] == [True], "given back by the last of two"
    for days in (-1, 1):
        assert (loans_lost(now=now + days * DAY), read(now=now + days * DAY)) == ({}, ())
    assert [len(loans_lost(now=now + minutes * MINUTE)) for minutes in (59, 61)] == [1, 0]


def test_who_gives_way_to_a_higher_priority_of_its_team_has_lost_no_loan(world: World) -> None:
    world.node("gpu01", gpus=1)
    low = world.submit(name="low")
    world.settle()
    world.submit(name="urgent", extras={"hivedScheduler": {"jobPriorityClass": "prod"}})
    world.settle()
    assert (state(low), Preemption.objects.get().on_loan) == (JobState.WAITING, False)
    assert loans_lost(now=timezone.now()) == {}


def test_what_is_beyond_its_share_of_cpu_is_on_loan_whatever_its_right_to_the_gpu(world: World) -> None:
    world.node("gpu01", gpus=2, cpus=32)
    wide = world.submit(name="wide", role={"resourcePerInstance": {"cpu": 20, "memoryMB": 1024, "gpu": 1}})
    world.settle()
    prod = {"hivedScheduler": {"jobPriorityClass": "prod"}}
    share = {"resourcePerInstance": {"cpu": 16, "memoryMB": 1024, "gpu": 1}}
    urgent = world.submit(name="urgent", role=share, extras=prod)
    world.settle()
    assert (state(wide), state(urgent)) == (JobState.WAITING, JobState.RUNNING)
    assert wide.attempts.get().end_message == (
        "Preempted by alice/urgent#1, which is owed the CPU or memory that it had on loan."
    )
    assert Preemption.objects.get().on_loan
