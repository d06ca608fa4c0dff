"""A parked job: off its GPU, which others have until it is resumed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from nodes.protocol.messages import Exit
from nodes.protocol.parking import SUSPEND, GpuFault, GpuState, GpuWish, ParkFault
from nodes.protocol.states import Cause, ContainerState
from nodes.protocol.wordings import PARK_BUSY, PARK_GPU_FULL, PARK_REFUSED
from portal.accounts.models import AuditEntry
from portal.cluster.selectors.node_page import node_tasks
from portal.common.errors import Conflict
from portal.job_file.problems import SpecInvalid
from portal.job_pages.selectors import JobFilter, jobs_found
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, JobEvent, Task, TaskAttempt, Usage
from portal.jobs.selectors.tasks import job_tasks, tasks_run
from portal.jobs.services.stop import job_stop
from portal.jobs.states import EndReason, JobState
from portal.logs.stream import streams_client
from portal.metrics.points import OF_GPU, OF_TASK, Point
from portal.metrics.reading import CurveReader
from portal.metrics.record import Records
from portal.parking.models import Parking, ParkState
from portal.parking.services.park import job_park, job_unpark
from portal.scheduler.snapshot import SNAPSHOTS
from portal.teams.models import VirtualCluster
from tests.support.cluster.scripted_node import PARKED_MB, ScriptedNode
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

CHEAP = {"hivedScheduler": {"jobPriorityClass": "oppo"}}


@pytest.fixture
def node(world: World) -> ScriptedNode:
    """A node of one GPU that can park, in a team that allows it."""
    node = world.node("gpu01", gpus=1)
    node.inventory = replace(node.inventory, capabilities=(SUSPEND,), park_mb=64_000)
    assert node.report()
    VirtualCluster.objects.update(parking=True)
    return node


@pytest.fixture
def job(world: World, node: ScriptedNode) -> Job:
    """A job that runs on that GPU."""
    return running(world, "notebook")


def running(world: World, name: str, **changes: object) -> Job:
    job = world.submit(name=name, **changes)
    world.settle()
    return Job.objects.select_related("vc", "user").get(pk=job.pk)


def park(world: World, job: Job) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    world.settle()


def state(job: Job) -> str:
    return Parking.objects.get(task_attempt__job_attempt__job=job).state


def holders() -> set[str]:
    """Names of the jobs that hold a GPU."""
    rows = Allocation.objects.filter(released_at__isnull=True)
    return set(rows.values_list("task_attempt__job_attempt__job__name", flat=True))


def said(job: Job) -> list[str]:
    """The job's events about parking."""
    return [event.message for event in JobEvent.objects.filter(job=job, code="parking").order_by("pk")]


def test_a_parked_job_gives_its_gpu_up_claims_it_and_runs_on_as_before(world: World, job: Job) -> None:
    park(world, job)
    assert holders() == set()
    (claim,) = Claim.objects.all()
    assert (claim.claimant, claim.parked, claim.victim) == (job, True, None)
    row = TaskAttempt.objects.get()
    assert row.parked_at is not None
    assert row.released_at is None
    assert Job.objects.get().state == JobState.RUNNING
    assert Parking.objects.get().parked_mb == PARKED_MB
    assert AuditEntry.objects.filter(action="job.park", actor="alice", target="alice/notebook#1").count() == 1
    assert said(job) == [
        "Its GPU memory is moved to its server's: alice parked it.",
        "It is parked: its 20000 MB of GPU memory are in the memory of gpu01, and its GPU is lent until it is resumed.",
    ]


def test_its_gpu_is_lent_and_taken_back_when_it_is_resumed(world: World, job: Job, node: ScriptedNode) -> None:
    park(world, job)
    cheap = running(world, "cheap", extras=CHEAP)
    assert holders() == {"cheap"}
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert holders() == {"notebook"}
    assert state(job) == ParkState.HELD
    assert TaskAttempt.objects.get(task__job=job).parked_at is None
    assert JobAttempt.objects.get(job=cheap).end_reason == EndReason.PREEMPTED
    assert Job.objects.get(pk=cheap.pk).state == JobState.WAITING
    assert JobAttempt.objects.filter(job=job).count() == 1
    assert said(job)[-1].startswith("It goes on where it was, after ")


def test_a_job_that_went_on_has_its_gpu_once_and_its_curves_as_before(world: World, job: Job, tmp_path: Path) -> None:
    records, attempt, at = Records(tmp_path), str(TaskAttempt.objects.get().pk), int(timezone.now().timestamp())
    records.add(attempt, [Point(at, 60, 12, [None] * (len(OF_TASK) + len(OF_GPU)))], age_s=0)
    park(world, job)
    job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    (task,) = tasks_run(tasks=list(job_tasks(job=job)))
    (run,) = task.__dict__["shown"]
    assert len(run.allocations.all()) == 1
    assert CurveReader(records, streams_client()).read(TaskAttempt.objects.get()).times == [at]


