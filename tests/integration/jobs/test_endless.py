"""A task that was told to end and does not, on a node that reports: it is given up, as one whose node is lost. Its job
goes on, and its GPUs are held until the node says that its container is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.messages import Exit, Order, Progress
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from portal.accounts.models import ClusterRole
from portal.hardware.models import Node, ReportsLane
from portal.hardware.states import NodeHealth
from portal.jobs.models import Allocation, Claim, Job, JobEvent, TaskAttempt, Usage
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
from portal.scheduler.reconcile import jobs_reconcile
from tests.integration.scheduler.plans import PROD
from tests.support.cluster.scripted_node import DIGEST, ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db

HANGS = Progress(code="engine", message="the Docker Engine at unix:///run/docker.sock does not answer in time")


def minutes_pass(minutes: float) -> None:
    """All that is known of stops, nodes and reports is so long ago; every node has reported all the while."""
    ago = timedelta(minutes=minutes)
    TaskAttempt.objects.filter(stop_since__isnull=False).update(stop_since=F("stop_since") - ago)
    Node.objects.update(heard_since=F("heard_since") - ago)
    ReportsLane.objects.update(open_since=F("open_since") - ago)


def stopped(world: World, job: Job) -> ScriptedNode:
    """The job is stopped by its user; the node of its only task, which has heard of it."""
    job_stop(job=job, actor=job.user, now=timezone.now())
    node = world.nodes[TaskAttempt.objects.filter(task__job=job).latest("number").node.name]
    node.desired()
    node.report()
    return node


def running(world: World, **changes: object) -> Job:
    job = world.submit(**changes)
    world.settle()
    return job


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def held() -> list[str]:
    """Nodes of the GPUs that are held."""
    rows = Allocation.objects.filter(released_at__isnull=True)
    return sorted(rows.values_list("leaf__node__name", flat=True))


def usage() -> list[tuple[object, ...]]:
    return sorted(Usage.objects.values_list("resource", "hour", "amount"))


def order_on(node: ScriptedNode, phase: Phase) -> Order:
    return next(order for order in node.desired().orders if order.phase is phase)


def a_start_that_hangs_on_gpu02(world: World, settings: Settings) -> Job:
    """Of a gang on gpu01 and gpu02; its attempt is told to end, and does on gpu01."""
    settings.GANG_PREPARE_TIMEOUT_S = 30
    one, two, _ = (world.node(f"gpu0{number}", gpus=1) for number in (1, 2, 3))
    job = world.submit(instances=2)
    world.cycle()
    for node in (one, two):
        node.obey()
    one.obey()
    two.set(order_on(two, Phase.RUN), ContainerState.STARTING, digest=DIGEST, progress=HANGS)
    two.report()
    long_ago = timezone.now() - timedelta(minutes=2)
    TaskAttempt.objects.update(created_at=long_ago, prepared_at=long_ago)
    ReportsLane.objects.update(open_since=long_ago)
    world.cycle()
    one.obey()
    return job


def test_a_gang_whose_start_hangs_on_one_node_for_ever_begins_on_another(world: World, settings: Settings) -> None:
    job = a_start_that_hangs_on_gpu02(world, settings)
    two = world.nodes["gpu02"]
    minutes_pass(10)
    two.report()
    world.cycle()
    assert (job.attempts.get().state, job.attempts.get().end_reason) == ("ending", EndReason.NODE_FAULT)
    minutes_pass(1)
    two.report()
    world.cycle()
    assert state(job) == JobState.WAITING
    told = job.events.get(code="task_given_up")
    assert told.message == "Task worker/1 did not end on gpu02 within 10 minutes after its grace, and is given up."
    Job.objects.update(not_before=None)
    for _ in range(3):
        world.cycle()
        for name in ("gpu01", "gpu03"):
            world.nodes[name].obey()
    assert state(job) == JobState.RUNNING
    runs = TaskAttempt.objects.filter(job_attempt__number=2)
    assert set(runs.values_list("node__name", "waits_for")) == {
        ("gpu01", "attempt 1 on gpu02"), ("gpu03", "attempt 1 on gpu02"),
    }  # fmt: skip
    assert held() == ["gpu01", "gpu02", "gpu03"], "also those of what was given up"


def test_when_its_node_comes_back_it_is_told_to_stop_and_frees_its_gpus_and_nothing_else_changes(
    world: World, settings: Settings
) -> None:
    job = a_start_that_hangs_on_gpu02(world, settings)
    minutes_pass(11)
    two = world.nodes["gpu02"]
    two.report()
    world.cycle()
    charged, attempts = usage(), [*job.attempts.values_list("state", "end_reason", "end_message")]
    stop = order_on(two, Phase.STOP)
    two.set(stop, ContainerState.RUNNING, digest=DIGEST)
    two.report()
    assert order_on(two, Phase.STOP).stop == stop.stop
    assert held() == ["gpu02"]
    two.end(stop, Exit(cause=Cause.STOPPED, code=137, stop_reason=StopReason.START_FAILED))
    for _ in range(2):
        two.report()
        assert held() == []
    assert order_on(two, Phase.REMOVE).attempt == stop.attempt
    assert (usage(), state(job)) == (charged, JobState.WAITING)
    assert [*job.attempts.values_list("state", "end_reason", "end_message")] == attempts
    assert JobEvent.objects.filter(code="task_given_up").count() == 1


def test_one_that_outlives_sigkill_after_it_was_given_up_still_holds_its_gpus(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = running(world)
    node = stopped(world, job)
    minutes_pass(11)
    world.cycle()
    charged = usage()
    node.end(order_on(node, Phase.STOP), Exit(cause=Cause.UNKILLABLE))
    node.report()
    assert (state(job), held(), usage()) == (JobState.STOPPED, ["gpu01"], charged)


def test_what_never_heard_of_its_task_gives_it_back_when_it_takes_its_orders(world: World) -> None:
    """Neither its preparation nor its stop has reached the node: nothing ever ran there."""
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.cycle()
    node.report()
    job_stop(job=job, actor=job.user, now=timezone.now())
    for minutes, expected in ((10, JobState.STOPPING), (1, JobState.STOPPED)):
        minutes_pass(minutes)
        node.report()
        world.cycle()
        assert state(job) == expected
    assert held() == ["gpu01"]
    world.settle()
    assert (held(), node.containers) == ([], {})


def test_its_server_can_be_removed_though_it_reports(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = running(world)
    node = stopped(world, job)
    root = Api(person("root", ClusterRole.ADMIN))
    assert root.call("DELETE", "nodes/gpu01").status_code == 409
    minutes_pass(11)
    node.report()
    world.cycle()
    assert root.call("DELETE", "nodes/gpu01").status_code == 200
    assert held() == []


def test_one_task_that_does_not_end_is_tried_elsewhere_and_its_siblings_run_on(world: World) -> None:
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    job = running(world, instances=2, gang=False)
    world.node("gpu03", gpus=1)
    Api(person("root", ClusterRole.ADMIN)).call("PATCH", "nodes/gpu01", {"intent": "draining", "reason": "a fan"})
    world.cycle()
    minutes_pass(11)
    for node in (one, two):
        node.report()
    world.cycle()
    assert job.events.get(code="task_retried").message == (
        f"{job.events.get(code='task_given_up').message} It is tried again."
    )
    world.nodes.pop("gpu01")
    world.settle()
    runs = TaskAttempt.objects.filter(lost_at=None).values_list("node__name", "state")
    assert set(runs) == {("gpu02", "running"), ("gpu03", "running")}
    assert (state(job), job.attempts.count(), [*job.avoid_nodes]) == (JobState.RUNNING, 1, ["gpu01"])


def portal_was_away() -> None:
    ReportsLane.objects.update(open_since=timezone.now() - timedelta(minutes=1))


def node_is_silent_with_most_others() -> None:
    Node.objects.update(last_report_at=timezone.now() - timedelta(minutes=5))


@pytest.mark.parametrize("what", [portal_was_away, node_is_silent_with_most_others])
def test_the_time_counts_while_its_end_could_be_heard(world: World, what: Callable[[], None]) -> None:
    world.node("gpu01", gpus=1)
    job = running(world)
    stopped(world, job)
    minutes_pass(60)
    what()
    world.cycle()
    assert state(job) == JobState.STOPPING


def test_the_time_begins_anew_when_its_node_has_been_silent(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = running(world)
    node = stopped(world, job)
    minutes_pass(60)
    node_is_silent_with_most_others()
    for minutes, expected in ((0, JobState.STOPPING), (10, JobState.STOPPING), (1, JobState.STOPPED)):
        minutes_pass(minutes)
        node.report()
        world.cycle()
        assert state(job) == expected


def test_who_takes_its_gpus_back_waits_for_it_no_longer(world: World) -> None:
    world.node("gpu01", gpus=1)
    running(world, name="low")
    high = world.submit(name="high", extras=PROD)
    world.cycle()
    claim = Claim.objects.get(claimant=high)
    assert claim.leaf.node.name == "gpu01"
    world.node("gpu02", gpus=1)
    minutes_pass(11)
    world.nodes.pop("gpu01").report()
    world.settle()
    assert (state(high), held()) == (JobState.RUNNING, ["gpu01", "gpu02"])
    assert not Claim.objects.exists()


def test_its_grace_is_its_own(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = running(world, berth={"gracePeriod": "10m"}, gang=False)
    Api(person("root", ClusterRole.ADMIN)).call("PATCH", "nodes/gpu01", {"intent": "draining", "reason": "a fan"})
    world.cycle()
    for minutes, given_up in ((19, 0), (2, 1)):
        minutes_pass(minutes)
        node.report()
        world.cycle()
        assert job.events.filter(code="task_given_up").count() == given_up


def test_what_was_told_to_end_before_the_upgrade_has_its_time_from_then(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    job, other = running(world), running(world, name="other")
    stopped(world, job)
    TaskAttempt.objects.update(stop_since=None)
    world.cycle()
    for minutes, expected in ((10, JobState.STOPPING), (1, JobState.STOPPED)):
        minutes_pass(minutes)
        node.report()
        world.cycle()
        assert (state(job), state(other)) == (expected, JobState.RUNNING)


def test_an_alert_tells_what_its_node_said_and_what_to_do_until_the_container_is_gone(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = running(world)
    admin = Api(person("root", ClusterRole.ADMIN))
    stopped(world, job)
    order = order_on(node, Phase.STOP)
    node.set(order, ContainerState.RUNNING, digest=DIGEST, progress=HANGS)

    def told() -> dict[str, dict[str, str]]:
        node.report()
        world.cycle()
        return {row["code"]: row for row in admin.get("alerts") if row["code"] == "container_unkillable"}

    assert told() == {}
    minutes_pass(11)
    (alert,) = told().values()
    assert alert["message"] == (
        f"Task worker/0 of {job.label} does not end on gpu01. Its node said last: {HANGS.message}."
    )
    assert "restart that, or reboot" in alert["advice"]
    node.end(order, Exit(cause=Cause.STOPPED, code=137))
    assert told() == {}


def test_what_was_lost_with_its_node_is_not_told_the_moment_that_comes_back(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    running(world)
    Node.objects.update(health=NodeHealth.LOST)
    jobs_reconcile(now=timezone.now())
    minutes_pass(60)
    Node.objects.update(last_report_at=F("last_report_at") - timedelta(hours=1))
    node.report()
    assert node.row.health == NodeHealth.HEALTHY
    admin = Api(person("root", ClusterRole.ADMIN))
    assert not [row for row in admin.get("alerts") if row["code"] == "container_unkillable"]


def test_however_many_do_not_end_the_cycle_asks_as_often(world: World) -> None:
    node = world.node("gpu01", gpus=4)
    asked = []
    for number in (1, 3):
        jobs = [running(world, name=f"job{number}{one}") for one in range(number)]
        for job in jobs:
            stopped(world, job)
        minutes_pass(11)
        node.report()
        jobs_reconcile(now=timezone.now())
        with CaptureQueriesContext(connection) as queries:
            jobs_reconcile(now=timezone.now())
        asked.append(len(queries))
    assert asked[0] == asked[1]
    assert TaskAttempt.objects.filter(lost_at__isnull=False).count() == 4
