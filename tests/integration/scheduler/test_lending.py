"""Lending and taking back as the scheduler itself decides it, cycle by cycle, with scripted nodes."""

from __future__ import annotations

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from portal.accounts.models import User
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Claim, Job, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.jobs.states import JobState
from tests.integration.scheduler.plans import PROD, submitted
from tests.support.cluster.world import World
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
TWO = {0: "gpu01/0", 1: "gpu01/1"}
AUTO = {"borrow": "auto"}


def held(job: Job) -> list[str]:
    """By what right the job holds its GPUs."""
    live = Allocation.objects.filter(task_attempt__task__job=job, released_at__isnull=True)
    return sorted(live.values_list("standing", flat=True))


def states(*jobs: Job) -> list[str]:
    return [Job.objects.get(pk=job.pk).state for job in jobs]


def test_a_higher_priority_of_the_same_team_takes_the_gpus_and_gives_them_back(world: World, teams: Teams) -> None:
    low = submitted(world, teams["alice"], TWO, name="low")
    world.settle()
    high = submitted(world, teams["bob"], TWO, name="high", extras=PROD)
    world.settle()
    assert states(low, high) == [JobState.WAITING, JobState.RUNNING]
    assert low.attempts.get().end_message == "Preempted by bob/high#1, which has a higher priority."
    assert not Claim.objects.exists()
    for node in world.nodes.values():
        node.finish()
    world.settle()
    assert states(low, high) == [JobState.RUNNING, JobState.SUCCEEDED]
    low.refresh_from_db()
    assert low.retries_counted == 0


def test_what_a_team_leaves_idle_is_lent_and_taken_back_when_it_is_wanted(world: World, teams: Teams) -> None:
    mine = submitted(world, teams["carol"], TWO, name="mine")
    guest = submitted(world, teams["carol"], TWO, name="guest", extras={"berth": AUTO})
    world.settle()
    assert (held(mine), held(guest)) == (["guaranteed"] * 2, ["borrowed"] * 2)
    browser = Browser(teams["carol"])
    assert "It holds 2 GPUs on loan, which are taken back, after a warning" in browser.get(f"/jobs/{guest.pk}").text
    assert "on loan" not in browser.get(f"/jobs/{mine.pk}").text
    owner = submitted(world, teams["alice"], TWO, name="owner")
    world.settle()
    assert states(mine, guest, owner) == [JobState.RUNNING, JobState.WAITING, JobState.RUNNING]
    assert guest.attempts.get().end_message == (
        "Preempted by a job of alice in vision (2 GPUs), which is owed the GPUs that it had on loan."
    )


def test_a_higher_priority_takes_over_what_its_team_has_on_loan(world: World, teams: Teams) -> None:
    """Until that is gone the owner may have it all the same."""
    mine = submitted(world, teams["carol"], TWO, name="mine", extras=PROD)
    guest = submitted(world, teams["carol"], TWO, name="guest", extras={"berth": AUTO})
    world.settle()
    high = submitted(world, teams["carol"], TWO, name="high", extras={**PROD, "berth": AUTO})
    world.cycle()
    world.cycle()
    assert set(Claim.objects.values_list("claimant", "victim", "virtual_cell")) == {(high.pk, guest.pk, "")}
    world.settle()
    assert states(mine, guest, high) == [JobState.RUNNING, JobState.WAITING, JobState.RUNNING]
    assert (held(high), Claim.objects.count()) == (["borrowed"] * 2, 0)
    assert guest.attempts.get().end_message == "Preempted by carol/high#1, which has a higher priority."
    assert guest.attempts.get().preemptions.get().on_loan
    owner = submitted(world, teams["alice"], TWO, name="owner")
    world.settle()
    assert states(mine, guest, high, owner) == [JobState.RUNNING, JobState.WAITING, JobState.WAITING, JobState.RUNNING]


