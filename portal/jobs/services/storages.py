"""Jobs whose storages are no longer granted: refused at submission, paused when about to start."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import F
from django.db.models.fields.json import KeyTransform

from portal.common.prepared import Among, Prepared
from portal.job_file.model import JobSpec
from portal.job_file.problems import Problem, SpecInvalid
from portal.jobs.models import Job
from portal.jobs.selectors.storages import storage_names
from portal.jobs.services.pause import job_pause_itself
from portal.jobs.states import JobState
from portal.jobs.wordings import NO_STORAGE_MORE, NONE
from portal.storages.models import Storage


def storages_hold(*, jobs: Collection[int], now: datetime) -> frozenset[int]:
    """Pauses those of these waiting jobs (row ids) whose storages are not granted, with the cause in words, and returns
    them. A started job keeps its storages until it waits again."""
    if not jobs:
        return frozenset()
    wanted: dict[int, Any] = {row: mounts for row, mounts in _MOUNTS(jobs=jobs) if mounts}
    held = set()
    names = cache(lambda vc: storage_names(vc=vc))
    for job in Job.objects.filter(pk__in=wanted).select_related("vc", "user") if wanted else ():
        granted = names(job.vc.name)
        if lost := [mount["name"] for mount in wanted[job.pk] if mount["name"] not in granted]:
            held.add(job.pk)
            job_pause_itself(job=job, cause=_refusal(lost[0], job.vc.name, granted), now=now)
    return frozenset(held)


_MOUNTS = Prepared(
    lambda: (
        Job.objects.filter(Among("id", "jobs"), state=JobState.WAITING)
        .order_by()
        .values_list("pk", KeyTransform("storages", F("spec")))
    )
)


def storages_keep(*, spec: JobSpec) -> None:
    """Locks the job's storages at the end of the transaction that stores it, so that none is taken away before its
    commit. Raises SpecInvalid where one was while the job was checked."""
    names = sorted({mount.name for mount in spec.storages or ()})
    if not names:
        return
    list(Storage.objects.select_for_update().filter(name__in=names).order_by("pk").values_list("pk"))
    granted = storage_names(vc=spec.vc)
    problems = [
        Problem(f"extras.storages[{place}].name", _refusal(mount.name, spec.vc, granted), "unknown")
        for place, mount in enumerate(spec.storages or ())
        if mount.name not in granted
    ]
    if problems:
        raise SpecInvalid(problems)


def _refusal(name: str, vc: str, granted: frozenset[str]) -> str:
    return NO_STORAGE_MORE(vc=vc, name=name, known=sorted(granted) or [NONE()])
