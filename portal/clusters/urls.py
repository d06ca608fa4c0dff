"""Addresses of the cluster pages."""

from django.urls import path

from portal.clusters import views

urlpatterns = [
    path("cluster", views.cluster, name="cluster"),
    path("cluster/nodes/<name:name>/intent", views.node_intent, name="node-intent"),
]
