"""Addresses of the cluster pages."""

from django.urls import path

from portal.clusters import views

urlpatterns = [
    path("cluster", views.cluster, name="cluster"),
    path("cluster/nodes/<name:name>/intent", views.node_intent, name="node-intent"),
    path("cluster/nodes/<name:name>/topology", views.node_topology, name="node-topology"),
    path("virtual-clusters/<name:name>", views.virtual_cluster, name="vc"),
    path("virtual-clusters/<name:name>/rules", views.virtual_cluster_rules, name="vc-rules"),
    path("virtual-clusters/<name:name>/members", views.member_add, name="member-add"),
    path("virtual-clusters/<name:name>/members/<int:membership_id>/remove", views.member_remove, name="member-remove"),
    path("virtual-clusters/<name:name>/firm-rights", views.firm_right_give, name="firm-right-give"),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>/end", views.firm_right_take, name="firm-right-take"),
]
