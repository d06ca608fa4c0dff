"""Cluster facts that services hand to the validation: plain data, no queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import scheduling
from scheduling.cycle.context import ClusterContext

_asking = Lock()
"""Serializes questions: the context's books change while it answers."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A group of `count` identical nodes. `sku` None: without GPUs. CPU in cores, memory in MB. `cpu_tasks`: tasks
    without GPUs may run there."""

    sku: str | None
    gpus: int
    cpu: int
    memory_mb: int
    cpu_tasks: bool = True
    count: int = 1


@dataclass(frozen=True)
class ClusterFacts:
    """The cluster as one user may use it.

    `vcs`: virtual clusters that the user may submit to. `context`: the cluster as the scheduler has it, including sick
    or cordoned nodes, since they come back.
    """

    vcs: tuple[str, ...]
    context: ClusterContext

    def refusals(self, job: scheduling.Job) -> tuple[scheduling.Refusal, ...]:
        """Why the scheduler would never start the job, even with nothing else running and all nodes healthy."""
        with _asking:
            return self.context.refusals(job)

    @cached_property
    def quotas(self) -> Mapping[str, Mapping[str, int]]:
        """GPUs by SKU for each of the user's virtual clusters, without those reserved for it."""
        layout, owned = self.context.layout, {vc: Counter[str]() for vc in self.vcs}
        for quota in layout.quotas:
            if quota.vc in owned and not quota.pinned:
                owned[quota.vc][layout.leaf_type[quota.chain]] += quota.leaves
        return owned

    @cached_property
    def nodes(self) -> tuple[NodeShape, ...]:
        """The nodes, grouped by shape."""
        shapes = Counter(
            (node.cell_type or None, len(node.leaves), node.cpu_milli // 1000, node.memory_mb, node.takes_cpu_tasks)
            for node in self.context.layout.nodes
        )
        return tuple(NodeShape(*shape, count=count) for shape, count in shapes.items())

    @property
    def skus(self) -> frozenset[str]:
        """Every SKU that a node has or a quota names."""
        owned = {sku for quota in self.quotas.values() for sku in quota}
        return frozenset(owned | {node.sku for node in self.nodes if node.sku is not None})
