"""REST: virtual clusters and nodes."""

from portal.clusters.api.answers import NodeAnswer
from portal.clusters.api.gpus import GpuHistoryView, GpusView
from portal.clusters.api.groups import GroupMemberView, GroupsView, GroupView
from portal.clusters.api.images import ImagesView, ImageView
from portal.clusters.api.joining import JoinTokensView, JoinTokenView, JoinView
from portal.clusters.api.nodes import (
    AcceptView,
    CellTypesView,
    CpuTasksView,
    NodeKeyView,
    NodesView,
    NodeView,
    PutBackView,
    SkuShareView,
    SkusView,
    SkuView,
    TopologyView,
    node_answer,
)
from portal.clusters.api.people import UserPasswordView, UsersView, UserView
from portal.clusters.api.people_import import UsersImportView
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
from portal.clusters.api.storages import StorageServersView, StorageServerView, StoragesView, StorageView
from portal.clusters.api.teams import (
    FirmRightView,
    MembersView,
    MemberView,
    SharesView,
    VirtualClustersView,
    VirtualClusterView,
)

__all__ = [
    "JoinTokenView",
    "JoinTokensView",
    "JoinView",
    "ImageView",
    "ImagesView",
    "StorageView",
    "StorageServerView",
    "StorageServersView",
    "StoragesView",
    "GpuHistoryView",
    "GpusView",
    "GroupMemberView",
    "GroupView",
    "GroupsView",
    "UserPasswordView",
    "UserView",
    "UsersImportView",
    "UsersView",
    "RegistryLoginView",
    "RegistryLoginsView",
    "SecretView",
    "SecretsView",
    "TeamRegistryLoginView",
    "TeamRegistryLoginsView",
    "TeamSecretView",
    "TeamSecretsView",
    "CellTypesView",
    "CpuTasksView",
    "FirmRightView",
    "MemberView",
    "MembersView",
    "NodeKeyView",
    "NodeAnswer",
    "NodeView",
    "node_answer",
    "AcceptView",
    "PutBackView",
    "NodesView",
    "SharesView",
    "SkuShareView",
    "SkuView",
    "SkusView",
    "TopologyView",
    "VirtualClusterView",
    "VirtualClustersView",
]
