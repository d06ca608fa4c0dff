"""Writing nodes and virtual clusters: joining, reports, topology, silence, intents, rules, quotas."""

from portal.clusters.services.acceptance import node_accept, node_set_cpu_tasks
from portal.clusters.services.configuration import configuration_export, configuration_import, configuration_read
from portal.clusters.services.data_folder import (
    FolderApart,
    FolderInUse,
    data_folder_alone,
    data_folder_fault,
    data_folder_hold,
    data_folder_settle,
    data_folder_take,
)
from portal.clusters.services.fences import fences_lift, node_put_back
from portal.clusters.services.images import image_rule_add, image_rule_remove
from portal.clusters.services.join_tokens import (
    NewJoinToken,
    join_line,
    join_line_in_container,
    join_token_create,
    join_token_revoke,
    node_join,
)
from portal.clusters.services.joining import (
    Joining,
    agent_environment,
    agent_lines,
    node_key_lost,
    node_new_key,
    node_register,
    portal_authority,
    redis_authority,
    redis_is_out_of_reach,
)
from portal.clusters.services.nodes import node_add, node_event, node_set_intent
from portal.clusters.services.outages import node_start_failed, node_trial_passed, nodes_try
from portal.clusters.services.people import (
    account_create,
    account_faults,
    group_change,
    group_create,
    group_remove,
    group_told,
    vcs_named,
)
from portal.clusters.services.people_import import Row as ImportRow
from portal.clusters.services.people_import import people_import
from portal.clusters.services.prices import sku_set_price, sku_set_share
from portal.clusters.services.quotas import (
    Wish,
    lines_resolve,
    quota_change_create,
    quota_change_faults,
    quota_change_withdraw,
    quota_changes_apply,
    quota_set,
    quotas_set,
    quotas_set_faults,
)
from portal.clusters.services.redis_accounts import redis_accounts_apply, redis_address
from portal.clusters.services.reports import node_report, node_report_late, node_report_unread
from portal.clusters.services.retiring import node_retire
from portal.clusters.services.rules import (
    CAPS,
    Limit,
    firm_right_end,
    firm_right_set,
    loan_limits_set,
    vc_set_all_rules,
    vc_set_rules,
)
from portal.clusters.services.secrets import secret_delete, secret_set
from portal.clusters.services.silence import lane_pulse, node_lose, nodes_lose
from portal.clusters.services.storages import (
    storage_change,
    storage_change_faults,
    storage_create,
    storage_faults,
    storage_remove,
    storage_told,
)
from portal.clusters.services.teams import (
    member_set,
    membership_end,
    membership_set,
    vc_create,
    vc_remove,
    vc_remove_refusal,
)
from portal.clusters.services.ties import storage_tie, tie_proven
from portal.clusters.services.topology import topology_take
from portal.clusters.services.upkeep import backup_note, restore_note
from portal.clusters.services.versions import cluster_version

__all__ = [
    "node_accept",
    "FolderApart",
    "FolderInUse",
    "data_folder_alone",
    "data_folder_fault",
    "data_folder_hold",
    "data_folder_settle",
    "data_folder_take",
    "NewJoinToken",
    "join_line",
    "join_line_in_container",
    "join_token_create",
    "join_token_revoke",
    "node_join",
    "node_key_lost",
    "node_lose",
    "backup_note",
    "restore_note",
    "image_rule_add",
    "image_rule_remove",
    "storage_change",
    "storage_change_faults",
    "storage_create",
    "storage_faults",
    "storage_remove",
    "storage_tie",
    "storage_told",
    "ImportRow",
    "account_create",
    "account_faults",
    "group_change",
    "group_create",
    "group_remove",
    "group_told",
    "people_import",
    "vcs_named",
    "CAPS",
    "Limit",
    "Wish",
    "cluster_version",
    "configuration_export",
    "configuration_import",
    "configuration_read",
    "firm_right_end",
    "firm_right_set",
    "lane_pulse",
    "lines_resolve",
    "loan_limits_set",
    "member_set",
    "membership_end",
    "membership_set",
    "Joining",
    "agent_environment",
    "agent_lines",
    "node_add",
    "node_new_key",
    "node_register",
    "redis_accounts_apply",
    "redis_address",
    "portal_authority",
    "redis_authority",
    "redis_is_out_of_reach",
    "node_event",
    "fences_lift",
    "node_put_back",
    "node_start_failed",
    "node_trial_passed",
    "nodes_try",
    "node_report",
    "node_retire",
    "node_report_late",
    "node_report_unread",
    "node_set_cpu_tasks",
    "node_set_intent",
    "nodes_lose",
    "quota_change_create",
    "quota_change_faults",
    "quota_change_withdraw",
    "quota_changes_apply",
    "quota_set",
    "quotas_set",
    "quotas_set_faults",
    "secret_delete",
    "secret_set",
    "sku_set_price",
    "sku_set_share",
    "tie_proven",
    "topology_take",
    "vc_create",
    "vc_remove",
    "vc_remove_refusal",
    "vc_set_all_rules",
    "vc_set_rules",
]
