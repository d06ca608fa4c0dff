"""Jobs that wait for others: which run a name means, and what becomes of a job whose dependency failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db.models.signals import post_init
from django.utils import timezone

from portal.jobs.models import Job
from portal.jobs.selectors.labels import JobLabel, label_read
from portal.jobs.states import JOB_OVER, JobState
from portal.scheduler.dependencies import NEWEST, dependencies
from tests.support.cluster.world import World
from tests.support.people.cast import person

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
    for name in ("first", "other"):
        for _ in range(5):
            world.submit(name=name)
    # The one above is forgotten; this one asks for another name, and for the first one's.
    asking |= {world.submit(name="third", berth={"after": [text]}).pk: text for text in ("other", "first")}
    wanted = {job: [label_read(text, user="alice")] for job, text in asking.items()}
    with runs_read() as read, django_assert_num_queries(1):
        found = dependencies(wanted)
    runs = "first#5", "first#2", "other#5", "first#11"
    assert [*found.words.values()] == [f"it waits for alice/{run} to succeed" for run in runs]
    assert sorted(read) == ["first#11", "first#2", "first#5", "other#5"]


@contextmanager
def runs_read() -> Iterator[list[str]]:
    """What is read of jobs meanwhile."""
    read: list[str] = []

    def note(instance: Job, **_: object) -> None:
        read.append(f"{instance.name}#{instance.run}")

    post_init.connect(note, sender=Job)
    try:
        yield read
    finally:
        post_init.disconnect(note, sender=Job)


def test_what_is_meant_is_what_all_runs_would_tell(world: World) -> None:
    """Whatever ran before and between: read as little as that, the answer is that of reading everything."""
    chance, runs = Random(7), Counter[tuple[int, str]]()
    people = [world.user, person("bob")]
    for _ in range(120):
        user, name = chance.choice(people), chance.choice(["first", "second", "third"])
        runs[user.pk, name] += 1
        state = chance.choice([*JobState])
        Job.objects.create(
            user=user, vc=world.vc, name=name, run=runs[user.pk, name], state=state, priority=0, spec={}, config="",
            submitted_at=world.now,
        )  # fmt: skip
    every = [*Job.objects.select_related("user").order_by("pk")]
    asking = {
        job.pk: [
            label_read(text, user=job.user.username)
            for text in chance.sample(["first", "bob/second", "alice/third", "bob/first#3", "second#99", "none"], k=2)
        ]
        for job in chance.sample(every, k=40)
    } | {NEWEST: [label_read("first", user="alice")]}
    found = dependencies(asking)
    for job, labels in asking.items():
        meant = [one for label in labels if (one := meant_by(label, job, every))]
        assert found.after[job] == tuple(str(one.pk) for one in meant if one.state not in JOB_OVER)
        broken = [one.label for one in meant if one.state in {"failed", "stopped"}]
        assert (job in found.broken) == bool(broken)
        assert not broken or broken[0] in found.broken[job].message


def meant_by(label: JobLabel, asking: int, every: Sequence[Job]) -> Job | None:
    """The same from all jobs there are."""
    runs = [job for job in every if (job.user.username, job.name) == (label.user, label.name)]
    if label.run is not None:
        return next((job for job in runs if job.run == label.run), None)
    before = max((job for job in runs if job.pk < asking), key=lambda job: job.pk, default=None)
    if any(job.pk == asking for job in runs) or (before and before.state not in {"failed", "stopped"}):
        return before
    return runs[-1] if runs else None
