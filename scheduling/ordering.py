"""Who comes first, and who is held back by whom."""

from collections.abc import Iterator
from heapq import heappop, heappush

from scheduling.cells import Cluster
from scheduling.jobs import Job

OrderKey = tuple[int, int, int, str]

CPU_CHAIN = ""
"""The chain of jobs without GPUs."""


def order_key(job: Job) -> OrderKey:
    """Place in a virtual cluster's queue: 1. priority, 2. submission, 3. order id, 4. id."""
    return (-job.priority, job.submitted_ms, job.order_id, job.id)


def candidates(cluster: Cluster, job: Job) -> list[str]:
    """SKUs to try, by name, for the roles that name none; one empty name when every role names its own.

    A guaranteed job may use what its virtual cluster owns, an opportunistic one all there is.
    """
    if not any(role.gpus and role.sku is None for role in job.roles):
        return [""]
    if job.opportunistic:
        return sorted(set(cluster.leaf_types.values()))
    return sorted(
        {line.cell_type for vc in cluster.virtual_clusters if vc.id == job.vc for line in vc.quota if line.count}
    )


def chains(cluster: Cluster, job: Job) -> frozenset[str]:
    """The SKU chains in whose order the job stands; jobs without GPUs have one of their own."""
    if not any(role.gpus for role in job.roles):
        return frozenset([CPU_CHAIN])
    named = {role.sku for role in job.roles if role.gpus and role.sku is not None}
    return frozenset(named | set(candidates(cluster, job)) - {""})


def interleaved(queues: dict[str, list[Job]]) -> Iterator[Job]:
    """All queues' jobs, each queue in its own order; between queues the head that was submitted first."""
    heap: list[tuple[int, int, str, str, int]] = []
    for vc, queue in queues.items():
        _push(heap, vc, queue, 0)
    while heap:
        _, _, _, vc, number = heappop(heap)
        yield queues[vc][number]
        _push(heap, vc, queues[vc], number + 1)


def _push(heap: list[tuple[int, int, str, str, int]], vc: str, queue: list[Job], number: int) -> None:
    if number < len(queue):
        job = queue[number]
        heappush(heap, (job.submitted_ms, job.order_id, job.id, vc, number))


class Line:
    """One virtual cluster's waiting jobs as a pass goes through them in order: who was passed, per chains.

    A job that waits holds back every later one that shares a chain with it.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.waiting: dict[frozenset[str], int] = {}
        self.higher: dict[frozenset[str], int] = {}
        self.priority: int | None = None

    def ahead(self, wanted: frozenset[str]) -> int:
        """Waiting jobs passed so far that share a chain."""
        return sum(count for held, count in self.waiting.items() if held & wanted)

    def ahead_by_priority(self, job: Job, wanted: frozenset[str]) -> int:
        """Those of them that have a higher priority than the job, the next in order."""
        counts = self.higher if job.priority == self.priority else self.waiting
        return sum(count for held, count in counts.items() if held & wanted)

    def add(self, job: Job, wanted: frozenset[str]) -> None:
        """The job waits; it comes after all that were added before."""
        if job.priority != self.priority:
            self.higher = self.waiting.copy()
            self.priority = job.priority
        self.held |= wanted
        self.waiting[wanted] = self.waiting.get(wanted, 0) + 1
