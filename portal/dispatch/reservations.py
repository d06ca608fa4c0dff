"""The jobs that the last plan kept cells for: what one plan leaves for the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from portal.dispatch.dependencies import job_key
from portal.dispatch.models import Reservations
from scheduling import Job


@dataclass(frozen=True, slots=True)
class Reserved:
    """Live jobs (engine ids), and the version of the row they were read from."""

    jobs: tuple[str, ...]
    version: int


def reservations_read(live: Mapping[int, Job], moved: Collection[int] = ()) -> Reserved:
    """Those of the stored jobs that still live, and before which their owner has ``moved`` none."""
    row = Reservations.objects.filter(id=1).first()
    if row is None:
        return Reserved((), 0)
    kept = (job for job in row.jobs if job in live and not _overtaken(live[job], (live[one] for one in moved)))
    return Reserved(tuple(map(job_key, kept)), row.version)


def _overtaken(job: Job, moved: Iterable[Job]) -> bool:
    """Whether one of these stands before it in the order of its own user: cells are kept against the shares of others,
    not against what its owner wants first."""
    return any(
        bool(one.wanted)  # it waits
        and (one.vc, one.user, one.priority, one.paused) == (job.vc, job.user, job.priority, False)
        and (one.submitted_ms, one.order_id) < (job.submitted_ms, job.order_id)
        for one in moved
    )


def reservations_write(*, jobs: Collection[int], read: Reserved) -> bool:
    """Put a plan's list in place of the one it was made from; False where another has done so since."""
    if tuple(map(job_key, jobs)) == read.jobs:
        return True
    Reservations.objects.get_or_create(id=1)
    changed = Reservations.objects.filter(id=1, version=read.version)
    return bool(changed.update(jobs=list(jobs), version=read.version + 1))