def test_a_borrower_comes_into_its_quota_where_it_is(world: World, teams: Teams) -> None:
    mine = submitted(world, teams["carol"], TWO, name="mine")
    world.settle()
    guest = submitted(world, teams["carol"], TWO, name="guest", extras={"berth": AUTO})
    world.settle()
    job_stop(job=mine, actor=teams["carol"], now=timezone.now())
    world.settle()
    assert held(guest) == ["guaranteed"] * 2
    assert guest.attempts.count() == 1
    assert guest.events.get(code="promoted").message == "Its 2 GPUs are inside the quota of language from now on."


def test_a_preemptor_gets_its_victims_very_gpus_though_others_are_idle(world: World, teams: Teams) -> None:
    """Who leaves follows from the team's own cells; the idle GPUs are other teams'."""
    low = submitted(world, teams["alice"], TWO, name="low")
    world.settle()
    high = submitted(world, teams["bob"], TWO, name="high", extras=PROD)
    world.cycle()
    world.cycle()
    assert (held(low), held(high)) == (["borrowed"] * 2, [])
    assert set(Claim.objects.values_list("claimant", "victim", "leaf__node__name")) == {(high.pk, low.pk, "gpu01")}
    world.settle()
    assert states(low, high) == [JobState.WAITING, JobState.RUNNING]


def test_a_preemptor_that_is_stopped_leaves_its_victim_the_way_back(world: World, teams: Teams) -> None:
    low = submitted(world, teams["alice"], TWO, name="low")
    submitted(world, teams["carol"], TWO, name="others")
    world.settle()
    high = submitted(world, teams["bob"], TWO, name="high", extras=PROD)
    for _ in range(2):
        world.cycle()
        assert Claim.objects.count() == 2
        high.refresh_from_db()
        assert high.waiting_code == "preempting"
        assert high.waiting_message.startswith("2 GPUs of alice/low#1 are taken back for it by ")
    job_stop(job=high, actor=teams["bob"], now=timezone.now())
    world.settle()
    assert states(low, high) == [JobState.RUNNING, JobState.STOPPED]
    assert low.attempts.count() == 2


@pytest.mark.parametrize("fate", ["its node is lost", "it cannot be killed"])
def test_a_victim_that_never_gives_its_gpus_back_does_not_hold_its_preemptor_for_ever(
    world: World, teams: Teams, fate: str
) -> None:
    low = submitted(world, teams["alice"], TWO, name="low")
    guest = submitted(world, teams["carol"], TWO, name="guest")
    world.settle()
    high = submitted(world, teams["bob"], TWO, name="high", extras=PROD)
    world.cycle()
    gone = TaskAttempt.objects.filter(task__job=low)[0].node
    assert set(Claim.objects.values_list("leaf__node__name", flat=True)) == {gone.name}
    stuck = world.nodes.pop(gone.name)
    if fate == "its node is lost":
        Node.objects.filter(pk=gone.pk).update(health=NodeHealth.LOST)
    else:
        for order in stuck.desired().orders:
            stuck.end(order, Exit(cause=Cause.UNKILLABLE))
        stuck.report()
    world.settle()
    high.refresh_from_db()
    assert (high.state, high.waiting_code) == (JobState.WAITING, "bad_nodes")
    assert not Claim.objects.exists()
    job_stop(job=guest, actor=teams["carol"], now=timezone.now())
    world.settle()
    assert states(low, high) == [JobState.WAITING, JobState.RUNNING]


def test_many_cycles_on_the_same_jobs_change_nothing_more(world: World, teams: Teams) -> None:
    for name, user in teams.items():
        for number in range(3):
            submitted(world, user, {0: "gpu01/0"}, name=f"{name}-{number}", extras={"berth": AUTO})
    submitted(world, teams["bob"], TWO, name="high", extras=PROD)
    for _ in range(3):
        world.settle()
    before = list(Job.objects.order_by("pk").values_list("name", "state", "retries"))
    done = [world.cycle().applied for _ in range(3)]
    assert [(one.started, one.preempted, one.promoted, one.demoted, one.skipped) for one in done] == [(0,) * 5] * 3
    assert list(Job.objects.order_by("pk").values_list("name", "state", "retries")) == before
