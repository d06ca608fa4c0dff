"""Reading virtual clusters (VCs) and nodes: what somebody may see of them, what they are made of, how full they are."""

from portal.clusters.selectors.details import (
    Kind,
    Line,
    cell_types,
    change_lines,
    lines_named,
    quota_changes,
    vc_detail,
    vc_events,
    vc_members,
)
from portal.clusters.selectors.engine import ClusterRows, cluster_read, rules_read
from portal.clusters.selectors.fairness import UserShare, user_shares
from portal.clusters.selectors.hardware import GivenUp
from portal.clusters.selectors.loads import GpuPlace, Holder, NodeLoad, node_loads
from portal.clusters.selectors.quotas import quota_lines
from portal.clusters.selectors.rights import firm_rights, highest_class
from portal.clusters.selectors.secrets import Login, registry_logins, secret_values, secrets_of
from portal.clusters.selectors.shares import SkuShare, SkuTotal, sku_totals, vc_quotas, vc_shares
from portal.clusters.selectors.storages import storage_restrict
from portal.clusters.selectors.visible import (
    JobSight,
    cluster_right,
    job_sight,
    jobs_seen,
    may,
    memberships_of,
    node_get,
    node_restrict,
    node_with_right,
    vc_get,
    vc_make_right,
    vc_restrict,
    vc_roles,
    vc_with_right,
    vcs_for_submit,
    vcs_of,
)

__all__ = [
    "vc_make_right",
    "Login",
    "registry_logins",
    "secret_values",
    "secrets_of",
    "ClusterRows",
    "GivenUp",
    "GpuPlace",
    "Holder",
    "JobSight",
    "Kind",
    "Line",
    "NodeLoad",
    "SkuShare",
    "SkuTotal",
    "UserShare",
    "cell_types",
    "change_lines",
    "cluster_read",
    "cluster_right",
    "firm_rights",
    "highest_class",
    "job_sight",
    "jobs_seen",
    "lines_named",
    "may",
    "memberships_of",
    "node_get",
    "node_loads",
    "node_restrict",
    "node_with_right",
    "quota_changes",
    "quota_lines",
    "rules_read",
    "sku_totals",
    "storage_restrict",
    "user_shares",
    "vc_detail",
    "vc_events",
    "vc_get",
    "vc_members",
    "vc_quotas",
    "vc_restrict",
    "vc_roles",
    "vc_shares",
    "vc_with_right",
    "vcs_for_submit",
    "vcs_of",
]
