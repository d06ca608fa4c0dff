"""A job that was preempted while it ran, waited for long, and runs again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.jobs.models import Job
    from tests.support.cluster.world import World


def restarted(world: World) -> Job:
    """It ran for ten minutes a day ago, and runs since five minutes: its second attempt, after a preemption."""
    from portal.jobs.models import Job, JobAttempt

    job = world.submit()
    world.settle()
    first = world.now - timedelta(days=1)
    JobAttempt.objects.filter(job=job).update(number=2, started_at=world.now - timedelta(minutes=5))
    JobAttempt.objects.create(
        job=job, number=1, state="ended", created_at=first, started_at=first,
        ended_at=first + timedelta(minutes=10), end_reason="preempted",
    )  # fmt: skip
    Job.objects.filter(pk=job.pk).update(started_at=first, retries=1)
    return job


def requeued(job: Job, **changes: object) -> None:
    """Its present attempt has ended by now, after five minutes."""
    from portal.jobs.models import Job, JobAttempt

    for live in JobAttempt.objects.filter(job=job, ended_at=None):
        assert live.started_at is not None
        live.state, live.ended_at = "ended", live.started_at + timedelta(minutes=5)
        live.save()
    Job.objects.filter(pk=job.pk).update(**changes)
