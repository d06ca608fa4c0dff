"""Preemption end to end with scripted nodes: claims, the order to end, the victim's return, the preemptor's start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, Phase, StopReason
from portal.accounts.models import User
from portal.common.wake import LOOK_FLAG, redis_once, scheduler_flag_clear
from portal.jobs.models import Allocation, Claim, Job, JobEvent, Preemption, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
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
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

Teams = dict[str, User]
PLACES = {0: "gpu01/0", 1: "gpu02/0"}


def holders() -> dict[str, str]:
    """Leaf -> name of the job that holds it."""
    rows = Allocation.objects.filter(released_at__isnull=True).select_related("leaf__node", "task_attempt__task__job")
    return {f"{row.leaf.node.name}/{row.leaf.slot}": row.task_attempt.task.job.name for row in rows}


def claimed() -> set[tuple[str, str, str]]:
    """(leaf, claimant, who held it) of each claim."""
    rows = Claim.objects.select_related("leaf__node", "claimant", "victim")
    return {
        (f"{row.leaf.node.name}/{row.leaf.slot}", row.claimant.name, row.victim.name if row.victim else "")
        for row in rows
    }


def pair(world: World, teams: Teams, *, victim: str = "alice", borrowed: bool = False, **changes: Any) -> list[Job]:
    """A gang that runs on both nodes, and one of a higher priority that waits for its places."""
    low = running(world, teams[victim], PLACES, borrowed=borrowed, name="low", **changes)
    high = submitted(world, teams["bob"], PLACES, name="high", extras=PROD)
    return [low, high]


def test_who_held_a_gpu_before_keeps_the_right_by_which_it_did(world: World, teams: Teams) -> None:
    earlier = running(world, teams["alice"], {0: "gpu01/0"}, name="earlier")
    job_stop(job=earlier, actor=teams["alice"], now=timezone.now())
    obey(world)
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)}, grace_s=45)])
    held = Allocation.objects.order_by("pk").values_list("task_attempt__task__job__name", "standing", "turns")
    (first, standing, turns), *rest = held
    assert (first, standing, turns) == ("earlier", "guaranteed", "")
    assert {(name, standing) for name, standing, _ in rest} == {("low", "borrowed")}


# ---------------------------------------------------------------- the whole way


def test_a_victim_is_told_why_ends_waits_again_in_its_place_and_the_preemptor_starts(
    world: World, teams: Teams
) -> None:
    low, high = pair(world, teams)
    loaded = read()
    assert carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)}, grace_s=45)]).preempted == 1

    assert claimed() == {("gpu01/0", "high", "low"), ("gpu02/0", "high", "low")}
    for node in world.nodes.values():
        (order,) = node.desired().orders
        assert order.phase is Phase.STOP
        assert order.stop is not None
        assert (order.stop.reason, order.stop.grace_s) == (StopReason.PREEMPTED, 45)
        assert order.stop.message == "Preempted by bob/high#1, which has a higher priority."
    high.refresh_from_db()
    assert (high.state, high.waiting_code) == (JobState.WAITING, "preempting")
    assert high.waiting_message.startswith("2 GPUs of alice/low#1 are taken back for it by ")

    obey(world)
    submitted_at = low.submitted_at
    low.refresh_from_db()
    assert (low.state, low.submitted_at, low.retries_counted, low.not_before) == (
        JobState.WAITING, submitted_at, 0, None,
    )  # fmt: skip
    attempt = low.attempts.get()
    assert (attempt.end_reason, attempt.end_message) == (
        EndReason.PREEMPTED, "Preempted by bob/high#1, which has a higher priority.",
    )  # fmt: skip
    assert low.events.get(code="requeued").message.endswith("The job waits again, with the time of its submission.")
    assert holders() == {}

    loaded = read()
    assert [claim.victim for claim in loaded.snapshot.claims] == [None, None]
    assert carry_out(loaded, starts=[start(loaded, high, PLACES)]).started == 1
    assert not Claim.objects.exists()
    assert holders() == {"gpu01/0": "high", "gpu02/0": "high"}
    obey(world)
    high.refresh_from_db()
    assert high.state == JobState.RUNNING


def test_the_engine_is_shown_who_leaves_what_is_claimed_and_by_whom(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    snapshot = read().snapshot
    assert [task.leaving for running in snapshot.running for task in running.tasks] == [True, True]
    assert [
        (claim.leaf, claim.claimant, claim.victim, claim.virtual_cell, claim.task) for claim in snapshot.claims
    ] == [
        (leaf, str(high.pk), str(low.pk), f"vision/{leaf}", TaskRef("worker", index)) for index, leaf in PLACES.items()
    ]
    assert [job.id for job in snapshot.waiting] == [str(high.pk)]


def test_both_jobs_keep_who_why_and_when(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    loaded, now = read(), timezone.now()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)}, grace_s=60)], now=now)
    row = Preemption.objects.get()
    assert (row.preemptor, row.victim.job, row.tasks, row.gpus) == (high, low, 2, 2)
    assert row.deadline == now + timedelta(seconds=60)
    assert low.events.get(code="ending_preempted").message == "Preempted by bob/high#1, which has a higher priority."
    message = high.events.get(code="preempting").message
    assert message == f"2 GPUs of alice/low#1 are taken back for it by {row.deadline:%H:%M:%S} UTC."


def test_of_another_teams_job_only_owner_team_and_gpus_are_told(world: World, teams: Teams) -> None:
    low, high = pair(world, teams, victim="carol", borrowed=True)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    assert low.attempts.get().end_message == (
        "Preempted by a job of bob in vision (2 GPUs), which is owed the GPUs that it had on loan."
    )
    high.refresh_from_db()
    assert high.waiting_message.startswith("2 GPUs of a job of carol in language (2 GPUs) are taken back for it by ")
    for job, secret in ((low, "high"), (high, "low")):
        said = [one.message for one in JobEvent.objects.filter(job=job)]
        assert not [one for one in said if secret in one and job.name not in one]


# ---------------------------------------------------------------- a job that is no gang


def test_a_job_that_is_no_gang_loses_single_tasks_and_goes_on(world: World, teams: Teams) -> None:
    places = {0: "gpu01/0", 1: "gpu02/0"}
    low = running(
        world, teams["alice"], places, name="low", gang=False, role={"completion": {"minSucceededInstances": 2}}
    )
    high = submitted(world, teams["bob"], {0: "gpu01/0"}, name="high", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, {0: "gpu01/0"}, {low: (0,)})])
    obey(world)
    low.refresh_from_db()
    assert low.state == JobState.RUNNING
    assert list(low.tasks.order_by("index").values_list("state", "retries_counted")) == [("waiting", 0), ("running", 0)]
    assert low.attempts.get().end_reason == ""
    told = low.events.get(code="task_retried").message
    assert told == ("Task worker/0 on gpu01: Preempted by bob/high#1, which has a higher priority. It is tried again.")
    loaded = read()
    assert engine_job(loaded, low).wanted == (TaskRef("worker", 0),)
    assert (
        carry_out(loaded, starts=[start(loaded, high, {0: "gpu01/0"}), start(loaded, low, {0: "gpu02/1"})]).started == 2
    )
    obey(world)
    assert holders() == {"gpu01/0": "high", "gpu02/0": "low", "gpu02/1": "low"}


# ---------------------------------------------------------------- what comes between


def test_the_stop_of_a_preemptor_withdraws_its_claims(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    job_stop(job=high, actor=teams["bob"], now=timezone.now())
    assert not Claim.objects.exists()
    obey(world)
    low.refresh_from_db()
    assert low.state == JobState.WAITING


def test_when_a_running_job_that_claims_more_is_stopped_the_scheduler_looks_at_once(world: World, teams: Teams) -> None:
    low = running(world, teams["alice"], {0: "gpu02/0"}, name="low")
    high = submitted(world, teams["bob"], PLACES, name="high", extras={**PROD, "gangAllocation": False})
    loaded = read()
    carry_out(loaded, starts=[start(loaded, high, {0: "gpu01/0"})])
    obey(world)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, {1: "gpu02/0"}, {low: (0,)})])
    assert claimed() == {("gpu02/0", "high", "low")}
    scheduler_flag_clear()
    job_stop(job=high, actor=teams["bob"], now=timezone.now())
    assert not Claim.objects.exists()
    assert redis_once().exists(LOOK_FLAG)


def test_a_preemptor_that_was_stopped_before_its_plan_is_carried_out_takes_nothing(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    loaded = read()
    job_stop(job=high, actor=teams["bob"], now=timezone.now())
    done = carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    assert (done.preempted, done.skipped) == (0, 1)
    assert not Claim.objects.exists()
    low.refresh_from_db()
    assert low.state == JobState.RUNNING
    assert not TaskAttempt.objects.exclude(stop_reason="").exists()


@pytest.mark.parametrize("end", ["by itself", "by a person"])
def test_a_victim_that_ends_before_the_plan_is_carried_out_is_told_nothing_and_the_claim_holds(
    world: World, teams: Teams, end: str
) -> None:
    low, high = pair(world, teams)
    loaded = read()
    if end == "by itself":
        for node in world.nodes.values():
            node.finish()
    else:
        job_stop(job=low, actor=teams["alice"], now=timezone.now())
    assert carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})]).preempted == 1
    assert not Preemption.objects.exists()
    obey(world)
    low.refresh_from_db()
    assert low.state == (JobState.SUCCEEDED if end == "by itself" else JobState.STOPPED)
    loaded = read()
    assert carry_out(loaded, starts=[start(loaded, high, PLACES)]).started == 1
    assert not Claim.objects.exists()


def test_a_victim_whose_tasks_had_all_succeeded_before_they_heard_of_it_is_not_run_again(
    world: World, teams: Teams
) -> None:
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    for node in world.nodes.values():
        (order,) = node.desired().orders
        node.end(order, Exit(cause=Cause.EXITED, code=0))
        node.report()
    low.refresh_from_db()
    assert (low.state, low.end_reason) == (JobState.SUCCEEDED, EndReason.SUCCEEDED)
    assert low.end_message == "All tasks had succeeded by themselves before they could be preempted."
    attempt = low.attempts.get()
    assert (attempt.end_reason, attempt.end_message) == (EndReason.SUCCEEDED, low.end_message)


def test_nobody_else_starts_on_what_is_claimed(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    other = submitted(world, teams["carol"], {0: "gpu01/0"}, name="other")
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    obey(world)
    assert holders() == {}
    loaded = read()
    assert carry_out(loaded, starts=[start(loaded, other, {0: "gpu01/0"})]).skipped == 1
    assert holders() == {}


def test_a_higher_claim_takes_a_claim_over_and_the_loser_keeps_none(world: World, teams: Teams) -> None:
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    urgent = {"hivedScheduler": {"jobPriorityClass": "crit"}}
    top = submitted(world, teams["bob"], {0: "gpu01/0"}, name="top", extras=urgent)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, top, {0: "gpu01/0"}, {}, releases=("gpu02/0",))])
    assert claimed() == {("gpu01/0", "top", "low")}
    obey(world)
    loaded = read()
    assert carry_out(loaded, starts=[start(loaded, top, {0: "gpu01/0"})]).started == 1
    assert not Claim.objects.exists()


def test_claims_that_nobody_needs_are_given_up_but_not_one_that_was_taken_over_since(
    world: World, teams: Teams
) -> None:
    low, high = pair(world, teams)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    stale = read()
    top = submitted(world, teams["bob"], {0: "gpu01/0"}, name="top", extras=PROD)
    loaded = read()
    carry_out(loaded, preemptions=[preempt(loaded, top, {0: "gpu01/0"}, {})])
    carry_out(stale, releases=["gpu01/0", "gpu02/0"])
    assert claimed() == {("gpu01/0", "top", "low")}


@pytest.mark.parametrize("nodes", [("gpu01", "gpu02"), ("gpu03", "gpu04")], ids=["beside", "on other nodes"])
def test_a_victim_that_has_begun_anew_elsewhere_in_the_meantime_is_left_alone(
    world: World, teams: Teams, nodes: tuple[str, str]
) -> None:
    for name in ("gpu03", "gpu04"):
        world.nodes[name] = ScriptedNode(name, gpus=2)
        world.nodes[name].report()
    low, high = pair(world, teams)
    loaded = read()
    for name in ("gpu01", "gpu02"):
        for order in world.nodes[name].desired().orders:
            world.nodes[name].end(order, Exit(cause=Cause.VANISHED))
        world.nodes[name].report()
    Job.objects.update(not_before=None)
    again = read()
    assert carry_out(again, starts=[start(again, low, {0: f"{nodes[0]}/1", 1: f"{nodes[1]}/1"})]).started == 1
    carry_out(loaded, preemptions=[preempt(loaded, high, PLACES, {low: (0, 1)})])
    assert not TaskAttempt.objects.filter(stop_reason="preempted").exists()
    low.refresh_from_db()
    assert low.state == JobState.STARTING
