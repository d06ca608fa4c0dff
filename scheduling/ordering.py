"""Who comes first inside a virtual cluster: priority, then the user with the smaller share, then submission.

Jobs that wait and guaranteed jobs that run on loan stand in one queue: quota is granted strictly in its order.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace

from scheduling.jobs import Job
from scheduling.shapes import Shape

OrderKey = tuple[int, int, str]

Entry = tuple[int, int, str, Job]
"""A job behind its order key."""


def submission(job: Job) -> OrderKey:
    """Order among equals: 1. submission, 2. order id, 3. id."""
    return (job.submitted_ms, job.order_id, job.id)


Rank = tuple[int, OrderKey]
"""The place of a job where no shares count."""


def rank(job: Job) -> Rank:
    """Before whom the job comes: priority, then submission."""
    return -job.priority, submission(job)


@dataclass(slots=True)
class Bucket:
    """Jobs of equal priority, user and shape, that all may want a loan or do not, in the order of submission."""

    priority: int
    user: str
    shape: Shape
    wants_loan: bool
    entries: list[Entry] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int, bool]:
        """What tells it from others of its priority."""
        return self.user, self.shape.number, self.wants_loan

    def only(self, entries: list[Entry]) -> "Bucket":
        """The same with these jobs."""
        return replace(self, entries=entries)


Levels = dict[int, dict[tuple[str, int, bool], Bucket]]
"""Buckets by priority and key."""


class Queue:
    """The jobs of one virtual cluster.

    `version` counts all changes, `front` those that matter to whoever is not behind `hold_up`.
    """

    def __init__(self) -> None:
        self.version = self.front = 0
        self._levels: Levels = {}
        self._where: dict[str, tuple[Bucket, Entry]] = {}
        self._held_up: tuple[Rank, frozenset[str]] | None = None

    def add(self, job: Job, user: str, shape: Shape, *, wants_loan: bool = True) -> None:
        """Enter a job under the user whose share counts (empty: nobody's); in place of an earlier one of its id."""
        self.remove(job.id)
        level, key = self._levels.setdefault(job.priority, {}), (user, shape.number, wants_loan)
        bucket = level.get(key)
        if bucket is None:
            bucket = level[key] = Bucket(job.priority, user, shape, wants_loan)
        entry = (*submission(job), job)
        insort(bucket.entries, entry)
        self._where[job.id] = bucket, entry
        self._changed(bucket, entry)

    def remove(self, job_id: str) -> None:
        """Take a job out; without effect where it is not."""
        known = self._where.pop(job_id, None)
        if known is None:
            return
        bucket, entry = known
        del bucket.entries[bisect_left(bucket.entries, entry[:3])]
        if not bucket.entries:
            level = self._levels[bucket.priority]
            del level[bucket.key]
            if not level:
                del self._levels[bucket.priority]
        self._changed(bucket, entry)

    def hold_up(self, behind: tuple[Rank, frozenset[str]] | None) -> None:
        """Whoever comes behind this place and stands in these chains only is passed over, and changes no `front`."""
        self._held_up = behind

    def _changed(self, bucket: Bucket, entry: Entry) -> None:
        self.version += 1
        held, chains = self._held_up, bucket.shape.chains
        self.front += held is None or (-bucket.priority, entry[:3]) <= held[0] or not chains or not chains <= held[1]

    def walk(self, share: Callable[[str], float], first: Collection[str] = (), *, wanting_loan: bool = False) -> "Walk":
        """Through the queue in order; `share` gives a user's share, jobs in `first` lead their priority.

        `wanting_loan`: only those that may want one.
        """
        leading: dict[int, list[tuple[Bucket, Entry]]] = {}
        for bucket, entry in (self._where[name] for name in first if name in self._where):
            leading.setdefault(bucket.priority, []).append((bucket, entry))
        return Walk(_wanting_loan(self._levels) if wanting_loan else self._levels, share, leading)


def _wanting_loan(levels: Levels) -> Levels:
    some = {number: {key: one for key, one in level.items() if one.wants_loan} for number, level in levels.items()}
    return {number: level for number, level in some.items() if level}


_LEADS = (False,), (False, True)


class Walk:
    """An iterator over a queue. `shape` is that of the last job, `rank` the share of its user; all that is left of its
    bucket may be passed over.

    A user's share is asked for again after each of the user's jobs, since a start changes it.
    """

    def __init__(
        self,
        levels: Levels,
        share: Callable[[str], float],
        leading: dict[int, list[tuple[Bucket, Entry]]],
    ) -> None:
        self.shape: Shape
        self.rank = 0.0
        self._last: Bucket
        self._levels = levels
        self._share = share
        self._leading = leading
        self._ahead = [(priority, lead) for priority in sorted(levels) for lead in _LEADS[priority in leading]]
        self._heap: list[tuple[float, Entry, int]] = []
        self._buckets: list[Bucket] = []
        self._at: list[int] = []

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while True:
            if not self._heap:
                self._next_level()
                continue
            share, entry, number = self._heap[0]
            bucket = self._last = self._buckets[number]
            fresh = self._share(bucket.user)
            if fresh != share:
                heapreplace(self._heap, (fresh, entry, number))
                continue
            self.shape, self.rank = bucket.shape, share
            at = self._at[number] = self._at[number] + 1
            if at < len(bucket.entries):
                heapreplace(self._heap, (share, bucket.entries[at], number))
            else:
                heappop(self._heap)
            return entry[3]

    def pass_over(self) -> None:
        """Leave out what is left of the bucket that the last job came from."""
        self._heap = [one for one in self._heap if self._buckets[one[2]] is not self._last]
        heapify(self._heap)

    def _next_level(self) -> None:
        """The jobs of the next lower priority; first those that lead it."""
        if not self._ahead:
            raise StopIteration
        priority, lead = self._ahead.pop()
        leading = self._leading.get(priority, [])
        if lead:
            self._buckets = [one.only([entry]) for one, entry in leading]
        else:
            taken = {id(bucket) for bucket, _ in leading}
            entries = [entry for _, entry in leading]
            every = self._levels[priority].values()
            apart = [
                one.only([entry for entry in one.entries if entry not in entries]) if id(one) in taken else one
                for one in every
            ]
            self._buckets = [one for one in apart if one.entries]
        self._at = [0] * len(self._buckets)
        self._heap = [(self._share(one.user), one.entries[0], number) for number, one in enumerate(self._buckets)]
        heapify(self._heap)


def merged(walks: dict[str, Iterator[Job]]) -> Iterator[Job]:
    """All virtual clusters' jobs, each in its own order; between them the next that was submitted first."""
    heap = []
    for vc, walk in walks.items():
        job = next(walk, None)
        if job is not None:
            heap.append((submission(job), vc, job))
    heapify(heap)
    while heap:
        _, vc, job = heap[0]
        yield job
        following = next(walks[vc], None)
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (submission(following), vc, following))
