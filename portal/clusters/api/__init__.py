"""REST: virtual clusters and nodes."""

from portal.clusters.api.nodes import CellTypesView, NodesView, NodeView, SkusView, TopologyView
from portal.clusters.api.teams import (
    FirmRightView,
    MembersView,
    MemberView,
    SharesView,
    VirtualClustersView,
    VirtualClusterView,
)

__all__ = [
    "CellTypesView",
    "FirmRightView",
    "MemberView",
    "MembersView",
    "NodeView",
    "NodesView",
    "SharesView",
    "SkusView",
    "TopologyView",
    "VirtualClusterView",
    "VirtualClustersView",
]