def test_a_list_of_jobs_says_which_are_parked(world: World, job: Job) -> None:
    park(world, job)
    running(world, "cheap", extras=CHEAP)
    world.submit(name="waits")
    marks = {one.name: one.__dict__.get("parked") for one in jobs_found(user=job.user, only=JobFilter()).jobs}
    assert marks == {"notebook": "Parked", "cheap": "", "waits": None}


def test_what_it_has_in_its_servers_memory_is_kept_from_others(world: World, job: Job, node: ScriptedNode) -> None:
    node.inventory = replace(node.inventory, memory_mb=PARKED_MB + 1024 + 512)
    node.report()
    park(world, job)
    cheap = running(world, "cheap", extras=CHEAP)
    assert cheap.state == JobState.WAITING
    node.inventory = replace(node.inventory, memory_mb=PARKED_MB + 2048)
    node.report()
    world.settle()
    assert holders() == {"cheap"}


def test_a_job_does_not_wait_for_memory_that_it_gives_back_when_it_is_resumed(world: World) -> None:
    node = world.node("gpu01", gpus=2)
    node.inventory = replace(node.inventory, capabilities=(SUSPEND,), memory_mb=2048 + PARKED_MB - 1)
    node.report()
    VirtualCluster.objects.update(parking=True)
    job, _ = running(world, "notebook"), running(world, "neighbour")
    park(world, job)
    job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert holders() == {"notebook", "neighbour"}


def test_a_job_goes_back_to_a_server_that_takes_no_new_tasks(world: World, job: Job, node: ScriptedNode) -> None:
    park(world, job)
    node.row.__class__.objects.update(intent="cordoned")
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert holders() == {"notebook"}


def test_who_asks_again_or_for_what_is_so_changes_nothing(world: World, job: Job) -> None:
    assert not job_unpark(job=job, actor="alice", now=timezone.now())
    park(world, job)
    park(world, job)
    job_unpark(job=job, actor="alice", now=timezone.now())
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    assert len(said(job)) == 3
    assert Parking.objects.get().turn == 1


def test_a_job_that_is_not_off_its_gpu_yet_keeps_it_when_it_is_resumed(world: World, job: Job) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    assert job_unpark(job=job, actor="alice", now=timezone.now())
    (order,) = world.nodes["gpu01"].desired().orders
    assert (order.turn, order.gpu) == (2, GpuWish.HOLD)
    world.settle()
    assert (holders(), state(job)) == ({"notebook"}, ParkState.HELD)


@pytest.mark.parametrize("order", [lambda told: told, lambda told: [*told, *told], lambda told: [*reversed(told)]])
def test_reports_of_another_turn_and_repeated_ones_change_nothing(
    world: World, job: Job, node: ScriptedNode, order: object
) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    attempt = str(TaskAttempt.objects.get().pk)
    held = node.containers[attempt]
    parked = replace(held, turn=1, gpu=GpuState.PARKED, parked_mb=7)
    for told in order([held, replace(held, turn=1, gpu=GpuState.PARKING), parked, held]):  # type: ignore[operator]
        node.containers[attempt] = told
        node.report()
    assert state(job) == ParkState.PARKED
    assert len(said(job)) == 2


def refused(node: ScriptedNode, fault: GpuFault) -> None:
    attempt = str(TaskAttempt.objects.get().pk)
    turn = Parking.objects.get().turn
    node.containers[attempt] = replace(node.containers[attempt], turn=turn, gpu=GpuState.HELD, fault=fault)
    node.report()


def test_a_job_that_could_not_be_parked_keeps_its_gpu_and_says_why(world: World, job: Job, node: ScriptedNode) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    refused(node, GpuFault(code=ParkFault.BUSY, message=PARK_BUSY(seconds=60)))
    assert (holders(), state(job)) == ({"notebook"}, ParkState.HELD)
    assert said(job)[-1] == "It was not parked: its GPU was still computing after 60 s."
    park(world, job)
    assert state(job) == ParkState.PARKED


def test_a_process_that_cuda_cannot_park_is_not_tried_again(world: World, job: Job, node: ScriptedNode) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    refused(
        node, GpuFault(code=ParkFault.REFUSED, message=PARK_REFUSED(call="cuCheckpointProcessCheckpoint", code=801))
    )
    with pytest.raises(Conflict, match="It uses what CUDA cannot park"):
        job_park(job=job, actor="alice", now=timezone.now())


