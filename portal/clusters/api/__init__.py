"""REST: virtual clusters and nodes."""

from portal.clusters.api.nodes import CellTypesView, NodesView, NodeView, SkusView, SkuView, TopologyView
from portal.clusters.api.secrets import (
    RegistryLoginsView,
    RegistryLoginView,
    SecretsView,
    SecretView,
    TeamRegistryLoginsView,
    TeamRegistryLoginView,
    TeamSecretsView,
    TeamSecretView,
)
from portal.clusters.api.teams import (
    FirmRightView,
    MembersView,
    MemberView,
    SharesView,
    VirtualClustersView,
    VirtualClusterView,
)

__all__ = [
    "RegistryLoginView",
    "RegistryLoginsView",
    "SecretView",
    "SecretsView",
    "TeamRegistryLoginView",
    "TeamRegistryLoginsView",
    "TeamSecretView",
    "TeamSecretsView",
    "CellTypesView",
    "FirmRightView",
    "MemberView",
    "MembersView",
    "NodeView",
    "NodesView",
    "SharesView",
    "SkuView",
    "SkusView",
    "TopologyView",
    "VirtualClusterView",
    "VirtualClustersView",
]
