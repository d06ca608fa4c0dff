"""Pages of the cluster and of virtual clusters."""

from portal.clusters.views.map import cluster, node_intent, node_topology
from portal.clusters.views.teams import (
    firm_right_give,
    firm_right_take,
    member_add,
    member_remove,
    virtual_cluster,
    virtual_cluster_rules,
)

__all__ = [
    "cluster",
    "firm_right_give",
    "firm_right_take",
    "member_add",
    "member_remove",
    "node_intent",
    "node_topology",
    "virtual_cluster",
    "virtual_cluster_rules",
]
