"""Placements in terms of rows, and why one may not be carried out."""

from __future__ import annotations

from dataclasses import dataclass

from portal.jobs.models import Job


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf cell in a placement: the GPU's row id, its virtual cell ("" when borrowed) and standing."""

    gpu_id: int
    virtual_cell: str
    standing: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A task's placement on a node."""

    task_id: int
    role: str
    index: int
    node_id: int
    cpu_milli: int
    memory_mb: int
    leaves: tuple[Leaf, ...]


class Overtaken(Exception):
    """The rows are no longer what the decision was based on; the next cycle decides again."""


class NoPortLeft(Exception):
    """A node's port range has too few free ports for a task of the job."""

    def __init__(self, node: str, wanted: int, job: Job) -> None:
        super().__init__(f"{node} has no {wanted} free ports left in its range")
        self.node, self.wanted, self.job = node, wanted, job
