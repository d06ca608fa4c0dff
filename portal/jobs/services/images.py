"""Jobs whose images may not run any more when they are about to start."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from portal.clusters.selectors import ImagePatterns
from portal.common.errors import Conflict
from portal.jobs.models import Job
from portal.jobs.services.pausing import job_pause
from portal.jobs.spec import JobSpec, image_allowed, image_refusal
from portal.jobs.states import JobState


def images_hold(*, jobs: Collection[int], now: datetime) -> frozenset[int]:
    """Of these waiting jobs (row ids) those that may not start, each paused with the cause in words. One query where
    every image may run. A job that has begun keeps its images until it waits again."""
    patterns = ImagePatterns() if jobs else None
    if not patterns:
        return frozenset()
    held = set()
    waiting = Job.objects.filter(pk__in=jobs, state=JobState.WAITING).select_related("vc", "user")
    for job in waiting:
        own = patterns.of(job.vc_id)
        uris = {role.image.uri for role in JobSpec.from_json(job.spec).roles}
        if refused := sorted(uri for uri in uris if not image_allowed(uri, own)):
            held.add(job.pk)
            _pause(job, image_refusal(refused[0], own, job.vc.name), now)
    return frozenset(held)


def _pause(job: Job, cause: str, now: datetime) -> None:
    try:
        job_pause(job=job, actor="", now=now, cause=f"{cause}. Ask an administrator, then resume the job.")
    except Conflict:
        return  # somebody stopped it at the same moment
