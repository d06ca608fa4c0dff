"""REST: virtual clusters and nodes."""

from portal.clusters.api.nodes import CellTypesView, NodesView, NodeView, SkusView, TopologyView
from portal.clusters.api.teams import FirmRightView, VirtualClustersView, VirtualClusterView

__all__ = [
    "CellTypesView",
    "FirmRightView",
    "NodeView",
    "NodesView",
    "SkusView",
    "TopologyView",
    "VirtualClusterView",
    "VirtualClustersView",
]
