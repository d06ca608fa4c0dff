"""Reading virtual clusters (VCs) and nodes: what somebody may see of them, what they are made of, how full they are."""

from portal.clusters.selectors.engine import ClusterRows, GivenUp, cluster_read, rules_read
from portal.clusters.selectors.loads import GpuPlace, Holder, NodeLoad, node_loads
from portal.clusters.selectors.quotas import quota_lines
from portal.clusters.selectors.shares import SkuShare, SkuTotal, sku_totals, vc_quotas, vc_shares
from portal.clusters.selectors.visible import (
    JobSight,
    job_sight,
    memberships_of,
    node_get,
    node_restrict,
    node_with_right,
    vc_get,
    vc_restrict,
    vc_roles,
    vcs_for_submit,
    vcs_of,
)

__all__ = [
    "ClusterRows",
    "GivenUp",
    "GpuPlace",
    "Holder",
    "JobSight",
    "NodeLoad",
    "SkuShare",
    "SkuTotal",
    "cluster_read",
    "job_sight",
    "memberships_of",
    "node_get",
    "node_loads",
    "node_restrict",
    "node_with_right",
    "quota_lines",
    "rules_read",
    "sku_totals",
    "vc_get",
    "vc_quotas",
    "vc_restrict",
    "vc_roles",
    "vc_shares",
    "vcs_for_submit",
    "vcs_of",
]
