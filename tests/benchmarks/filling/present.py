"""Jobs that run and wait: stored as submitting would, placed by the real scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random

from django.db import transaction
from django.utils import timezone

from nodes.protocol.states import ContainerState, Phase
from portal.hardware.services.silence import lane_pulse
from portal.jobs import wordings
from portal.jobs.models import Job, JobAttempt, JobEvent, Task, TaskAttempt, TaskRole
from portal.jobs.states import AttemptState, JobState, TaskState
from portal.queue.services.waits import MOST_CHANGED
from portal.scheduler.cycle import Scheduler
from tests.benchmarks.filling.drafts import A_NAME, Draft, Drafts, submitted
from tests.benchmarks.filling.hardware import BATCH, copied
from tests.benchmarks.filling.sizes import GPU_SIZES, NAMES, NotFilled, Shape, Sizes

WAITING_SHAPES = tuple(Shape(gpus, tasks) for gpus in GPU_SIZES for tasks in (1, 2, 4))


class Present:
    """Jobs of now."""

    def __init__(self, sizes: Sizes, drafts: Drafts, now: datetime) -> None:
        self._sizes, self._drafts, self._now, self._rng = sizes, drafts, now, Random(sizes.seed + 1)
        self._scheduler = Scheduler()
        self._vcs = list(drafts.members)

    def run(self) -> None:
        """Jobs that fill the quota of every virtual cluster. Raises NotFilled."""
        wanted = self._sizes.running
        jobs = self._submit(self._running(), timedelta(hours=10))
        lane_pulse(now=timezone.now())
        self._scheduler.cycle(now=timezone.now())
        started = Job.objects.filter(pk__in=jobs, state=JobState.STARTING).count()
        if started < wanted:
            raise NotFilled(
                f"The scheduler started {started} of the {wanted} jobs that were to run; drop this database and give "
                "other numbers."
            )
        self._run_all(jobs)

    def wait(self) -> None:
        """Jobs for which there is no room; the scheduler says why."""
        shapes = [one for one in WAITING_SHAPES if one.gpus * one.tasks <= self._sizes.vc_gpus]
        drafts = (
            self._drafts.get(self._rng.choice(self._vcs), self._rng.choice(shapes)) for _ in range(self._sizes.waiting)
        )
        self._submit(drafts, timedelta(hours=5))
        untold = Job.objects.filter(state=JobState.WAITING, waiting_code="")
        for _ in range(2 * (self._sizes.waiting // MOST_CHANGED + 1)):  # each cycle writes so many reasons
            if not untold.exists():
                break
            self._scheduler.cycle(now=timezone.now())

    def _running(self) -> Iterable[Draft]:
        for number, vc in enumerate(self._vcs):
            jobs = self._sizes.running // len(self._vcs) + (number < self._sizes.running % len(self._vcs))
            for gpus in gpu_sizes(jobs, self._sizes.vc_gpus):
                yield self._drafts.get(vc, Shape(gpus))

    def _submit(self, drafts: Iterable[Draft], since: timedelta) -> list[int]:
        wanted = list(drafts)
        self._rng.shuffle(wanted)
        step, jobs = since / max(len(wanted), 1), []
        with transaction.atomic():
            for first in range(0, len(wanted), BATCH):
                times = [self._now - since + step * (first + place) for place in range(BATCH)]
                jobs += self._store(wanted[first : first + BATCH], times)
        return jobs

    def _store(self, drafts: Sequence[Draft], times: Sequence[datetime]) -> list[int]:
        jobs = Job.objects.bulk_create(self._job(one, at) for one, at in zip(drafts, times, strict=False))
        roles = TaskRole.objects.bulk_create(
            copied(draft.role, job_id=job.pk) for job, draft in zip(jobs, drafts, strict=True)
        )
        Task.objects.bulk_create(
            Task(job_id=role.job_id, role=role, index=index) for role in roles for index in range(role.instances)
        )
        JobEvent.objects.bulk_create(_submitted(job, draft) for job, draft in zip(jobs, drafts, strict=True))
        return [job.pk for job in jobs]

    def _job(self, draft: Draft, at: datetime) -> Job:
        user = self._rng.choice(self._drafts.members[draft.vc.pk])
        name = self._rng.choice(NAMES)
        return copied(
            draft.job, user_id=user.pk, name=name, run=self._drafts.run(user, name), submitted_at=at,
            spec={**draft.job.spec, "name": name}, config=draft.config.replace(A_NAME, name),
        )  # fmt: skip

    def _run_all(self, keys: Sequence[int]) -> None:
        """The nodes have done what they were told."""
        since = self._now - timedelta(hours=1)
        placed = Job.objects.filter(pk__in=keys)
        jobs = list(placed.select_related("user"))
        placed.update(state=JobState.RUNNING, started_at=since)
        JobAttempt.objects.filter(job__in=keys).update(state=AttemptState.RUNNING, started_at=since)
        Task.objects.filter(job__in=keys).update(state=TaskState.RUNNING)
        live = TaskAttempt.objects.filter(job_attempt__job__in=keys)
        live.update(phase=Phase.RUN, state=ContainerState.RUNNING, started_at=since)
        JobEvent.objects.bulk_create(
            (JobEvent(job=job, at=since, code="running", data=wordings.RUNS(job=job.label).stored()) for job in jobs),
            batch_size=BATCH,
        )


def _submitted(job: Job, draft: Draft) -> JobEvent:
    said = submitted(job.label, draft)
    return JobEvent(job=job, at=job.submitted_at, code="submitted", data=said.stored(), actor=job.user.username)


def gpu_sizes(jobs: int, gpus: int) -> Iterable[int]:
    """The sizes of so many jobs that hold so many GPUs together: large ones first."""
    left = gpus
    for more in range(jobs - 1, -1, -1):
        size = next((one for one in GPU_SIZES if left - one >= more), 1)
        left -= size
        yield size
