"""Runs of tasks at times that a test names, and readings of their GPUs as their node would report them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from nodes.protocol.messages import GpuSample, Sample
from portal.accounts.models import User
from portal.hardware.models import Gpu, Node
from portal.jobs.models import Allocation, Job, JobAttempt, Standing, Task, TaskAttempt, TaskRole
from portal.jobs.services.submit import job_submit
from portal.logs.stream import streams_client
from portal.metrics.folding import samples_fold
from portal.metrics.record import Records
from portal.scheduler.reports import report_take
from portal.usage.models import UsageProgress
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World, job_file


def at(text: str) -> datetime:
    """Such as `05-04 10:45`, in 2026 and UTC."""
    return datetime.strptime(f"2026-{text}", "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def run(
    world: World,
    begin: str,
    end: str | None,
    *,
    gpus: int = 1,
    user: User | None = None,
    borrowed: bool = False,
    attempt: dict[str, Any] | None = None,
    **columns: Any,
) -> TaskAttempt:
    """A task attempt that held GPUs of gpu01 from one moment to another (None: still does)."""
    begun, ended = at(begin), at(end) if end else None
    job = job_submit(user=user or world.user, text=job_file(gpu=gpus), now=begun)
    task = Task.objects.get(job=job)
    states = {"state": "ended"} if ended else {"state": "running"}
    of_job = JobAttempt.objects.create(
        job=job, number=1, created_at=begun, started_at=begun, ended_at=ended, **{**states, **(attempt or {})}
    )
    row = TaskAttempt.objects.create(
        task=task, job_attempt=of_job, number=1, node=world.nodes["gpu01"].row, cpu_milli=1000, memory_mb=1024,
        state="terminated" if ended else "running", created_at=begun, released_at=ended,
        **{"started_at": begun, **columns},
    )  # fmt: skip
    free = Gpu.objects.exclude(allocations__released_at__isnull=True, allocations__isnull=False).order_by("id")
    for gpu in free[:gpus]:
        Allocation.objects.create(
            task_attempt=row, leaf=gpu, since=begun, created_at=begun, released_at=ended,
            standing=Standing.BORROWED if borrowed else Standing.GUARANTEED,
            virtual_cell="" if borrowed else f"{job.vc.name}/{gpu.pk}/{row.pk}",
        )  # fmt: skip
    Job.objects.filter(pk=job.pk).update(state="succeeded" if ended else "running")
    return row


def an_extra_task(row: TaskAttempt) -> None:
    """The run was that of an extra task of an elastic job."""
    TaskRole.objects.filter(pk=row.task.role_id).update(least=1)
    Task.objects.filter(pk=row.task_id).update(index=1)


def started(world: World, **changes: Any) -> TaskAttempt:
    """A task that runs on gpu01, by the portal's own ways."""
    job = world.submit(**changes)
    world.settle()
    return TaskAttempt.objects.select_related("node").get(task__job=job, released_at__isnull=True)


def sample_of(node: ScriptedNode, moment: datetime, utilisation: int | None, **changes: Any) -> Sample:
    """A reading of all GPUs and containers of a node."""
    reading = {"memory_used_mb": 4000, "temperature_c": 60, "power_w": 250, **changes}
    gpus = tuple(GpuSample(uuid=one.uuid, utilisation=utilisation, **reading) for one in node.inventory.gpus)
    return Sample(
        at_ms=int(moment.timestamp() * 1000), gpus=gpus, cpu_milli=dict.fromkeys(node.containers, 500),
        memory_mb=dict.fromkeys(node.containers, 700),
    )  # fmt: skip


def tell(node: ScriptedNode, moment: datetime, utilisation: int | None, **changes: Any) -> None:
    """The node reports its containers, each with the GPUs that it holds, and a reading."""

    containers = tuple(replace(one, gpus=gpus_of(key)) for key, one in node.containers.items())
    sample = sample_of(node, moment, utilisation, **changes)
    assert report_take(text=node.report_text(containers=containers, sample=sample), now=moment)
    Node.objects.update(clock_skew_ms=0)  # the time is the test's, not the clock's


def gpus_of(attempt: str) -> tuple[str, ...]:
    held = Allocation.objects.filter(task_attempt=UUID(attempt)).order_by("leaf__uuid")
    return tuple(held.values_list("leaf__uuid", flat=True))


def minute_of(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def fold(records: Records, now: datetime) -> int:
    return samples_fold(now=now, redis=streams_client(), records=records)


def folded_from(moment: datetime) -> None:
    """The next minute to fold is that of this moment."""
    start = {"folded_to": minute_of(moment), "rolled_to": moment.date()}
    UsageProgress.objects.update_or_create(id=1, defaults=start)


def rolled_from(text: str) -> None:
    """Everything is folded, and this day (such as `05-04`) is the next to be summed up."""
    day = at(f"{text} 00:00")
    progress = {"folded_to": day + timedelta(days=3650), "rolled_to": day.date()}
    UsageProgress.objects.update_or_create(id=1, defaults=progress)
