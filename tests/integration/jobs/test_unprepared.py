"""Tasks that are placed and never ready: each in its own way, and without harm to others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.messages import ContainerSpec, Exit, Order, Progress
from nodes.protocol.states import Cause, ContainerState, Phase
from portal.accounts.models import User
from portal.common.sealing import seal
from portal.hardware.models import Node, ReportsLane
from portal.hardware.services.silence import lane_pulse
from portal.jobs.models import Job, Task, TaskAttempt
from portal.jobs.states import EndReason, JobState, TaskState
from portal.node_orders.services import container_spec as specs
from portal.node_orders.services import sealed_specs
from portal.node_orders.services.container_spec import AttemptFacts, HeldGpu, Run
from portal.node_orders.services.desired import desired_lists
from portal.node_orders.services.environment import Peer, shared_variables
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set
from tests.support.cluster.scripted_node import DIGEST, ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import person

LIMIT_S = 30


@pytest.fixture
def short(settings: Settings) -> None:
    settings.GANG_PREPARE_TIMEOUT_S = LIMIT_S


def sealed_elsewhere(settings: Settings, job: Job) -> None:
    """As a restore beside another key file leaves it."""
    here, settings.SEALING_KEY = settings.SEALING_KEY, "ab" * 32
    Job.objects.filter(pk=job.pk).update(secrets_sealed=seal({"token": "x"}))
    settings.SEALING_KEY = here


def test_a_job_whose_secrets_cannot_be_opened_fails_and_holds_up_no_other(world: World, settings: Settings) -> None:
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    bad, good = world.submit(name="bad"), world.submit(name="good")
    sealed_elsewhere(settings, bad)
    assert world.cycle().applied.started == 2
    assert sorted(len(node.desired().orders) for node in (one, two)) == [0, 1], "what can be made is ordered"
    assert one.report()
    assert two.report()
    world.settle()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, bad.end_reason) == (JobState.FAILED, EndReason.START_FAILED)
    assert "Submit the job again, with its secrets." in bad.end_message
    assert good.state == JobState.RUNNING


def test_a_job_that_cannot_be_described_fails_and_names_the_log(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    good = world.submit(name="good")
    bad = world.submit(name="bad")
    member = person("bob")
    member_set(vc=world.vc, user=member, role="member", now=world.now)
    Job.objects.filter(pk=bad.pk).update(user=member)
    User.objects.filter(pk=member.pk).update(extra_gids=5)
    VirtualCluster.objects.update(default_profile="user")
    world.settle()
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, good.state) == (JobState.FAILED, JobState.RUNNING)
    assert "the portal's log says why" in bad.end_message
    assert node.row.out_since is None


def test_specs_that_are_written_in_parts_and_sent_in_parts_are_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.node_orders.services.sealed_specs.AT_ONCE", 1)
    monkeypatch.setattr("portal.node_orders.services.desired.AT_ONCE", 1)
    told: list[int] = []

    def counted(peers: Sequence[Peer]) -> dict[str, str]:
        told.append(len(peers))
        return shared_variables(peers)

    monkeypatch.setattr("portal.node_orders.services.container_spec.shared_variables", counted)
    nodes = [world.node(f"gpu0{number}", gpus=2) for number in (1, 2, 3)]
    world.submit(instances=6)
    world.cycle()
    assert told == [6], "what names all tasks is made once, and not for each"
    lists = desired_lists(nodes=[*Node.objects.order_by("name")])
    assert [(node.name, len(desired.orders)) for node, desired in lists] == [("gpu01", 2), ("gpu02", 2), ("gpu03", 2)]
    orders = [(node, order) for node in nodes for order in node.desired().orders]
    assert sorted(node.spec(order).index for node, order in orders) == [*range(6)]


def test_what_was_written_before_one_of_its_attempt_could_not_be_made_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_specs, "AT_ONCE", 1)
    made, seen = specs.container_spec, list[UUID]()

    def all_but_one(facts: AttemptFacts, run: Run, on: Node, gpus: Sequence[HeldGpu]) -> ContainerSpec:
        seen.extend([run.id] if facts.job.name == "bad" else [])
        if run.id in seen[2:3]:
            raise ValueError("no spec")
        return made(facts, run, on, gpus)

    monkeypatch.setattr(sealed_specs, "container_spec", all_but_one)
    node = world.node("gpu01", gpus=4)
    world.submit(name="bad", instances=3)
    good = world.submit(name="good")
    world.cycle()
    rows = TaskAttempt.objects.order_by("task__job_id", "task__index")
    assert [bool(row.spec_hash and row.spec_sealed) for row in rows] == [False, False, False, True]
    assert [node.spec(order).job for order in node.desired().orders] == [good.label]


def pulling(world: World) -> tuple[TaskAttempt, ScriptedNode]:
    """The newest task attempt begins its pull, on its node."""
    row = TaskAttempt.objects.select_related("node").order_by("-created_at")[0]
    node = world.nodes[row.node.name]
    node.set(order_of(node, row), ContainerState.PULLING)
    node.report()
    return row, node


def order_of(node: ScriptedNode, row: TaskAttempt) -> Order:
    return next(order for order in node.desired().orders if order.attempt == str(row.pk))


def later(now: datetime) -> datetime:
    """Past the limit, and past the wait for the next attempt; every node has reported until then."""
    then = now + timedelta(seconds=1000)
    Node.objects.update(last_report_at=then)
    lane_pulse(now=then)
    return then


@pytest.mark.usefixtures("short")
def test_a_job_that_was_not_ready_in_time_is_tried_on_another_node(world: World) -> None:
    for name in ("gpu01", "gpu02"):
        world.node(name)
    job, now = world.submit(), timezone.now()
    world.cycle(now=now)
    row, node = pulling(world)
    world.cycle(now=now + timedelta(seconds=LIMIT_S + 1))
    node.obey()
    world.cycle(now=later(now))
    job.refresh_from_db()
    assert [*job.avoid_nodes] == [row.node.name]
    assert TaskAttempt.objects.filter(task__job=job, released_at=None).exclude(node=row.node).count() == 1
    (event,) = node.row.events.filter(code="start_failed")
    assert (event.data["user"], event.message) == (
        "alice", f"A task of alice could not be started on {row.node.name}: not ready in time."
    )  # fmt: skip


@pytest.mark.usefixtures("short")
def test_a_node_that_got_others_ready_meanwhile_is_not_counted_as_failing(world: World) -> None:
    node = world.node("gpu01")
    world.submit()
    world.submit(name="other")
    world.cycle()
    first, second = node.desired().orders
    node.set(first, ContainerState.PULLING)
    node.set(second, ContainerState.RUNNING)
    node.report()
    world.cycle(now=timezone.now() + timedelta(seconds=LIMIT_S + 1))
    assert [order.phase for order in node.desired().orders] == [Phase.STOP, Phase.RUN]
    assert not node.row.events.filter(code="start_failed").exists()


@pytest.mark.usefixtures("short")
def test_one_task_that_was_not_ready_in_time_leaves_its_siblings_running(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(
        instances=2, gang=False,
        role={"taskRetryCount": 1, "completion": {"minSucceededInstances": 2, "minFailedInstances": 2}},
    )  # fmt: skip
    world.cycle()
    world.obeyed()
    first = node.desired().orders[0]
    node.end(first, Exit(cause=Cause.EXITED, code=1))
    node.report()
    Task.objects.update(not_before=None)
    world.cycle()
    row, _ = pulling(world)
    world.cycle(now=timezone.now() + timedelta(seconds=LIMIT_S + 1))
    node.obey()
    job.refresh_from_db()
    row.task.refresh_from_db()
    assert (job.state, job.attempts.get().end_reason) == (JobState.RUNNING, "")
    assert (row.task.state, row.task.retries_counted) == (TaskState.WAITING, 1), "the first failure alone counts"
    told = job.events.get(code="task_late").message
    assert told == f"Task worker/{row.task.index} was not prepared on gpu01 within {LIMIT_S} s."
    assert [*job.avoid_nodes] == ["gpu01"]
    world.settle()
    assert set(TaskAttempt.objects.filter(released_at=None).values_list("state", flat=True)) == {"running"}


@pytest.mark.usefixtures("short")
def test_the_time_to_get_ready_begins_when_the_wait_for_a_lease_is_over(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.cycle()
    (order,) = node.desired().orders
    node.set(order, ContainerState.ACCEPTED, progress=Progress(code="lease", message="attempt 1 still writes"))
    node.report()
    over = timezone.now() + timedelta(seconds=LIMIT_S + 10)
    node.set(order, ContainerState.PULLING, progress=Progress(code="image", percent=1))
    node.report(now=over)
    world.cycle(now=over + timedelta(seconds=LIMIT_S - 1))
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert [order.phase for order in node.desired().orders] == [Phase.RUN]
    world.cycle(now=over + timedelta(seconds=LIMIT_S + 1))
    assert [order.phase for order in node.desired().orders] == [Phase.STOP]


def hanging(world: World, state: ContainerState, code: str = "engine") -> Job:
    """Of a gang on two nodes all is prepared and told to start; the task on gpu02 does not."""
    one, two = world.node("gpu01", gpus=1), world.node("gpu02", gpus=1)
    job = world.submit(instances=2)
    world.cycle()
    for node in (one, two):
        node.obey()
    one.obey()
    (order,) = two.desired().orders
    assert order.phase is Phase.RUN
    two.set(order, state, digest=DIGEST, progress=Progress(code=code, message="it does not answer"))
    two.report()
    return job


def prepared(job: Job, ago_s: int, *, node: str) -> None:
    TaskAttempt.objects.filter(task__job=job, node__name=node).update(
        prepared_at=timezone.now() - timedelta(seconds=ago_s)
    )


def reports_taken(for_s: int) -> None:
    """Without a gap."""
    now = timezone.now()
    ReportsLane.objects.update(open_since=now - timedelta(seconds=for_s), last_pulse_at=now)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("state", [ContainerState.PREPARED, ContainerState.STARTING])
def test_a_start_that_hangs_is_tried_on_another_node(world: World, state: ContainerState) -> None:
    job = hanging(world, state)
    TaskAttempt.objects.update(created_at=timezone.now() - timedelta(hours=1))
    reports_taken(3600)
    prepared(job, 3000, node="gpu01")
    prepared(job, LIMIT_S - 5, node="gpu02")
    world.cycle()
    job.refresh_from_db()
    assert (job.state, [*job.avoid_nodes]) == (JobState.STARTING, []), "its last task was prepared a moment ago"
    prepared(job, LIMIT_S + 1, node="gpu02")
    world.cycle()
    attempt = job.attempts.get()
    assert (attempt.end_reason, attempt.end_message) == (
        EndReason.NODE_FAULT, f"Task worker/1 was not started on gpu02 within {LIMIT_S} s."
    )  # fmt: skip
    job.refresh_from_db()
    assert [*job.avoid_nodes] == ["gpu02"]
    assert [order.phase for node in world.nodes.values() for order in node.desired().orders] == [Phase.STOP] * 2
    assert Node.objects.get(name="gpu02").events.filter(code="start_failed").count() == 1
    assert not Node.objects.get(name="gpu01").events.filter(code="start_failed").exists()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("code", "taken_s"), [("portal", LIMIT_S - 5), ("lease", 3600)])
def test_a_start_that_waits_for_the_portal_or_a_lease_is_not_late(world: World, code: str, taken_s: int) -> None:
    """The portal was away, and is back for less than the limit."""
    job = hanging(world, ContainerState.PREPARED, code)
    TaskAttempt.objects.update(created_at=timezone.now() - timedelta(hours=1))
    for node in world.nodes:
        prepared(job, 3000, node=node)
    reports_taken(taken_s)
    world.cycle()
    job.refresh_from_db()
    assert (job.state, [*job.avoid_nodes]) == (JobState.STARTING, [])
