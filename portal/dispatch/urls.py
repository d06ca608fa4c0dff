"""Addresses of the pages that change quotas."""

from django.urls import path

from portal.dispatch import views

urlpatterns = [
    path("virtual-clusters/<name:name>/quota", views.quota, name="vc-quota"),
    path("quota-changes/<int:change_id>/withdraw", views.quota_change_end, name="quota-change-end"),
    path("cluster/nodes/<name:name>/remove", views.node_end, name="node-remove"),
    path("alerts", views.alerts, name="alerts"),
    path("alerts/brief", views.alerts_brief, name="alerts-brief"),
    path("alerts/silence", views.alert_silence, name="alert-silence"),
    path("alerts/silences/<int:silence_id>/end", views.alert_silence_end, name="alert-silence-end"),
    path("settings", views.settings, name="settings"),
    path("cluster/configuration", views.configuration, name="configuration"),
]
