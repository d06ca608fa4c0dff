"""Cooldown of loans: fresh idle GPUs are not lent to a job that lost loans of late, lest they are taken back again."""

from collections.abc import Iterable, Mapping

from scheduling.cells.cell_index import LeafAt
from scheduling.model.job import Job
from scheduling.model.snapshot import Freed

_NONE: Mapping[int, int] = {}


class LoanCooldown:
    """The freed GPUs that still cool down at `now` (ms)."""

    def __init__(self, leaf_at: Mapping[str, LeafAt], freed: Iterable[Freed], now: int) -> None:
        self._leaf_at = leaf_at
        self._freed = freed
        self._now = now
        self._known: dict[int, Mapping[int, int]] = {}

    def for_job(self, job: Job) -> Mapping[int, int]:
        """By node the leaves (a mask) that have not idled long enough to be lent to this job."""
        rest = job.rest_ms
        if not rest:
            return _NONE
        if rest not in self._known:
            self._known[rest] = self._since(self._now - rest)
        return self._known[rest]

    def _since(self, at_ms: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for one in self._freed:
            place = self._leaf_at.get(one.leaf)
            if place is not None and one.at_ms > at_ms:
                found[place[0]] = found.get(place[0], 0) | 1 << place[1]
        return found
