"""Reservations: jobs that the last plan kept cells for, left for the next."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from portal.common.prepared import Prepared
from portal.scheduler.dependencies import job_key
from portal.scheduler.models import Reservations


@dataclass(frozen=True, slots=True)
class Reserved:
    """Live jobs (engine ids), and the version of the row they come from."""

    jobs: tuple[str, ...]
    version: int


def reservations_read(live: Container[int]) -> Reserved:
    """The stored jobs that are still live."""
    row = _ROW.first()
    if row is None:
        return Reserved((), 0)
    return Reserved(tuple(job_key(job) for job in row.jobs if job in live), row.version)


_ROW = Prepared(lambda: Reservations.objects.filter(id=1))


def reservations_write(*, jobs: Collection[int], read: Reserved) -> bool:
    """Replace the list a plan was made from by its own; False if another has done so since."""
    if tuple(map(job_key, jobs)) == read.jobs:
        return True
    Reservations.objects.get_or_create(id=1)
    changed = Reservations.objects.filter(id=1, version=read.version)
    return bool(changed.update(jobs=list(jobs), version=read.version + 1))