def test_a_portal_that_was_restored_to_before_a_turn_goes_on_from_there(
    world: World, job: Job, node: ScriptedNode
) -> None:
    attempt = str(TaskAttempt.objects.get().pk)
    node.containers[attempt] = replace(node.containers[attempt], turn=6, gpu=GpuState.PARKED)
    node.report()
    (order,) = node.desired().orders
    assert (order.turn, order.gpu) == (7, GpuWish.HOLD)
    world.settle()
    assert (holders(), state(job)) == ({"notebook"}, ParkState.HELD)


def test_a_node_that_names_ever_later_turns_writes_no_events(world: World, job: Job, node: ScriptedNode) -> None:
    (attempt,) = node.containers
    for turn in (1, 3, 5):
        for told in ((turn, GpuState.PARKED), (turn + 1, GpuState.HELD)):
            node.containers[attempt] = replace(node.containers[attempt], turn=told[0], gpu=told[1])
            node.report()
    assert Parking.objects.get().turn == 6
    assert said(job) == []


def test_a_turn_that_no_portal_gave_is_not_believed(world: World, job: Job, node: ScriptedNode) -> None:
    attempt = str(TaskAttempt.objects.get().pk)
    node.containers[attempt] = replace(node.containers[attempt], turn=2**40, gpu=GpuState.PARKED)
    node.report()
    assert not Parking.objects.exists()


def test_a_fault_in_its_nodes_own_words_is_told_as_it_is(world: World, job: Job, node: ScriptedNode) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    refused(node, GpuFault(code="of tomorrow", message="the moon is full"))
    assert said(job)[-1] == "It was not parked: the moon is full."


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"vc": False}, "Virtual cluster vision has no jobs parked"),
        ({"capabilities": ()}, "Server gpu01 parks nothing: its agent is of an older release"),
        ({"instances": 2, "gpu": 0}, "Only a job of one task with one GPU can be parked"),
        ({"berth": {"elastic": {"worker": {"min": 1, "max": 2}}}}, "Only a job of one task with one GPU can be parked"),
        ({"extras": CHEAP}, "Its GPU is on loan"),
        ({"berth": {"park": "never"}}, "Its job file says park: never"),
    ],
)
def test_what_cannot_be_parked_is_refused_with_the_reason(
    world: World, node: ScriptedNode, change: dict[str, object], why: str
) -> None:
    VirtualCluster.objects.update(parking=change.pop("vc", True))
    if "capabilities" in change:
        node.inventory = replace(node.inventory, capabilities=change.pop("capabilities"))  # type: ignore[arg-type]
        node.report()
    job = running(world, "other", **change)
    with pytest.raises(Conflict, match=why):
        job_park(job=job, actor="alice", now=timezone.now())


def test_the_page_of_a_parked_job_does_not_say_that_its_tasks_run(world: World, job: Job, client: Client) -> None:
    client.force_login(world.user)
    park(world, job)
    page = client.get(f"/jobs/{job.pk}").content.decode()
    assert "It is parked: its GPU memory (19.5 GB) is in the memory of gpu01." in page
    assert "Its tasks are running." not in page


def test_what_a_job_waits_for_on_its_way_back_is_an_event_once_and_kept_up_to_date(
    world: World, job: Job, node: ScriptedNode
) -> None:
    park(world, job)
    job_unpark(job=job, actor="alice", now=timezone.now())
    world.cycle()
    attempt, (order,) = str(TaskAttempt.objects.get().pk), node.desired().orders
    for free in (10, 20, 30):
        fault = GpuFault(code=ParkFault.GPU_FULL, message=PARK_GPU_FULL(free=free, mb=9000))
        node.containers[attempt] = replace(
            node.containers[attempt], turn=order.turn, gpu=GpuState.RESUMING, fault=fault
        )
        node.report()
    assert [one for one in said(job) if "30 MB free" in one or "20 MB free" in one] == []
    assert said(job)[-1].startswith("It is not back on its GPU yet: its GPU has 10 MB free")
    assert Parking.objects.get().fault.startswith("its GPU has 30 MB free")


def test_a_task_that_ended_is_not_parked_any_more_and_charged_once(world: World, job: Job, node: ScriptedNode) -> None:
    job_park(job=job, actor="alice", now=timezone.now())
    node.desired()
    (attempt,) = node.containers
    node.containers[attempt] = replace(
        node.containers[attempt], turn=1, gpu=GpuState.PARKED, state=ContainerState.TERMINATED,
        exit=Exit(cause=Cause.OOM, code=137), ended_ms=node.boot,
    )  # fmt: skip
    node.report()
    assert len(said(job)) == 1
    assert not Claim.objects.exists()
    assert not Usage.objects.filter(resource="cpu without gpu").exists()


