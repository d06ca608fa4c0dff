"""OpenPAI's addresses, below ``/rest-server/api/v2/``. Its clients write them with and without a slash at the end."""

from __future__ import annotations

from django.urls import URLPattern, re_path
from rest_framework.views import APIView

from portal.openpai import api

JOB = r"jobs/(?P<framework>[^/\x00]+)"
ATTEMPT = r"attempts/(?P<attempt>[0-9]{1,9})"
TASK = rf"{JOB}/{ATTEMPT}/taskRoles/(?P<role>[^/\x00]+)/taskIndex/(?P<index>[0-9]{{1,9}})/attempts"


def at(address: str, view: type[APIView]) -> URLPattern:
    """The view under this address, with or without a slash at its end."""
    return re_path(rf"^{address}/?\Z", view.as_view())


urlpatterns = [
    at("info", api.InfoView),
    at("authn/basic/login", api.LoginView),
    at("authn/basic/logout", api.LogoutView),
    at("tokens", api.TokensView),
    at("tokens/application", api.ApplicationTokenView),
    at(r"tokens/(?P<token>[^/\x00]+)", api.TokenView),
    at("users", api.UsersView),
    at(r"users/me", api.OwnView),
    at(r"users/(?P<user>[^/\x00]+)", api.UserView),
    at(r"users/(?P<user>[^/\x00]+)/group", api.UserGroupView),
    at(r"users/(?P<user>[^/\x00]+)/grouplist", api.UserGroupListView),
    at("groups", api.GroupsView),
    at(r"groups/(?P<group>[^/\x00]+)", api.GroupView),
    at(r"groups/(?P<group>[^/\x00]+)/userlist", api.GroupMembersView),
    at("virtual-clusters", api.VirtualClustersView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)", api.VirtualClusterView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)/sku-types", api.SkuTypesView),
    at("cluster/sku-types", api.SkuTypesView),
    at("storages", api.StoragesView),
    at(r"storages/(?P<storage>[^/\x00]+)", api.StorageView),
    at("jobs", api.JobsView),
    at(JOB, api.JobView),
    at(f"{JOB}/config", api.ConfigView),
    at(f"{JOB}/executionType", api.ExecutionView),
    at(f"{JOB}/ssh", api.SshView),
    at(f"{JOB}/tag", api.TagView),
    at(f"{JOB}/events", api.EventsView),
    at(f"{JOB}/job-attempts/healthz", api.HealthView),
    at(f"{JOB}/job-attempts", api.JobAttemptsView),
    at(f"{JOB}/job-{ATTEMPT}", api.JobAttemptView),
    at(f"{JOB}/{ATTEMPT}", api.JobView),
    at(TASK, api.TaskView),
    at(rf"{TASK}/(?P<run>[0-9]{{1,9}})/logs", api.TaskLogsView),
    at(r"log-manager/[^/\x00]+/logs/user\.pai\.(?P<name>[a-z]+)", api.LogView),
    at("kubernetes/nodes", api.K8sNodesView),
    at("kubernetes/pods", api.K8sPodsView),
    at("alerts", api.AlertsView),
    re_path("", api.NoApi.as_view()),
]
