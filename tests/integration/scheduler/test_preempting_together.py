"""Several preemptions of one cycle: together, and each as if it were alone."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import User
from portal.jobs.models import Claim, Job, Preemption
from portal.jobs.services.stop import job_stop
from tests.integration.scheduler.plans import PROD, carry_out, preempt, read, running, submitted
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
LEAVES = ("gpu01/0", "gpu01/1", "gpu02/0")


def pairs(world: World, teams: Teams, leaves: tuple[str, ...]) -> list[tuple[Job, Job, str]]:
    """Jobs that run, each with one of a higher priority that waits for its GPU."""
    lows = [running(world, teams["alice"], {0: leaf}, borrowed=True, name=f"low-{leaf[-3]}") for leaf in leaves]
    highs = [submitted(world, teams["bob"], {0: leaf}, name="high", extras=PROD) for leaf in leaves]
    return list(zip(lows, highs, leaves, strict=True))


def preempted(found: list[tuple[Job, Job, str]]) -> int:
    loaded = read()
    wanted = [preempt(loaded, high, {0: leaf}, {low: (0,)}) for low, high, leaf in found]
    return carry_out(loaded, preemptions=wanted).preempted


def test_each_preemptor_and_each_victim_is_told_its_own(world: World, teams: Teams) -> None:
    found = pairs(world, teams, LEAVES)
    assert preempted(found) == 3
    for low, high, _ in found:
        told = Job.objects.get(pk=high.pk)
        assert told.waiting_message.startswith(f"1 GPU of {low.label} is taken back for it by ")
        assert low.attempts.get().end_message.startswith(f"Preempted by {high.label}, ")
        assert high.claims.get().victim == low


def test_several_take_hardly_more_queries_than_one(world: World, teams: Teams) -> None:
    found = pairs(world, teams, LEAVES)
    with CaptureQueriesContext(connection) as alone:
        assert preempted(found[:1]) == 1
    with CaptureQueriesContext(connection) as two:
        assert preempted(found[1:]) == 2
    assert len(two) <= len(alone)


def test_one_whose_job_was_stopped_since_is_left_out(world: World, teams: Teams) -> None:
    found = pairs(world, teams, LEAVES)
    loaded = read()
    job_stop(job=found[1][1], actor=world.user, now=timezone.now())
    wanted = [preempt(loaded, high, {0: leaf}, {low: (0,)}) for low, high, leaf in found]
    done = carry_out(loaded, preemptions=wanted)
    assert (done.preempted, done.skipped) == (2, 1)
    assert set(Claim.objects.values_list("claimant", flat=True)) == {found[0][1].pk, found[2][1].pk}
    assert not found[1][0].attempts.get().end_reason


def test_a_victim_of_two_is_told_of_the_first(world: World, teams: Teams) -> None:
    both = {0: "gpu01/0", 1: "gpu02/0"}
    low = running(world, teams["alice"], both, borrowed=True, name="low")
    first, second = (submitted(world, teams["bob"], {0: leaf}, name="high", extras=PROD) for leaf in both.values())
    loaded = read()
    wanted = [preempt(loaded, job, {0: both[place]}, {low: (0, 1)}) for place, job in enumerate((first, second))]
    assert carry_out(loaded, preemptions=wanted).preempted == 2
    assert [one.preemptor for one in Preemption.objects.all()] == [first]
    assert first.label in low.attempts.get().end_message
    assert {claim.claimant for claim in Claim.objects.all()} == {first, second}
