"""Addresses of the pages that change quotas."""

from django.urls import path

from portal.dispatch.views.alerts import alert_silence, alert_silence_end, alerts, alerts_brief, settings
from portal.dispatch.views.configuration import configuration
from portal.dispatch.views.nodes import node_end
from portal.dispatch.views.quota import quota, quota_change_end

urlpatterns = [
    path("virtual-clusters/<name:name>/quota", quota, name="vc-quota"),
    path("quota-changes/<int:change_id>/withdraw", quota_change_end, name="quota-change-end"),
    path("cluster/nodes/<name:name>/remove", node_end, name="node-remove"),
    path("alerts", alerts, name="alerts"),
    path("alerts/brief", alerts_brief, name="alerts-brief"),
    path("alerts/silence", alert_silence, name="alert-silence"),
    path("alerts/silences/<int:silence_id>/end", alert_silence_end, name="alert-silence-end"),
    path("settings", settings, name="settings"),
    path("cluster/configuration", configuration, name="configuration"),
]
