"""URLs of its pages."""

from django.urls import path

from portal.scheduler.views.configuration import configuration
from portal.scheduler.views.nodes import node_end
from portal.scheduler.views.quota import quota, quota_change_end

urlpatterns = [
    path("virtual-clusters/<name:name>/quota", quota, name="vc-quota"),
    path("quota-changes/<int:change_id>/withdraw", quota_change_end, name="quota-change-end"),
    path("cluster/nodes/<name:name>/remove", node_end, name="node-remove"),
    path("cluster/configuration", configuration, name="configuration"),
]
