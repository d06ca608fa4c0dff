"""The cluster as the validation of job files wants to know it."""

from __future__ import annotations

from django.db.models import Count, Q

from portal.accounts.models import User
from portal.clusters.models import Node
from portal.clusters.selectors import vc_quotas, vcs_for_submit
from portal.jobs.spec import ClusterFacts, NodeShape


def cluster_facts(*, user: User) -> ClusterFacts:
    """The quotas of the virtual clusters into which the user may submit, and the shapes of all nodes; equal nodes
    are one shape. Four queries, however large the cluster is."""
    vcs = list(vcs_for_submit(user))
    quotas = vc_quotas(vcs=vcs)
    return ClusterFacts(quotas={vc.name: quotas[vc.pk] for vc in vcs}, nodes=_shapes())


def _shapes() -> tuple[NodeShape, ...]:
    one = Node.objects.annotate(there=Count("gpus", filter=Q(gpus__present=True))).order_by()
    shapes: dict[tuple[str | None, int, int, int], int] = {}
    for sku, gpus, cpu_milli, memory in one.values_list("sku__name", "there", "cpu_milli", "memory_mb"):
        key = (sku, gpus, cpu_milli // 1000, memory)
        shapes[key] = shapes.get(key, 0) + 1
    return tuple(
        NodeShape(sku=sku, gpus=gpus, cpu=cpu, memory_mb=memory, count=count)
        for (sku, gpus, cpu, memory), count in shapes.items()
    )
