"""Pauses jobs about to start whose virtual clusters may not use the host network any more."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Sum

from portal.jobs.models import Job
from portal.jobs.services.pause import job_pause_itself
from portal.jobs.states import JobState
from portal.jobs.wordings import NO_HOST_NETWORK


def host_network_hold(*, jobs: Collection[int], now: datetime) -> frozenset[int]:
    """Pauses those of these waiting jobs (row ids) with several tasks whose virtual clusters may not use the host
    network, with the cause in words, and returns them. One query where all may, none without jobs. A started job keeps
    it until it waits again."""
    if not jobs:
        return frozenset()
    barred = Job.objects.filter(pk__in=jobs, state=JobState.WAITING, vc__host_network=False)
    held = list(barred.annotate(size=Sum("roles__instances")).filter(size__gt=1).select_related("vc", "user"))
    for job in held:
        cause = NO_HOST_NETWORK(tasks=job.size, vc=job.vc.name)
        job_pause_itself(job=job, cause=cause, now=now)
    return frozenset(job.pk for job in held)
