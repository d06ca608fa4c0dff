"""Rebinds non-preemptible jobs whose virtual cells a quota cut removed. If none are free, lower-ranked jobs of the
virtual cluster are demoted."""

from collections.abc import Iterable, Mapping, Sequence

from scheduling.cycle.cycle_state import Cycle
from scheduling.cycle.memory import Lent
from scheduling.cycle.promotion import Promotions, promote
from scheduling.model.job import TaskPlacement
from scheduling.model.plan import Demotion
from scheduling.model.snapshot import Running
from scheduling.placement.virtual_placement import ReservedCells
from scheduling.preemption.victim_selection import spare_most
from scheduling.queue.queue import rank


def rebind(cycle: Cycle, without_quota: Mapping[str, Demotion]) -> dict[str, Demotion]:
    """Promotes those that the quota still holds. Returns all demotions: of jobs `without_quota`, and of those that gave
    up their cells."""
    found = dict(without_quota)
    promotions = Promotions(cycle)
    gone = [one for one in map(cycle.state.running.get, without_quota) if one is not None and not one.job.preemptible]
    for one in sorted(gone, key=lambda one: rank(one.job)):
        for part in promotions.parts(one, one.job):
            found.update((name, Demotion(name, "quota")) for name in _move(cycle, one, part))
    return found


def _move(cycle: Cycle, running: Running, part: Lent) -> Iterable[str]:
    """Rebinds these tasks where they run; returns the jobs to be demoted for it."""
    job, placer = running.job, cycle.state.placer
    if part.choice < 0:
        return ()
    unit = part.shape.choices[part.choice].units[0]

    def moved(chosen: Iterable[str]) -> tuple[TaskPlacement, ...] | None:
        placer.allocator.begin()
        try:
            for name in chosen:
                for task in cycle.state.running[name].tasks:
                    placer.allocator.lend(name, task.placement)
            fresh = placer.assign(job, unit)
            now = cycle.state.running[job.id]
            return (
                None
                if fresh is None
                else promote(placer, now, part.tasks, fresh, ReservedCells(placer.allocator, job.vc))
            )
        finally:
            placer.allocator.rollback()

    chosen = set[str]()
    if moved(chosen) is None:
        chosen = spare_most(_others(cycle, job.vc), lambda some: moved(some) is not None) or chosen
    placements = moved(chosen)
    if placements is None:
        return ()
    for name in sorted(chosen):
        cycle.demote(name)
    cycle.busy.add(job.vc)
    cycle.promote(job, placements)
    return chosen


def _others(cycle: Cycle, vc: str) -> Sequence[str]:
    """Preemptible jobs of the virtual cluster that have cells: those that are leaving first, then from the last in its
    order."""
    running = cycle.state.running
    found = [running[name] for name in cycle.state.placer.allocator.virtual_leaves_by_job[vc] if name in running]
    found = [one for one in found if one.job.preemptible]
    found.sort(key=lambda one: rank(one.job), reverse=True)
    found.sort(key=lambda one: not all(task.leaving for task in one.tasks))
    return [one.job.id for one in found]
