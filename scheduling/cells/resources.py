"""Amounts and demands: what one task needs of a node, and what a node has left for it."""

from dataclasses import dataclass

from scheduling.cells.cell_index import CellIndex
from scheduling.model.job import Job, TaskRef

UNLIMITED = 1 << 60
"""More CPU or memory than any node has."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Equal tasks of a job that look for nodes.

    `cell_type` is the type of leaf cell the tasks take; for tasks without GPUs it is empty and `node_sku`
    may name the nodes. A `modest` task leaves a node's idle GPUs their reserve of CPU and memory.
    """

    gpus: int
    cpu_milli: int
    memory_mb: int
    cell_type: str
    node_sku: str | None
    modest: bool
    tasks: tuple[TaskRef, ...]

    @property
    def count(self) -> int:
        """Number of equal tasks."""
        return len(self.tasks)

    def part(self, tasks: tuple[TaskRef, ...]) -> "Demand":
        """The same demand for some of its tasks."""
        return Demand(self.gpus, self.cpu_milli, self.memory_mb, self.cell_type, self.node_sku, self.modest, tasks)

    def modestly(self) -> "Demand":
        """The same for a borrower, who leaves idle GPUs their reserve."""
        if self.modest:
            return self
        return Demand(self.gpus, self.cpu_milli, self.memory_mb, self.cell_type, self.node_sku, True, self.tasks)


@dataclass(frozen=True, slots=True)
class FreeResources:
    """What a node has left: idle GPUs, CPU (milli-cores), memory (MB), and its reserve per idle GPU."""

    gpus: int
    cpu_milli: int
    memory_mb: int
    reserve_cpu_milli: int
    reserve_memory_mb: int

    def capacity(self, demand: Demand, most: int) -> int:
        """How many of the demand's equal tasks fit here, at most `most`."""
        count = most
        if demand.gpus:
            count = min(count, self.gpus // demand.gpus)
        keep_cpu, keep_memory = (self.reserve_cpu_milli, self.reserve_memory_mb) if demand.modest else (0, 0)
        count = _fitting(count, self.cpu_milli, demand.cpu_milli, keep_cpu, self.gpus, demand.gpus)
        return _fitting(count, self.memory_mb, demand.memory_mb, keep_memory, self.gpus, demand.gpus)

    def less(self, demand: Demand, count: int) -> "FreeResources":
        """What is left when `count` tasks of the demand have come."""
        return FreeResources(
            self.gpus - count * demand.gpus,
            self.cpu_milli - count * demand.cpu_milli,
            self.memory_mb - count * demand.memory_mb,
            self.reserve_cpu_milli,
            self.reserve_memory_mb,
        )


def _fitting(count: int, free: int, each: int, reserve: int, idle_gpus: int, gpus_each: int) -> int:
    """How many of `count` tasks fit `free`, when each may use up no more reserve than its own GPUs'."""
    if count > 0 and each > 0:
        count = min(count, max(0, free) // each)
        beyond_share = each - reserve * gpus_each
        if beyond_share > 0:
            count = min(count, max(0, free - reserve * idle_gpus) // beyond_share)
    return max(0, count)


def nodes_for(layout: CellIndex, demand: Demand) -> int:
    """Nodes (a mask) of the kind that the demand names; for tasks without GPUs those alone that take such."""
    if demand.gpus:
        return layout.nodes_of_type.get(demand.cell_type, 0)
    return layout.cpu_nodes & nodes_of_kind(layout, demand)


def nodes_of_kind(layout: CellIndex, demand: Demand) -> int:
    """Nodes (a mask) whose kind is right for tasks without GPUs, also those that take none."""
    return layout.all_nodes() if demand.node_sku is None else layout.nodes_of_sku.get(demand.node_sku, 0)


def demands(job: Job, sku: str) -> tuple[Demand, ...]:
    """The job's waiting tasks, equal ones together, largest first; roles without a SKU take `sku`."""
    grouped: dict[tuple[int, int, int, str, str | None], list[TaskRef]] = {}
    roles = {role.name: role for role in job.roles}
    for task in job.wanted:
        role = roles[task.role]
        cell_type = (role.sku or sku) if role.gpus else ""
        node_sku = None if role.gpus else role.sku
        shape = (role.gpus, role.cpu_milli, role.memory_mb, cell_type, node_sku)
        grouped.setdefault(shape, []).append(task)
    found = [
        Demand(*shape, modest=job.opportunistic or not shape[0], tasks=tuple(tasks)) for shape, tasks in grouped.items()
    ]
    found.sort(key=lambda demand: (-demand.gpus, -demand.cpu_milli, -demand.memory_mb, demand.tasks))
    return tuple(found)
