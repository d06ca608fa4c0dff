"""Pauses jobs about to start whose images are no longer allowed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from portal.images.selectors import ImagePatterns
from portal.job_file.images import image_allowed, image_refusal
from portal.job_file.model import JobSpec
from portal.jobs.models import Job
from portal.jobs.services.pause import job_pause_itself
from portal.jobs.states import JobState


def images_hold(*, jobs: Collection[int], now: datetime) -> frozenset[int]:
    """Pauses those of these waiting jobs (row ids) whose images are not allowed, with the cause in words, and returns
    them. One query where every image is allowed. A started job keeps its images until it waits again."""
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
            job_pause_itself(job=job, cause=image_refusal(refused[0], own, job.vc.name), now=now)
    return frozenset(held)
