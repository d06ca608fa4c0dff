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


class Queue:
    """The jobs of one virtual cluster, kept in buckets of equal priority, user and shape."""

    def __init__(self) -> None:
        self.version = 0
        self._buckets: dict[tuple[int, str, int], list[Job]] = {}
        self._where: dict[str, tuple[tuple[int, str, int], OrderKey]] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._where

    def add(self, job: Job, user: str, shape: int) -> None:
        """Enter a job under the user whose share counts (empty: nobody's); in place of an earlier one of its id."""
        self.remove(job.id)
        self.version += 1
        key = (job.priority, user, shape)
        self._where[job.id] = key, submission(job)
        insort(self._buckets.setdefault(key, []), job, key=submission)

    def remove(self, job_id: str) -> None:
        """Take a job out; without effect where it is not."""
        known = self._where.pop(job_id, None)
        if known is None:
            return
        self.version += 1
        key, place = known
        bucket = self._buckets[key]
        del bucket[bisect_left(bucket, place, key=submission)]
        if not bucket:
            del self._buckets[key]

    def walk(self, share: Callable[[str], float], first: Collection[str] = ()) -> "Walk":
        """Through the queue in order; `share` gives a user's share, jobs in `first` lead their priority."""
        return Walk(self._buckets, share, first)


class Walk:
    """An iterator over a queue that may pass over all that is left of a bucket.

    A user's share is asked for again after each of the user's jobs, since a start changes it.
    """

    def __init__(
        self,
        buckets: dict[tuple[int, str, int], list[Job]],
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
        self._last: tuple[int, str, int] | None = None

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

    def _rank(
        self, key: tuple[int, str, int], job: Job
    ) -> tuple[tuple[int, bool, float, OrderKey], tuple[int, str, int]]:
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
