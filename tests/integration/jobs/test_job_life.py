"""A job's life from its file to its end, through the portal's own doors, with scripted nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from nodes.protocol.messages import Exit, Progress
from nodes.protocol.states import Cause, ContainerState, Phase
from portal.hardware.models import Node, NodeEvent, takes_tasks
from portal.hardware.selectors.closed import servers_closed
from portal.hardware.services.silence import lane_pulse, nodes_lose
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Allocation, Job, JobEvent, Task, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
from portal.storages.models import Storage
from tests.support.cluster.scripted_node import DIGEST
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def held() -> int:
    return Allocation.objects.filter(released_at__isnull=True).count()


def test_a_gang_is_prepared_everywhere_then_started_together_then_succeeds(world: World) -> None:
    one, two = world.node("gpu01", gpus=2), world.node("gpu02", gpus=2)
    job = world.submit(instances=2, gpu=2)
    world.cycle()
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert held() == 4
    one.obey()
    assert [order.phase for order in one.desired().orders] == [Phase.PREPARE], "the other one is not prepared yet"
    two.obey()
    assert [order.phase for node in (one, two) for order in node.desired().orders] == [Phase.RUN, Phase.RUN]
    one.obey()
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    two.obey()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    one.finish()
    two.finish()
    job.refresh_from_db()
    assert (job.state, job.end_reason) == (JobState.SUCCEEDED, EndReason.SUCCEEDED)
    assert held() == 0
    world.settle()
    assert not TaskAttempt.objects.filter(removed_at__isnull=True).exists()
    assert one.containers == two.containers == {}


def test_a_job_of_one_task_waits_for_nobody_and_its_digest_is_the_attempts(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.cycle()
    assert [order.phase for order in node.desired().orders] == [Phase.RUN]
    node.obey()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    assert job.attempts.get().digests == {"busybox:latest": DIGEST}


@pytest.mark.parametrize("lie", ["sha256:" + "AB" * 32, ""])
def test_what_one_node_calls_a_digest_and_is_none_is_ordered_from_no_other(world: World, lie: str) -> None:
    one, two = world.node("gpu01", gpus=2), world.node("gpu02", gpus=2)
    job = world.submit(instances=2, gpu=2)
    world.cycle()
    (order,) = one.desired().orders
    one.set(order, ContainerState.PREPARED, digest=lie)
    one.report()
    two.obey()
    (other,) = two.desired().orders
    assert (other.phase, two.spec(other).digest) == (Phase.PREPARE, None)
    assert job.attempts.get().digests in ({}, {"busybox:latest": DIGEST})
    world.cycle(now=timezone.now() + timedelta(hours=1))
    assert job.attempts.get(number=1).end_reason == EndReason.NODE_FAULT, "it is tried elsewhere"


def test_a_task_that_is_tried_again_runs_at_once_with_the_digest_of_its_siblings(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    world.submit(instances=2, gang=False, role={"taskRetryCount": 1, "completion": {"minSucceededInstances": 2}})
    world.cycle()
    first, second = node.desired().orders
    assert [first.phase, second.phase] == [Phase.PREPARE, Phase.PREPARE], "they agree on a digest first"
    node.obey()
    node.end(first, Exit(cause=Cause.EXITED, code=1))
    node.report()
    Task.objects.update(not_before=None)
    world.cycle()
    (again,) = (order for order in node.desired().orders if order.attempt not in {first.attempt, second.attempt})
    assert (again.phase, node.spec(again).digest) == (Phase.RUN, DIGEST)


def test_a_start_that_takes_too_long_is_given_up_and_the_job_waits_again(world: World, settings: Settings) -> None:
    settings.GANG_PREPARE_TIMEOUT_S = 30
    node = world.node("gpu01")
    job = world.submit()
    world.cycle()
    (order,) = node.desired().orders
    node.set(order, ContainerState.PULLING)
    node.report()
    world.cycle(now=timezone.now() + timedelta(seconds=31))
    node.obey()
    job.refresh_from_db()
    assert job.state == JobState.WAITING
    assert "was not prepared on gpu01 within 30 s" in job.events.get(code="requeued").message


def test_a_start_that_waits_for_an_earlier_attempts_lease_is_not_late(world: World, settings: Settings) -> None:
    settings.GANG_PREPARE_TIMEOUT_S = 30
    node = world.node("gpu01")
    job = world.submit()
    world.cycle()
    (order,) = node.desired().orders
    node.set(order, ContainerState.ACCEPTED, progress=Progress(code="lease", message="attempt 1 still writes"))
    node.report()
    world.cycle(now=timezone.now() + timedelta(seconds=31))
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert [order.phase for order in node.desired().orders] == [Phase.RUN]


def test_every_step_leaves_an_event(world: World) -> None:
    node = world.node("gpu01")
    world.submit()
    world.cycle()
    node.obey()
    node.finish()
    codes = list(JobEvent.objects.values_list("code", flat=True))
    assert codes == [
        "submitted", "hint", "starting", "placed", "task_running", "attempt_running", "running", "task_terminated",
        "ending_succeeded", "attempt_ended", "succeeded",
    ]  # fmt: skip


def test_a_job_that_does_not_fit_says_why_with_numbers(world: World) -> None:
    world.node("gpu01", gpus=2)
    world.submit(gpu=2)
    waiting = world.submit(gpu=1)
    world.cycle()
    waiting.refresh_from_db()
    assert waiting.state == JobState.WAITING
    assert waiting.waiting_code == "quota"
    assert "holds 2 of its 2 A100" in waiting.waiting_message


def test_the_next_job_starts_when_the_first_ends(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    first, second = world.submit(), world.submit()
    world.settle()
    node.finish()
    world.settle()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (JobState.SUCCEEDED, JobState.RUNNING)
    assert second.run == 2


def test_a_fault_of_the_node_at_start_tries_elsewhere_without_using_up_retries(world: World) -> None:
    bad, _ = world.node("gpu01"), world.node("gpu02")
    job = world.submit()
    world.cycle()
    (order,) = bad.desired().orders
    bad.end(order, Exit(cause=Cause.DEVICE_FAULT, message="could not select device driver"))
    bad.report()
    job.refresh_from_db()
    assert (job.state, [*job.avoid_nodes], job.retries_counted) == (JobState.WAITING, ["gpu01"], 0)
    world.cycle(now=timezone.now() + timedelta(minutes=1))
    assert TaskAttempt.objects.order_by("created_at").last().node.name == "gpu02"  # type: ignore[union-attr]


def test_an_incremental_job_starts_what_fits_and_the_rest_later(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    role = {"completion": {"minSucceededInstances": 2}}
    with pytest.raises(SpecInvalid, match="exceeds maximum"):
        world.submit(instances=2)
    job = world.submit(instances=2, gang=False, role=role)
    world.settle()
    assert held() == 1
    node.finish()
    world.settle()
    job.refresh_from_db()
    assert (job.state, held()) == (JobState.RUNNING, 1)
    node.finish()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert job.attempts.count() == 1


def test_a_lost_nodes_gang_is_requeued_on_the_other_node_and_the_old_container_decides_nothing(world: World) -> None:
    lost, other = world.node("gpu01", gpus=2), world.node("gpu02", gpus=2)
    job = world.submit(gpu=2)
    world.settle()
    (attempt,) = TaskAttempt.objects.all()
    first = {"gpu01": lost, "gpu02": other}[attempt.node.name]
    second = other if first is lost else lost
    late = timezone.now() + timedelta(seconds=50)
    lane_pulse(now=late - timedelta(seconds=40))
    lane_pulse(now=late - timedelta(seconds=25))
    lane_pulse(now=late - timedelta(seconds=10))
    later = late + timedelta(seconds=20)
    lane_pulse(now=later - timedelta(seconds=12))
    lane_pulse(now=later)
    second.report(now=later)
    world.cycle(now=later)
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert JobEvent.objects.filter(code="task_lost").count() == 1
    (order,) = second.desired().orders
    assert second.spec(order).lease_after == f"attempt 1 on {first.name}"
    second.obey(now=later)
    second.obey(now=later)
    first.finish()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING, "what the old attempt says changes nothing"
    second.finish()
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_each_task_has_a_lease_of_its_own_in_the_shared_job_folder(world: World) -> None:
    Storage.objects.create(name="jobs", root="/mnt/jobs", jobs=True, must_be_mount=False)
    node = world.node("gpu01", root="/mnt/jobs")
    world.submit(instances=2)
    world.cycle()
    specs = [node.spec(order) for order in node.desired().orders]
    folder = "/mnt/jobs/alice/train-1"
    assert {spec.lease for spec in specs} == {f"{folder}/.berth/lease.worker.{index}" for index in (0, 1)}
    assert {spec.mounts[0].source for spec in specs} == {folder}
    assert {spec.env["BERTH_JOB_DIR"] for spec in specs} == {specs[0].job_dir}


def test_no_node_is_lost_while_the_portal_took_no_reports_in(world: World) -> None:
    world.node("gpu01")
    job = world.submit()
    world.settle()
    later = timezone.now() + timedelta(minutes=10)
    lane_pulse(now=later)
    world.cycle(now=later)
    job.refresh_from_db()
    assert job.state == JobState.RUNNING


def test_nodes_that_are_silent_together_get_no_new_tasks_and_keep_what_runs_there(world: World) -> None:
    nodes = {name: world.node(name, gpus=1) for name in ("gpu01", "gpu02", "gpu03")}
    first = world.submit(name="first")
    world.settle()
    held = Allocation.objects.get().leaf.node.name
    alive = next(node for name, node in nodes.items() if name != held)
    at = timezone.now()
    for _ in range(10):
        at += timedelta(seconds=10)
        lane_pulse(now=at)
        alive.report(now=at)
    assert nodes_lose(now=at) == []
    later = [world.submit(name=name) for name in ("second", "third")]
    assert world.cycle(now=at).applied.started == 1, "on the one that reports"
    assert set(Allocation.objects.values_list("leaf__node__name", flat=True)) == {held, alive.name}
    first.refresh_from_db()
    assert first.state == JobState.RUNNING
    row = Node.objects.get(name=held)
    assert (row.takes_tasks, Node.objects.filter(takes_tasks()).get().name) == (False, alive.name)
    alive.inventory = replace(alive.inventory, disk_full=True)
    alive.report(now=at)
    (closed,) = servers_closed()
    assert "It fell silent together with most others." in closed.why
    for node in nodes.values():
        node.inventory = replace(node.inventory, disk_full=False)
        assert node.report(now=at)
    assert (servers_closed(), world.cycle(now=at).applied.started) == ([], 1)
    assert Allocation.objects.filter(task_attempt__task__job__in=later).count() == 2


def test_nodes_that_were_silent_together_and_report_again_are_well_and_a_second_time_is_told_too(world: World) -> None:
    nodes = [world.node(f"gpu0{number}") for number in (1, 2, 3)]
    at = timezone.now()
    for outage in (1, 2):
        for _ in range(10):
            at += timedelta(seconds=10)
            lane_pulse(now=at)
            nodes[2].report(now=at)
        assert nodes_lose(now=at) == []
        assert sum("2 of 3 nodes fell silent together" in one.health_reason for one in Node.objects.all()) == 2
        assert NodeEvent.objects.filter(code="silent_together").count() == 2 * outage
        for node in nodes:
            assert node.report(now=at)
        assert set(Node.objects.values_list("health", "health_reason")) == {("healthy", "")}


def test_ports_that_are_no_range_stop_nobodys_jobs(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    node.inventory = replace(node.inventory, port_first=30000, port_last=29999)
    assert node.report()
    assert node.report()
    events = NodeEvent.objects.filter(code="ports_wrong")
    assert [event.message for event in events] == ["The agent of gpu01 names no range of ports: 20000-29999 are used."]
    job = world.submit()
    world.settle()
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    (attempt,) = TaskAttempt.objects.all()
    assert all(20000 <= port <= 29999 for ports in attempt.ports.values() for port in ports)


def test_a_node_without_any_port_keeps_other_nodes_jobs_from_nothing(world: World) -> None:
    """As an earlier release may have stored it."""
    world.node("gpu01", gpus=1)
    world.node("gpu02", gpus=1)
    Node.objects.filter(name="gpu01").update(port_first=30000, port_last=29999)
    for name in ("one", "two"):
        world.submit(name=name)
    applied = world.cycle().applied
    assert (applied.started, applied.skipped) == (1, 1)
    assert TaskAttempt.objects.get().node.name == "gpu02"


@pytest.mark.parametrize("profile", ["user", "root"])
def test_folders_on_storages_are_the_users_under_either_profile(world: World, profile: str) -> None:
    node = world.node("gpu01")
    world.submit(berth={"profile": profile})
    world.cycle()
    (order,) = node.desired().orders
    spec = node.spec(order)
    assert (spec.profile, spec.uid, spec.gid) == (profile, world.user.uid, world.user.gid)


def test_a_container_nobody_knows_fences_its_gpus(world: World) -> None:
    node = world.node("gpu01", gpus=1)
    job = world.submit()
    world.settle()
    stranger = node.containers.popitem()[1]
    TaskAttempt.objects.all().delete()
    job.delete()
    node.containers[stranger.attempt] = replace(stranger, gpus=("GPU-gpu01-0",))
    node.report()
    waiting = world.submit()
    world.cycle()
    waiting.refresh_from_db()
    assert waiting.waiting_code == "bad_nodes"
    node.containers.clear()
    node.report()
    world.cycle()
    waiting.refresh_from_db()
    assert waiting.state == JobState.STARTING


def problems_of(world: World, **changes: object) -> dict[str, str]:
    with pytest.raises(SpecInvalid) as refused:
        world.submit(**changes)
    return {problem.path: problem.message for problem in refused.value.problems}


def test_what_the_cluster_does_not_have_is_refused_all_at_once(world: World) -> None:
    world.node("gpu01")
    world.vc.host_network = False
    world.vc.save()
    found = problems_of(
        world,
        instances=2,
        commands=["echo <% $secrets.token %>"],
        berth={"gracePeriod": "2h", "nodes": {"only": ["gpu09"]}, "after": ["nothing"]},
        extras={
            "storages": [{"name": "data"}],
            "berth": {"gracePeriod": "2h", "nodes": {"only": ["gpu09"]}, "after": ["nothing"]},
        },
    )
    assert set(found) == {
        "secrets.token", "extras.storages[0].name", "taskRoles", "extras.berth.gracePeriod",
        "extras.berth.nodes.only[0]", "extras.berth.after[0]",
    }  # fmt: skip
    assert "at most 600 s here, not 7200 s" in found["extras.berth.gracePeriod"]
    assert not Job.objects.exists()


def test_where_job_folders_are_not_shared_the_job_is_told_so(world: World) -> None:
    world.node("gpu01")
    job = world.submit()
    assert ["starts from nothing" in one.message for one in job.events.filter(code="hint")].count(True) == 1


def test_a_server_is_told_what_a_log_hides_until_it_has_all_of_it(world: World) -> None:
    node = world.node("gpu01")
    job = world.submit(secrets={"key": "hunter2hunter2"}, commands=["echo <% $secrets.key %>"])
    world.cycle()
    node.obey()
    job_stop(job=Job.objects.get(pk=job.pk), actor=world.user, now=timezone.now())
    (order,) = node.desired().orders
    assert order.phase is Phase.STOP
    assert node.spec(order).hidden == ("hunter2hunter2",)
