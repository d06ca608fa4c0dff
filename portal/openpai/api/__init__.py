"""OpenPAI's REST API v2."""

from portal.openpai.api.attempts import (
    HealthView,
    JobAttemptsView,
    JobAttemptView,
    LogView,
    TaskLogsView,
    TaskView,
)
from portal.openpai.api.base import NoApi
from portal.openpai.api.cluster import (
    AlertsView,
    K8sNodesView,
    K8sPodsView,
    SkuTypesView,
    StoragesView,
    StorageView,
    VirtualClustersView,
    VirtualClusterView,
)
from portal.openpai.api.jobs import ConfigView, EventsView, ExecutionView, JobsView, JobView, SshView, TagView
from portal.openpai.api.people import (
    GroupMembersView,
    GroupsView,
    GroupView,
    OwnView,
    UserGroupListView,
    UserGroupView,
    UsersView,
    UserView,
)
from portal.openpai.api.session import (
    ApplicationTokenView,
    InfoView,
    LoginView,
    LogoutView,
    TokensView,
    TokenView,
)

__all__ = [
    "AlertsView",
    "ApplicationTokenView",
    "ConfigView",
    "EventsView",
    "ExecutionView",
    "GroupMembersView",
    "GroupView",
    "GroupsView",
    "HealthView",
    "InfoView",
    "JobAttemptView",
    "JobAttemptsView",
    "JobView",
    "JobsView",
    "K8sNodesView",
    "K8sPodsView",
    "LogView",
    "LoginView",
    "LogoutView",
    "NoApi",
    "OwnView",
    "SkuTypesView",
    "SshView",
    "StorageView",
    "StoragesView",
    "TagView",
    "TaskLogsView",
    "TaskView",
    "TokenView",
    "TokensView",
    "UserGroupListView",
    "UserGroupView",
    "UserView",
    "UsersView",
    "VirtualClusterView",
    "VirtualClustersView",
]
