"""Pages of the cluster, of virtual clusters and of people."""

from portal.clusters.views.groups import (
    group_end,
    group_member_add,
    group_member_remove,
    group_new,
    group_page,
    groups,
)
from portal.clusters.views.join_tokens import authority, join_token_end, join_tokens
from portal.clusters.views.joining import node_join, node_new
from portal.clusters.views.map import cluster, cluster_dots
from portal.clusters.views.means import image_end, images, skus
from portal.clusters.views.names import names
from portal.clusters.views.nodes import (
    node,
    node_accepted,
    node_back,
    node_cpu_tasks,
    node_intent,
    node_list,
    node_topology,
)
from portal.clusters.views.people import user_end, user_new, user_page, user_password, users
from portal.clusters.views.people_import import users_import, users_import_progress
from portal.clusters.views.secrets import login_forget, login_store, secret_forget, secret_store, secrets
from portal.clusters.views.sign_in import oidc_callback, oidc_start, oidc_tie
from portal.clusters.views.storages import storage_end, storage_new, storage_page, storage_server, storages
from portal.clusters.views.teams import (
    firm_right_give,
    firm_right_take,
    member_add,
    member_remove,
    virtual_cluster,
    virtual_cluster_rules,
)
from portal.clusters.views.vcs import vc_end, vc_new, vcs

__all__ = [
    "authority",
    "names",
    "node_accepted",
    "node_cpu_tasks",
    "node_back",
    "oidc_callback",
    "oidc_start",
    "oidc_tie",
    "join_token_end",
    "join_tokens",
    "image_end",
    "images",
    "skus",
    "storage_end",
    "storage_new",
    "storage_page",
    "storage_server",
    "storages",
    "login_forget",
    "login_store",
    "secret_forget",
    "secret_store",
    "secrets",
    "vc_end",
    "vc_new",
    "vcs",
    "cluster",
    "cluster_dots",
    "firm_right_give",
    "firm_right_take",
    "group_end",
    "group_member_add",
    "group_member_remove",
    "group_new",
    "group_page",
    "groups",
    "member_add",
    "member_remove",
    "node",
    "node_intent",
    "node_join",
    "node_new",
    "node_list",
    "node_topology",
    "user_end",
    "user_new",
    "user_page",
    "user_password",
    "users",
    "users_import",
    "users_import_progress",
    "virtual_cluster",
    "virtual_cluster_rules",
]