def test_a_parked_job_that_is_stopped_ends_and_leaves_no_claim(world: World, job: Job) -> None:
    park(world, job)
    job_stop(job=job, actor=job.user, now=timezone.now())
    assert not job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    assert Job.objects.get().state == JobState.STOPPED
    assert not Claim.objects.exists()
    assert running(world, "next").state == JobState.RUNNING


def test_a_parked_job_whose_quota_is_cut_ends_as_preempted_and_waits(world: World, job: Job) -> None:
    from portal.hardware.models import CellType
    from portal.teams.services.quotas import quota_set

    park(world, job)
    quota_set(vc=world.vc, cell_type=CellType.objects.get(child__isnull=True), count=0, now=timezone.now())
    world.cycle()
    world.settle()
    assert JobAttempt.objects.get(job=job).end_reason == EndReason.PREEMPTED
    assert Job.objects.get().state == JobState.WAITING
    assert not Claim.objects.exists()


def test_its_time_limit_stands_still_and_its_usage_is_charged_once(world: World, node: ScriptedNode) -> None:
    job = running(world, "limited", berth={"timeLimit": "10m"})
    began = timezone.now() - timedelta(minutes=8)
    JobAttempt.objects.update(started_at=began)
    TaskAttempt.objects.update(started_at=began, created_at=began)
    Allocation.objects.update(created_at=began, since=began)
    park(world, job)
    charged = sum(Usage.objects.filter(resource="A100").values_list("amount", flat=True))
    assert 7.9 * 60_000 < charged < 8.2 * 60_000
    (task,) = node_tasks(node=node.row)
    assert task.gone_by(timezone.now()) is None
    later = timezone.now() + timedelta(minutes=30)
    world.cycle(later)
    assert JobAttempt.objects.get().end_reason == ""
    TaskAttempt.objects.update(parked_at=timezone.now() - timedelta(minutes=5))
    job_unpark(job=job, actor="alice", now=timezone.now())
    world.settle()
    parked_s = JobAttempt.objects.get().parked_s
    assert parked_s >= 300
    ((planned,),) = (one.tasks for one in SNAPSHOTS.load(now=timezone.now()).snapshot.running)
    assert planned.started_ms >= (began.timestamp() + parked_s) * 1000 - 1, "its end is expected as late as it comes"
    (task,) = node_tasks(node=node.row)
    assert task.gone_by(timezone.now()) == began + timedelta(minutes=10, seconds=parked_s)
    world.cycle(timezone.now() + timedelta(minutes=6))
    assert JobAttempt.objects.get().end_reason == ""
    world.cycle(timezone.now() + timedelta(minutes=8))
    assert JobAttempt.objects.get().end_reason == EndReason.TIME_LIMIT


def test_a_job_that_asks_to_be_parked_is_refused_where_no_job_is(world: World, node: ScriptedNode) -> None:
    running(world, "asks", berth={"park": "idle"})
    VirtualCluster.objects.update(parking=False)
    with pytest.raises(SpecInvalid) as refused:
        world.submit(name="again", berth={"park": "idle"})
    assert [(one.path, one.message) for one in refused.value.problems] == [
        ("extras.berth.park", "vision has no jobs parked; remove it, or ask a lead of vision to allow it")
    ]


def test_a_task_that_ended_while_it_was_parked_does_not_keep_the_next_one_from_its_time_limit(
    world: World, node: ScriptedNode
) -> None:
    job = running(world, "alone", gang=False, berth={"timeLimit": "10m"}, role={"taskRetryCount": 1})
    park(world, job)
    TaskAttempt.objects.update(parked_at=timezone.now() - timedelta(minutes=5))
    (attempt,) = node.containers
    node.containers[attempt] = replace(
        node.containers[attempt], state=ContainerState.TERMINATED, exit=Exit(cause=Cause.EXITED, code=1),
        ended_ms=node.boot, log_complete=True,
    )  # fmt: skip
    node.report()
    Task.objects.update(not_before=None)
    world.settle()
    assert TaskAttempt.objects.filter(state=ContainerState.RUNNING, parked_at=None).exists()
    world.cycle(timezone.now() + timedelta(minutes=14))
    assert JobAttempt.objects.get().end_reason == ""
    world.cycle(timezone.now() + timedelta(minutes=16))
    assert JobAttempt.objects.get().end_reason == EndReason.TIME_LIMIT
