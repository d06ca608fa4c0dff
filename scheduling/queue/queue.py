"""Who comes first inside a virtual cluster: priority, then who was given a place by hand, then the user with the
smaller share, then submission.

Jobs that wait and guaranteed jobs that run on loan stand in one queue: quota is granted strictly in its order.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from scheduling.cells.request import JobShape
from scheduling.model.job import Job

OrderKey = tuple[int, int, str]

Entry = tuple[int, int, str, Job, JobShape]
"""A job and its shape behind its order key."""


def submission(job: Job) -> OrderKey:
    """Order among equals: 1. submission, 2. order id, 3. id."""
    return (job.submitted_ms, job.order_id, job.id)


Rank = tuple[int, OrderKey]
"""The place of a job where no shares count."""


def rank(job: Job) -> Rank:
    """Before whom the job comes: priority, then submission."""
    return -job.priority, submission(job)


class Bucket(NamedTuple):
    """Jobs of equal priority and user that all may want a loan or do not, in the order of submission; and how many of
    them there are of each shape (by number)."""

    priority: int
    user: str
    wants_loan: bool
    entries: list[Entry]
    shapes: dict[int, int]

    def following(self, entries: Iterator[Entry], skipped: set[int]) -> Entry | None:
        """The next of these entries whose shape is not passed."""
        if self.shapes.keys() <= skipped:
            return None
        return next((entry for entry in entries if entry[4].number not in skipped), None)


class Queue:
    """The jobs of one virtual cluster.

    `version` counts all changes, `front` those of jobs that are not blocked (`block_behind`); `wanting_loan` is the
    number of jobs that may want a loan.
    """

    def __init__(self) -> None:
        self.version = self.front = self.wanting_loan = 0
        self._levels: dict[int, dict[tuple[str, bool], Bucket]] = {}
        self._where: dict[str, tuple[Bucket, Entry]] = {}
        self._by_hand: set[str] = set()
        self._blocked_behind: tuple[Rank, frozenset[str]] | None = None

    def add(self, job: Job, user: str, shape: JobShape, *, wants_loan: bool = True) -> None:
        """Enter a job under the user whose share counts (empty: nobody's); in place of an earlier one of its id."""
        self.remove(job.id)
        level, key = self._levels.setdefault(job.priority, {}), (user, wants_loan)
        bucket = level.get(key)
        if bucket is None:
            bucket = level[key] = Bucket(job.priority, user, wants_loan, [], {})
        entry = (*submission(job), job, shape)
        insort(bucket.entries, entry)
        bucket.shapes[shape.number] = bucket.shapes.get(shape.number, 0) + 1
        self._where[job.id] = bucket, entry
        if job.led:
            self._by_hand.add(job.id)
        self.wanting_loan += wants_loan
        self._changed(bucket, entry)

    def remove(self, job_id: str) -> None:
        """Take a job out; without effect where it is not."""
        known = self._where.pop(job_id, None)
        if known is None:
            return
        bucket, entry = known
        self._by_hand.discard(job_id)
        self.wanting_loan -= bucket.wants_loan
        del bucket.entries[bisect_left(bucket.entries, entry[:3])]
        bucket.shapes[entry[4].number] -= 1
        if not bucket.shapes[entry[4].number]:
            del bucket.shapes[entry[4].number]
        if not bucket.entries:
            level = self._levels[bucket.priority]
            del level[bucket.user, bucket.wants_loan]
            if not level:
                del self._levels[bucket.priority]
        self._changed(bucket, entry)

    def __len__(self) -> int:
        return len(self._where)

    def block_behind(self, behind: tuple[Rank, frozenset[str]] | None) -> None:
        """Whoever comes behind this place and stands in these chains only is passed over, and changes no `front`."""
        self._blocked_behind = behind

    def _changed(self, bucket: Bucket, entry: Entry) -> None:
        self.version += 1
        held, chains = self._blocked_behind, entry[4].chains
        self.front += (
            held is None
            or (-bucket.priority, entry[:3]) <= held[0]
            or not chains
            or not chains <= held[1]
            or entry[3].led
        )

    def walk(self, share: Callable[[str], float], first: Collection[str] = (), *, wanting_loan: bool = False) -> "Walk":
        """Through the queue in order; `share` gives a user's share. Those that were given a place by hand lead their
        priority, then jobs in `first`, in the order given, but for those behind an earlier one of their own user.

        `wanting_loan`: only those that may want one.
        """
        leading: dict[int, list[tuple[Bucket, Entry]]] = {}
        by_hand = sorted(self._by_hand, key=lambda name: self._where[name][1][:3])
        kept = [
            name for name in first if name in self._where and name not in self._by_hand and not self._overtaken(name)
        ]
        for bucket, entry in [self._where[name] for name in [*by_hand, *kept]]:
            if bucket.wants_loan or not wanting_loan:
                leading.setdefault(bucket.priority, []).append((bucket, entry))
        levels: list[list[Bucket]] = []
        for priority in sorted(self._levels, reverse=True):
            buckets = [one for one in self._levels[priority].values() if one.wants_loan or not wanting_loan]
            levels += _led(buckets, leading[priority]) if priority in leading else [buckets]
        return Walk(levels, share, frozenset(kept))

    def _overtaken(self, name: str) -> bool:
        """Whether an earlier job of its user and priority wants a chain that it wants, as one does that lost its place
        on a node: cells are kept against the shares of others, not against that."""
        bucket, entry = self._where[name]
        level, mine, chains = self._levels[bucket.priority], entry[3], entry[4].chains
        for wants_loan in (False, True):
            alike = level.get((bucket.user, wants_loan))
            for one in alike.entries[: bisect_left(alike.entries, entry[:3])] if alike else ():
                job = one[3]
                if job.user == mine.user and not (job.paused or job.after) and not chains.isdisjoint(one[4].chains):
                    return True
        return False


def _led(buckets: list[Bucket], leading: list[tuple[Bucket, Entry]]) -> list[list[Bucket]]:
    """Those that lead their priority, one after the other, then the others of it."""
    ahead = {entry[2] for _, entry in leading}
    rest = [one._replace(entries=[entry for entry in one.entries if entry[2] not in ahead]) for one in buckets]
    return [*([one._replace(entries=[entry])] for one, entry in leading), [one for one in rest if one.entries]]


class Walk:
    """Over a queue in order: each job, its shape and its user's share. Shapes (by number) that are `skipped` on the way
    are left out from there on. `kept` are the jobs that come first since cells are kept for them.

    A user's share is asked for again after each of the user's jobs, since a start changes it.
    """

    def __init__(self, levels: list[list[Bucket]], share: Callable[[str], float], kept: frozenset[str]) -> None:
        self.skipped: set[int] = set()
        self.kept = kept
        self._levels = levels
        self._share = share

    def __iter__(self) -> Iterator[tuple[Job, JobShape, float]]:
        ask, skipped = self._share, self.skipped
        for buckets in self._levels:
            if len(buckets) == 1:
                yield from self._one_after_the_other(buckets[0])
                continue
            users = [one.user for one in buckets]
            rest = [iter(one.entries) for one in buckets]
            heap = [(ask(user), next(rest[number]), number) for number, user in enumerate(users)]
            heapify(heap)
            while heap:
                share, entry, number = heap[0]
                fresh = ask(users[number])
                if fresh != share:
                    heapreplace(heap, (fresh, entry, number))
                    continue
                following = buckets[number].following(rest[number], skipped) if skipped else next(rest[number], None)
                if following is None:
                    heappop(heap)
                else:
                    heapreplace(heap, (share, following, number))
                if entry[4].number not in skipped:
                    yield entry[3], entry[4], share

    def _one_after_the_other(self, bucket: Bucket) -> Iterator[tuple[Job, JobShape, float]]:
        """The same where no share decides."""
        ask, skipped, entries = self._share, self.skipped, iter(bucket.entries)
        while (entry := bucket.following(entries, skipped) if skipped else next(entries, None)) is not None:
            yield entry[3], entry[4], ask(bucket.user)


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
        if len(heap) == 1:
            yield from walks[vc]
            return
        following = next(walks[vc], None)
        if following is None:
            heappop(heap)
        else:
            heapreplace(heap, (submission(following), vc, following))
