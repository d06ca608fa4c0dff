"""Who comes first, and who is held back by whom."""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

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
    heap = [_turn(vc, queue, 0) for vc, queue in queues.items() if queue]
    heapify(heap)
    while heap:
        _, _, _, vc, number = heap[0]
        queue = queues[vc]
        yield queue[number]
        if number + 1 < len(queue):
            heapreplace(heap, _turn(vc, queue, number + 1))
        else:
            heappop(heap)


def _turn(vc: str, queue: list[Job], number: int) -> tuple[int, int, str, str, int]:
    job = queue[number]
    return (job.submitted_ms, job.order_id, job.id, vc, number)


class Line:
    """One virtual cluster's waiting jobs as a pass goes through them in order: who was passed, per chains.

    A job that waits holds back every later one that shares a chain with it; `held` are these chains.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self._priority: int | None = None
        self._passed: dict[frozenset[str], int] = {}
        self._higher: dict[frozenset[str], int] = {}

    def join(self, priority: int, chains: frozenset[str]) -> tuple[int, int]:
        """The next job in order waits. Answers how many ahead share a chain, and how many by priority."""
        if priority != self._priority:
            self._higher = self._passed.copy()
            self._priority = priority
        ahead = higher = 0
        for passed, count in self._passed.items():
            if passed & chains:
                ahead += count
                higher += self._higher.get(passed, 0)
        self.held |= chains
        self._passed[chains] = self._passed.get(chains, 0) + 1
        return ahead, higher
