"""Writing nodes and virtual clusters: joining, reports, topology, silence, intents, rules, quotas."""

from portal.clusters.services.nodes import node_add, node_event, node_set_intent
from portal.clusters.services.quotas import (
    Wish,
    lines_resolve,
    quota_change_check,
    quota_change_create,
    quota_change_withdraw,
    quota_changes_apply,
    quota_set,
    quotas_set,
)
from portal.clusters.services.reports import node_report
from portal.clusters.services.silence import lane_pulse, nodes_lose
from portal.clusters.services.teams import member_set, vc_create
from portal.clusters.services.topology import topology_take

__all__ = [
    "Wish",
    "lane_pulse",
    "lines_resolve",
    "member_set",
    "node_add",
    "node_event",
    "node_report",
    "node_set_intent",
    "nodes_lose",
    "quota_change_check",
    "quota_change_create",
    "quota_change_withdraw",
    "quota_changes_apply",
    "quota_set",
    "quotas_set",
    "topology_take",
    "vc_create",
]
