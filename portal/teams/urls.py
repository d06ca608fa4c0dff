"""URLs of its pages."""

from django.urls import path

from portal.teams.views.teams import (
    firm_right_give,
    firm_right_take,
    member_add,
    member_remove,
    virtual_cluster,
    virtual_cluster_rules,
)
from portal.teams.views.vcs import vc_end, vc_new, vcs

urlpatterns = [
    path("virtual-clusters", vcs, name="vcs"),
    path("new-virtual-cluster", vc_new, name="vc-new"),
    path("virtual-clusters/<name:name>/remove", vc_end, name="vc-remove"),
    path("virtual-clusters/<name:name>", virtual_cluster, name="vc"),
    path("virtual-clusters/<name:name>/rules", virtual_cluster_rules, name="vc-rules"),
    path("virtual-clusters/<name:name>/members", member_add, name="member-add"),
    path("virtual-clusters/<name:name>/members/<int:membership_id>/remove", member_remove, name="member-remove"),
    path("virtual-clusters/<name:name>/firm-rights", firm_right_give, name="firm-right-give"),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>/end", firm_right_take, name="firm-right-take"),
]
