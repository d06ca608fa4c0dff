"""GPUs in use and jobs that wait, over the time of a simulation."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.model.job import Standing
from scheduling.simulator.loop import Event, Happening


@dataclass(frozen=True, slots=True)
class Moment:
    """From `at_ms` to the next moment: GPUs held inside quotas and on loan, jobs that wait and their GPUs."""

    at_ms: int
    guaranteed: int
    borrowed: int
    waiting_jobs: int
    waiting_gpus: int


def timeline(events: Iterable[Event]) -> list[Moment]:
    """One moment for each time at which something changed; the events are in the order of time."""
    moments: list[Moment] = []
    held = {Standing.GUARANTEED: 0, Standing.BORROWED: 0}
    now_held: dict[str, tuple[Standing, int]] = {}
    jobs = gpus = 0
    for event in events:
        before = now_held.pop(event.job.id, None)
        if before is not None:
            held[before[0]] -= before[1]
        waits = _WAITS.get(event.happening, 0)
        if event.standing is not None:
            now_held[event.job.id] = event.standing, event.gpus
            held[event.standing] += event.gpus
        jobs += waits
        gpus += waits * event.job.gpus
        moment = Moment(event.at_ms, held[Standing.GUARANTEED], held[Standing.BORROWED], jobs, gpus)
        if moments and moments[-1].at_ms == event.at_ms:
            moments.pop()
        moments.append(moment)
    return moments


_WAITS = {Happening.SUBMIT: 1, Happening.START: -1, Happening.STOP: 1}
