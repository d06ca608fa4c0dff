"""How long a job may run: from the past runs of its user and virtual cluster, and from its time limit."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scheduling.model.elastic import gang_gpus
from scheduling.model.job import Job

COMPARABLE = 20
"""So many past runs tell how long the next one may take; fewer do not."""

LONGER = 5
"""So many past runs must have been longer than a job has run already to tell how long it goes on."""

Kind = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that ended by itself or by a person: whose it was, the GPUs of its gang, how long it ran (ms)."""

    vc: str
    user: str
    gpus: int
    ran_ms: int


class RunTimes:
    """Run times by quantile: a job's number between 0 and 1 says how long it runs among those like it."""

    def __init__(self, past: Iterable[PastRun] = ()) -> None:
        self._runs: dict[Kind, list[int]] = {}
        for run in past:
            for kind in _kinds(run.vc, run.user, run.gpus):
                self._runs.setdefault(kind, []).append(run.ran_ms)
        for runs in self._runs.values():
            runs.sort()

    def of(self, job: Job, ran_ms: int, quantile: float) -> int | None:
        """The whole run time (ms, more than `ran_ms`) at this quantile, 0 <= quantile < 1; None: nobody knows.

        1. At least 20 runs of the same user and size in the virtual cluster, else of the user, else of that size
           in the virtual cluster, else of all of it; of these those longer than the job has run already. The size
           of an elastic job is that of its gang: how many extra tasks it will have, and how much faster they make it,
           nobody knows.
        2. Longer than nearly all of them: the chance to last t more is ran / (ran + t), as of processes that
           have become old (Harchol-Balter and Downey, 1997).
        3. Without comparable runs anything up to the time limit is as likely: so it is with limits that users
           give (Mu'alem and Feitelson, 2001). No run goes beyond its limit.
        """
        total = self._compared(job, ran_ms, quantile)
        if job.time_limit_ms is None:
            return None if total is None else max(total, ran_ms + 1)
        if total is None:
            total = ran_ms + int((job.time_limit_ms - ran_ms) * quantile)
        return max(min(total, job.time_limit_ms), ran_ms + 1)

    def _compared(self, job: Job, ran_ms: int, quantile: float) -> int | None:
        for kind in _kinds(job.vc, job.user, gang_gpus(job)):
            runs = self._runs.get(kind, [])
            if len(runs) >= COMPARABLE:
                first = bisect_right(runs, ran_ms)
                if len(runs) - first >= LONGER:
                    return runs[first + int((len(runs) - first) * quantile)]
                return int(ran_ms / (1 - quantile))
        return None


def _kinds(vc: str, user: str, gpus: int) -> Iterator[Kind]:
    """What a run is compared with, the nearest first; sizes are alike within a factor of two."""
    size = gpus.bit_length()
    yield (vc, user, size)
    yield (vc, user, -1)
    yield (vc, "", size)
    yield (vc, "", -1)
