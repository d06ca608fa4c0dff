"""Who comes first inside a virtual cluster: priority, then the user with the smaller share, then submission.

Jobs that wait and guaranteed jobs that run on loan stand in one queue: quota is granted strictly in its order.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace

from scheduling.jobs import Job

OrderKey = tuple[int, int, str]


def submission(job: Job) -> OrderKey:
    """Order among equals: 1. submission, 2. order id, 3. id."""
    return (job.submitted_ms, job.order_id, job.id)


Key = tuple[int, str, int, bool]
"""What is equal in a bucket: priority, user, shape, and whether its jobs may want a loan."""

Rank = tuple[int, OrderKey]
"""The place of a job where no shares count."""


def rank(job: Job) -> Rank:
    """Before whom the job comes: priority, then submission."""
    return -job.priority, submission(job)


class Queue:
    """The jobs of one virtual cluster, kept in buckets of what is equal.

    `version` counts all changes, `front` those that matter to whoever is not behind `hold_up`.
    """

    def __init__(self) -> None:
        self.version = self.front = 0
        self._buckets: dict[Key, list[Job]] = {}
        self._where: dict[str, tuple[Key, OrderKey, frozenset[str]]] = {}
        self._held_up: tuple[Rank, frozenset[str]] | None = None

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._where

    def add(
        self, job: Job, user: str, shape: int, chains: frozenset[str] = frozenset(), *, wants_loan: bool = True
    ) -> None:
        """Enter a job under the user whose share counts (empty: nobody's); in place of an earlier one of its id.

        `chains` are those in whose order it stands.
        """
        self.remove(job.id)
        key = (job.priority, user, shape, wants_loan)
        self._where[job.id] = key, submission(job), chains
        insort(self._buckets.setdefault(key, []), job, key=submission)
        self._changed(rank(job), chains)

    def remove(self, job_id: str) -> None:
        """Take a job out; without effect where it is not."""
        known = self._where.pop(job_id, None)
        if known is None:
            return
        key, place, chains = known
        bucket = self._buckets[key]
        del bucket[bisect_left(bucket, place, key=submission)]
        if not bucket:
            del self._buckets[key]
        self._changed((-key[0], place), chains)

    def hold_up(self, behind: tuple[Rank, frozenset[str]] | None) -> None:
        """Whoever comes behind this place and stands in these chains only is passed over, and changes no `front`."""
        self._held_up = behind

    def _changed(self, place: Rank, chains: frozenset[str]) -> None:
        self.version += 1
        held = self._held_up
        self.front += held is None or place <= held[0] or not chains or not chains <= held[1]

    def walk(self, share: Callable[[str], float], first: Collection[str] = (), *, wanting_loan: bool = False) -> "Walk":
        """Through the queue in order; `share` gives a user's share, jobs in `first` lead their priority.

        `wanting_loan`: only those that may want one.
        """
        buckets = self._buckets
        return Walk({key: buckets[key] for key in buckets if key[3]} if wanting_loan else buckets, share, first)


class Walk:
    """An iterator over a queue that may pass over all that is left of a bucket.

    A user's share is asked for again after each of the user's jobs, since a start changes it.
    """

    def __init__(
        self,
        buckets: dict[Key, list[Job]],
        share: Callable[[str], float],
        first: Collection[str],
    ) -> None:
        self._share = share
        self._first = first
        if first:
            buckets = {
                key: sorted(jobs, key=lambda job: (job.id not in first, submission(job)))
                for key, jobs in buckets.items()
            }
        self._buckets = buckets
        self._at = dict.fromkeys(buckets, 0)
        self._heap = [self._rank(key, jobs[0]) for key, jobs in buckets.items()]
        heapify(self._heap)
        self._last: Key | None = None

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while self._heap:
            rank, key = self._heap[0]
            jobs, at = self._buckets[key], self._at[key]
            fresh = self._rank(key, jobs[at])
            if fresh[0] != rank:
                heapreplace(self._heap, fresh)
                continue
            self._last = key
            heappop(self._heap)
            self._at[key] = at + 1
            if at + 1 < len(jobs):
                heappush(self._heap, self._rank(key, jobs[at + 1]))
            return jobs[at]
        raise StopIteration

    def pass_over(self) -> None:
        """Leave out what is left of the bucket that the last job came from."""
        if self._last is not None:
            self._heap = [one for one in self._heap if one[1] != self._last]
            heapify(self._heap)

    def _rank(self, key: Key, job: Job) -> tuple[tuple[int, bool, float, OrderKey], Key]:
        return (-job.priority, job.id not in self._first, self._share(key[1]), submission(job)), key


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
