"""The cluster as the validation of job files wants to know it."""

from __future__ import annotations

from portal.accounts.models import User
from portal.clusters.models import Node, VirtualCluster
from portal.clusters.selectors import vc_quotas, vcs_for_submit
from portal.jobs.spec import ClusterFacts, NodeShape


def cluster_facts(*, user: User, also: VirtualCluster | None = None) -> ClusterFacts:
    """The quotas of the virtual clusters into which the user may submit, and of ``also``, and the shapes of all nodes;
    equal nodes are one shape. A fixed number of queries, however large the cluster is."""
    vcs = {*vcs_for_submit(user), *([also] if also else [])}
    quotas = vc_quotas(vcs=vcs)
    return ClusterFacts(quotas={vc.name: quotas[vc.pk] for vc in vcs}, nodes=_shapes())


def _shapes() -> tuple[NodeShape, ...]:
    shapes: dict[tuple[str | None, int, int, int], int] = {}
    rows = Node.objects.order_by().values_list("sku__name", "slots", "cpu_milli", "memory_mb")
    for sku, slots, cpu_milli, memory in rows:
        key = (sku, len(slots), cpu_milli // 1000, memory)
        shapes[key] = shapes.get(key, 0) + 1
    return tuple(
        NodeShape(sku=sku, gpus=gpus, cpu=cpu, memory_mb=memory, count=count)
        for (sku, gpus, cpu, memory), count in shapes.items()
    )
