"""URLs of its pages."""

from django.urls import path

from portal.cluster.views.map import cluster, cluster_dots
from portal.cluster.views.nodes import (
    node,
    node_accepted,
    node_back,
    node_cpu_tasks,
    node_intent,
    node_list,
    node_topology,
)
from portal.cluster.views.skus import skus

urlpatterns = [
    path("cluster", cluster, name="cluster"),
    path("cluster/map", cluster_dots, name="cluster-dots"),
    path("cluster/nodes", node_list, name="nodes"),
    path("cluster/nodes/<name:name>", node, name="node"),
    path("cluster/nodes/<name:name>/accept", node_accepted, name="node-accept"),
    path("cluster/nodes/<name:name>/cpu-tasks", node_cpu_tasks, name="node-cpu-tasks"),
    path("cluster/nodes/<name:name>/intent", node_intent, name="node-intent"),
    path("cluster/nodes/<name:name>/put-back", node_back, name="node-put-back"),
    path("cluster/nodes/<name:name>/topology", node_topology, name="node-topology"),
    path("skus", skus, name="skus"),
]
