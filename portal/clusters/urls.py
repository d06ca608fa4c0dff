"""Addresses of the cluster pages."""

from django.urls import path

from portal.clusters import views

urlpatterns = [
    path("cluster", views.cluster, name="cluster"),
    path("cluster/map", views.cluster_dots, name="cluster-dots"),
    path("cluster/nodes", views.node_list, name="nodes"),
    path("cluster/nodes/<name:name>", views.node, name="node"),
    path("cluster/nodes/<name:name>/intent", views.node_intent, name="node-intent"),
    path("cluster/nodes/<name:name>/topology", views.node_topology, name="node-topology"),
    path("virtual-clusters", views.vcs, name="vcs"),
    path("new-virtual-cluster", views.vc_new, name="vc-new"),
    path("virtual-clusters/<name:name>/remove", views.vc_end, name="vc-remove"),
    path("virtual-clusters/<name:vc>/secrets", views.secrets, name="vc-secrets"),
    path("virtual-clusters/<name:vc>/secrets/store", views.secret_store, name="vc-secret-store"),
    path("virtual-clusters/<name:vc>/secrets/<secret:secret>/forget", views.secret_forget, name="vc-secret-forget"),
    path("virtual-clusters/<name:vc>/secrets/registries", views.login_store, name="vc-login-store"),
    path(
        "virtual-clusters/<name:vc>/secrets/registries/<server:server>/forget",
        views.login_forget,
        name="vc-login-forget",
    ),
    path("virtual-clusters/<name:name>", views.virtual_cluster, name="vc"),
    path("virtual-clusters/<name:name>/rules", views.virtual_cluster_rules, name="vc-rules"),
    path("virtual-clusters/<name:name>/members", views.member_add, name="member-add"),
    path("virtual-clusters/<name:name>/members/<int:membership_id>/remove", views.member_remove, name="member-remove"),
    path("virtual-clusters/<name:name>/firm-rights", views.firm_right_give, name="firm-right-give"),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>/end", views.firm_right_take, name="firm-right-take"),
    path("profile/secrets", views.secrets, name="secrets"),
    path("profile/secrets/store", views.secret_store, name="secret-store"),
    path("profile/secrets/<secret:secret>/forget", views.secret_forget, name="secret-forget"),
    path("profile/secrets/registries", views.login_store, name="login-store"),
    path("profile/secrets/registries/<server:server>/forget", views.login_forget, name="login-forget"),
    path("users", views.users, name="users"),
    path("new-user", views.user_new, name="user-new"),
    path("users/import", views.users_import, name="users-import"),
    path("users/import/progress/<str:ticket>", views.users_import_progress, name="users-import-progress"),
    path("users/<person:username>", views.user_page, name="user"),
    path("users/<person:username>/password", views.user_password, name="user-password"),
    path("users/<person:username>/remove", views.user_end, name="user-remove"),
    path("groups", views.groups, name="groups"),
    path("new-group", views.group_new, name="group-new"),
    path("groups/<person:group>", views.group_page, name="group"),
    path("groups/<person:group>/members", views.group_member_add, name="group-member-add"),
    path(
        "groups/<person:group>/members/<person:username>/remove", views.group_member_remove, name="group-member-remove"
    ),
    path("groups/<person:group>/remove", views.group_end, name="group-remove"),
    path("storages", views.storages, name="storages"),
    path("new-storage", views.storage_new, name="storage-new"),
    path("storages/<name:name>", views.storage_page, name="storage"),
    path("storages/<name:name>/remove", views.storage_end, name="storage-remove"),
    path("images", views.images, name="images"),
    path("images/<int:rule_id>/remove", views.image_end, name="image-remove"),
    path("skus", views.skus, name="skus"),
]
