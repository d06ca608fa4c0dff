"""Reservations: cells kept for the first waiting job of a virtual cluster, so that a large gang does not starve, and
what may run beside it (backfill)."""

from dataclasses import dataclass

from scheduling.cells.request import Choice, Unit
from scheduling.model.job import Job
from scheduling.placement.placer import Placer


@dataclass(frozen=True, slots=True)
class Reservation:
    """`job` waits for the virtual leaves `cells` (a mask by cell node), which are free at `at_ms`.

    Where no end of what runs is known, `at_ms` is None and `cells` are all that could ever hold one of its tasks.
    `promised`: the nodes, as they are now, have a place for it then; known only where it was asked for.
    """

    job: str
    at_ms: int | None
    cells: dict[int, int]
    promised: bool = False

    def leaves_alone(self, ends_ms: int | None) -> dict[int, int]:
        """Virtual leaves that a job ending then (None: unknown) must not take."""
        if self.at_ms is not None and ends_ms is not None and ends_ms <= self.at_ms:
            return {}
        return self.cells


def reserve(placer: Placer, job: Job, choice: Choice, *, with_reasons: bool = True) -> Reservation:
    """When and where the job could start if the running jobs of its virtual cluster end by their time limits, and
    (`with_reasons`) whether that can be promised."""
    unit = choice.units[-1].alone()
    ending = sorted(
        (max(task.started_ms for task in one.tasks) + one.job.time_limit_ms, one.job.id)
        for one in placer.running.values()
        if one.job.vc == job.vc and one.job.time_limit_ms is not None and one.tasks
    )
    allocator = placer.allocator
    allocator.begin()
    try:
        for at_ms, name in [(placer.now, ""), *ending]:
            for task in placer.running[name].tasks if name else ():
                allocator.release(name, task.placement)
            assignments = placer.assign(job, unit)
            if assignments is not None:
                cells: dict[int, int] = {}
                for assignment in assignments:
                    cells[assignment.cell] = cells.get(assignment.cell, 0) | assignment.leaves
                # Cells that are free already and let nobody start have something else wrong with them.
                promised = with_reasons and name != "" and _has_place(placer, job, choice)
                return Reservation(job.id, max(at_ms, placer.now), cells, promised)
    finally:
        allocator.rollback()
    return Reservation(job.id, None, _possible(placer, job, unit))


def _has_place(placer: Placer, job: Job, choice: Choice) -> bool:
    """Whether open nodes have a place for the job, or for one of its tasks where it is no gang."""
    return placer.guaranteed(job, choice, inside=False, one=True) is not None


def _possible(placer: Placer, job: Job, unit: Unit) -> dict[int, int]:
    """All cell nodes in which some task of the unit would fit if they were free."""
    layout, found = placer.allocator.layout, dict[int, int]()
    for pool in unit.pools:
        least = min(part.gpus for part in pool.parts)
        for number in layout.quotas_of.get((job.vc, pool.chain), ()):
            quota = layout.quotas[number]
            if quota.shape.width >= least:
                for cell in range(quota.first, quota.first + quota.count):
                    found[cell] = (1 << quota.shape.width) - 1
    return found
