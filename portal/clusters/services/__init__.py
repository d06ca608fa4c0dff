"""Writing nodes and virtual clusters: joining, reports, topology, silence, intents, rules, quotas."""

from portal.clusters.services.nodes import node_add, node_event, node_set_intent
from portal.clusters.services.reports import node_report
from portal.clusters.services.silence import lane_pulse, nodes_lose
from portal.clusters.services.teams import member_set, quota_set, vc_create
from portal.clusters.services.topology import topology_take

__all__ = [
    "lane_pulse",
    "member_set",
    "node_add",
    "node_event",
    "node_report",
    "node_set_intent",
    "nodes_lose",
    "quota_set",
    "topology_take",
    "vc_create",
]
