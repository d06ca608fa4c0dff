"""Running jobs that nobody may preempt, whose virtual cells are gone with a smaller quota: they get others of it before
all other jobs of the team, who give them up where none is free."""

from collections.abc import Iterable, Mapping, Sequence

from scheduling.cycle.cycle_state import Cycle, Lent
from scheduling.cycle.promotion import Promotions, promote
from scheduling.model.job import TaskPlacement
from scheduling.model.plan import Demotion
from scheduling.model.snapshot import Running
from scheduling.placement.virtual_placement import ReservedCells
from scheduling.preemption.victim_selection import spare_most
from scheduling.queue.queue import rank


def reseat(trial: Cycle, fallen: Mapping[str, Demotion]) -> dict[str, Demotion]:
    """All who are on loan after it: those who have `fallen`, and who gave up cells for a firm one of them. That one is
    promoted by the plan, if the quota holds it."""
    found = dict(fallen)
    moving = Promotions(trial)
    firm = [one for one in map(trial.state.running.get, fallen) if one is not None and not one.job.preemptible]
    for one in sorted(firm, key=lambda one: rank(one.job)):
        for part in moving.parts(one, one.job):
            found.update((name, Demotion(name, "quota")) for name in _move(trial, one, part))
    return found


def _move(trial: Cycle, running: Running, part: Lent) -> Iterable[str]:
    """These tasks move in where they are; answers with who is demoted for it."""
    job, placer = running.job, trial.state.placer
    if part.choice < 0:
        return ()
    unit = part.shape.choices[part.choice].units[0]

    def moved(chosen: Iterable[str]) -> tuple[TaskPlacement, ...] | None:
        placer.allocator.begin()
        try:
            for name in chosen:
                for task in trial.state.running[name].tasks:
                    placer.allocator.lend(name, task.placement)
            fresh = placer.seats(job, unit)
            now = trial.state.running[job.id]
            return (
                None
                if fresh is None
                else promote(placer, now, part.tasks, fresh, ReservedCells(placer.allocator, job.vc))
            )
        finally:
            placer.allocator.take_back()

    chosen = set[str]()
    if moved(chosen) is None:
        chosen = spare_most(_others(trial, job.vc), lambda some: moved(some) is not None) or chosen
    placements = moved(chosen)
    if placements is None:
        return ()
    for name in sorted(chosen):
        trial.demote(name)
    trial.busy.add(job.vc)
    trial.promote(job, placements)
    return chosen


def _others(trial: Cycle, vc: str) -> Sequence[str]:
    """Who of the team holds cells and may be preempted: who leaves already first, then who comes last in its order."""
    running = trial.state.running
    found = [running[name] for name in trial.state.placer.allocator.holding[vc] if name in running]
    found = [one for one in found if one.job.preemptible]
    found.sort(key=lambda one: rank(one.job), reverse=True)
    found.sort(key=lambda one: not all(task.leaving for task in one.tasks))
    return [one.job.id for one in found]
