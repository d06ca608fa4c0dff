"""Virtual clusters that reach what listens on a node's loopback."""

from __future__ import annotations

from collections.abc import Sequence

from portal.hardware.models import Node, Sku
from portal.teams.models import LoanLimit, VirtualCluster
from portal.teams.selectors.shares import vc_quotas


def vcs_reaching(*, nodes: Sequence[Node]) -> dict[int, list[str]]:
    """Names, by node row id, of those with the host network whose jobs may be placed there: all of them if it takes
    tasks without GPUs, else those that own GPUs of its SKU or may borrow them. A fixed number of queries; none without
    nodes."""
    if not nodes:
        return {}
    vcs = list(VirtualCluster.objects.filter(host_network=True).order_by("name"))
    own, skus = vc_quotas(vcs=vcs), dict(Sku.objects.values_list("pk", "name"))
    shut = set(LoanLimit.objects.filter(max_borrow=0).values_list("vc", "sku"))

    def reaches(vc: VirtualCluster, node: Node) -> bool:
        if node.cpu_tasks or node.sku_id is None:
            return node.cpu_tasks
        return bool(own[vc.pk].get(skus[node.sku_id])) or (vc.pk, node.sku_id) not in shut

    return {node.pk: [vc.name for vc in vcs if reaches(vc, node)] for node in nodes}
