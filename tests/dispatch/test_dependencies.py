"""Jobs that wait for others: which run a name means, and what becomes of a job whose dependency failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.signals import post_init
from django.utils import timezone

from portal.dispatch.dependencies import dependencies
from portal.jobs.models import Job
from portal.jobs.selectors.labels import label_read
from portal.jobs.states import JobState
from tests.support.world import World

pytestmark = pytest.mark.django_db


def test_a_job_waits_for_the_one_it_names(world: World) -> None:
    node = world.node("gpu01")
    world.submit(name="first")
    second = world.submit(name="second", berth={"after": ["first"]})
    world.settle()
    second.refresh_from_db()
    assert second.waiting_code == "dependency"
    assert second.waiting_message == "it waits for alice/first#1 to succeed"
    node.finish()
    world.cycle()
    second.refresh_from_db()
    assert second.state == JobState.STARTING


def test_a_job_whose_dependency_failed_says_so_and_goes_on_when_it_is_run_again(world: World) -> None:
    node = world.node("gpu01")
    world.submit(name="first")
    second = world.submit(name="second", berth={"after": ["alice/first"]})
    world.settle()
    node.finish(code=1)
    world.cycle(now=timezone.now() + timedelta(seconds=61))
    second.refresh_from_db()
    assert second.waiting_message.startswith("it needs alice/first#1, which ended as failed")
    world.submit(name="first")
    world.settle()
    node.finish()
    world.cycle()
    second.refresh_from_db()
    assert second.state == JobState.STARTING


def test_a_job_that_names_its_own_name_waits_for_the_run_before_it(world: World) -> None:
    node = world.node("gpu01")
    world.submit(name="train")
    second, third = (world.submit(name="train", berth={"after": ["train"]}) for _ in range(2))
    world.settle()
    for one, before in ((second, 1), (third, 2)):
        one.refresh_from_db()
        assert one.waiting_message == f"it waits for alice/train#{before} to succeed"
    node.finish()
    world.settle()
    second.refresh_from_db()
    assert second.state == JobState.RUNNING
    node.finish(code=1)
    world.cycle(now=timezone.now() + timedelta(seconds=61))
    world.submit(name="train", berth={"after": ["train"]})
    world.cycle(now=timezone.now() + timedelta(seconds=122))
    third.refresh_from_db()
    assert third.waiting_message.startswith("it needs alice/train#2, which ended as failed"), "and for no later one"


def test_two_names_that_follow_each_other_again_and_again_do_not_wait_for_each_other(world: World) -> None:
    node = world.node("gpu01")
    jobs = [world.submit(name="prepare")]
    for name, after in (("train", "prepare"), ("prepare", "train"), ("train", "prepare")):
        jobs.append(world.submit(name=name, berth={"after": [after]}))
    for job in jobs:
        world.settle()
        job.refresh_from_db()
        assert job.state == JobState.RUNNING
        node.finish()


def test_of_a_name_with_many_runs_only_those_are_read_that_can_be_meant(
    world: World, django_assert_num_queries: Any
) -> None:
    world.node("gpu01")
    for _ in range(5):
        world.submit(name="first")
    asking = {world.submit(name="second", berth={"after": [text]}).pk: text for text in ("first", "first#2")}
    world.submit(name="first")
    wanted = {job: [label_read(text, user="alice")] for job, text in asking.items()}
    read: list[int] = []

    def note(instance: Job, **_: object) -> None:
        read.append(instance.run)

    post_init.connect(note, sender=Job)
    try:
        with django_assert_num_queries(1):
            found = dependencies(wanted)
    finally:
        post_init.disconnect(note, sender=Job)
    assert [*found.words.values()] == [f"it waits for alice/first#{run} to succeed" for run in (5, 2)]
    assert sorted(read) == [2, 5, 6]
