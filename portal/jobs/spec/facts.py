"""What the services tell the validation about the cluster: plain data, no query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeShape:
    """`count` equal nodes. `sku` None: nodes without GPUs. CPU in cores, memory in MB."""

    sku: str | None
    gpus: int
    cpu: int
    memory_mb: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster as one user may use it.

    `quotas`: for each virtual cluster the user may submit to, its GPUs by SKU. `nodes`: every node of the
    cluster, sick or cordoned ones included, since they come back.
    """

    quotas: Mapping[str, Mapping[str, int]]
    nodes: tuple[NodeShape, ...]

    @property
    def skus(self) -> frozenset[str]:
        """Every SKU that a node has or a quota names."""
        owned = {sku for quota in self.quotas.values() for sku in quota}
        return frozenset(owned | {node.sku for node in self.nodes if node.sku is not None})
