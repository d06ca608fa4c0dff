"""Addresses of the cluster pages."""

from django.urls import path

from portal.clusters.views.groups import group_end, group_member_add, group_member_remove, group_new, group_page, groups
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

urlpatterns = [
    path("login/oidc", oidc_start, name="oidc-start"),
    path("login/oidc/callback", oidc_callback, name="oidc-callback"),
    path("profile/oidc", oidc_tie, name="oidc-tie"),
    path("cluster", cluster, name="cluster"),
    path("cluster/map", cluster_dots, name="cluster-dots"),
    path("cluster/nodes", node_list, name="nodes"),
    path("new-node", node_new, name="node-new"),
    path("authority.crt", authority, name="authority"),
    path("join-tokens", join_tokens, name="join-tokens"),
    path("join-tokens/<int:token_id>/revoke", join_token_end, name="join-token-revoke"),
    path("cluster/nodes/<name:name>", node, name="node"),
    path("cluster/nodes/<name:name>/join", node_join, name="node-join"),
    path("cluster/nodes/<name:name>/accept", node_accepted, name="node-accept"),
    path("cluster/nodes/<name:name>/cpu-tasks", node_cpu_tasks, name="node-cpu-tasks"),
    path("cluster/nodes/<name:name>/intent", node_intent, name="node-intent"),
    path("cluster/nodes/<name:name>/put-back", node_back, name="node-put-back"),
    path("cluster/nodes/<name:name>/topology", node_topology, name="node-topology"),
    path("virtual-clusters", vcs, name="vcs"),
    path("new-virtual-cluster", vc_new, name="vc-new"),
    path("virtual-clusters/<name:name>/remove", vc_end, name="vc-remove"),
    path("virtual-clusters/<name:vc>/secrets", secrets, name="vc-secrets"),
    path("virtual-clusters/<name:vc>/secrets/store", secret_store, name="vc-secret-store"),
    path("virtual-clusters/<name:vc>/secrets/<secret:secret>/forget", secret_forget, name="vc-secret-forget"),
    path("virtual-clusters/<name:vc>/secrets/registries", login_store, name="vc-login-store"),
    path(
        "virtual-clusters/<name:vc>/secrets/registries/<server:server>/forget",
        login_forget,
        name="vc-login-forget",
    ),
    path("virtual-clusters/<name:name>", virtual_cluster, name="vc"),
    path("virtual-clusters/<name:name>/rules", virtual_cluster_rules, name="vc-rules"),
    path("virtual-clusters/<name:name>/members", member_add, name="member-add"),
    path("virtual-clusters/<name:name>/members/<int:membership_id>/remove", member_remove, name="member-remove"),
    path("virtual-clusters/<name:name>/firm-rights", firm_right_give, name="firm-right-give"),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>/end", firm_right_take, name="firm-right-take"),
    path("profile/secrets", secrets, name="secrets"),
    path("profile/secrets/store", secret_store, name="secret-store"),
    path("profile/secrets/<secret:secret>/forget", secret_forget, name="secret-forget"),
    path("profile/secrets/registries", login_store, name="login-store"),
    path("profile/secrets/registries/<server:server>/forget", login_forget, name="login-forget"),
    path("users", users, name="users"),
    path("new-user", user_new, name="user-new"),
    path("users/import", users_import, name="users-import"),
    path("users/import/progress/<str:ticket>", users_import_progress, name="users-import-progress"),
    path("users/<person:username>", user_page, name="user"),
    path("users/<person:username>/password", user_password, name="user-password"),
    path("users/<person:username>/remove", user_end, name="user-remove"),
    path("names/<str:kind>", names, name="names"),
    path("groups", groups, name="groups"),
    path("new-group", group_new, name="group-new"),
    path("groups/<person:group>", group_page, name="group"),
    path("groups/<person:group>/members", group_member_add, name="group-member-add"),
    path("groups/<person:group>/members/<person:username>/remove", group_member_remove, name="group-member-remove"),
    path("groups/<person:group>/remove", group_end, name="group-remove"),
    path("storages", storages, name="storages"),
    path("new-storage", storage_new, name="storage-new"),
    path("storages/<name:name>", storage_page, name="storage"),
    path("storages/<name:name>/servers/<name:node>", storage_server, name="storage-tie"),
    path("storages/<name:name>/remove", storage_end, name="storage-remove"),
    path("images", images, name="images"),
    path("images/<int:rule_id>/remove", image_end, name="image-remove"),
    path("skus", skus, name="skus"),
]
