"""OpenPAI's addresses, below ``/rest-server``, and those of pages. Its clients write the former with and without a
slash at the end, and lists of users, groups and storages in the singular, too."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView
from rest_framework.views import APIView

from portal.openpai import api
from portal.openpai.pages import job_detail

JOB = r"jobs/(?P<framework>[^/\x00]+)"
ATTEMPT = r"attempts/(?P<attempt>[0-9]{1,9})"
TASK = rf"{JOB}/{ATTEMPT}/taskRoles/(?P<role>[^/\x00]+)/taskIndex/(?P<index>[0-9]{{1,9}})/attempts"


def at(address: str, view: type[APIView]) -> URLPattern:
    """The view under this address, with or without a slash at its end."""
    return re_path(rf"^{address}/?\Z", view.as_view())


TOKENS = [
    ("/check", api.TokenCheckView),
    ("/application", api.ApplicationTokenView),
    (r"/(?P<token>[^/\x00]+)", api.TokenView),
    ("", api.TokensView),
]
V2 = [
    path("", api.InfoView.as_view()),
    at("info", api.InfoView),
    at("authn/info", api.AuthnInfoView),
    at("authn/basic/login", api.LoginView),
    at("authn/basic/logout", api.LogoutView),
    *(at(f"tokens{address}", view) for address, view in TOKENS),
    at("users?", api.UsersView),
    at(r"users?/me", api.OwnView),
    at(r"users?/(?P<user>[^/\x00]+)", api.UserView),
    at(r"users?/(?P<user>[^/\x00]+)/group", api.UserGroupView),
    at(r"users?/(?P<user>[^/\x00]+)/grouplist", api.UserGroupListView),
    at("groups?", api.GroupsView),
    at(r"groups?/(?P<group>[^/\x00]+)", api.GroupView),
    at(r"groups?/(?P<group>[^/\x00]+)/userlist", api.GroupMembersView),
    at("virtual-clusters", api.VirtualClustersView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)", api.VirtualClusterView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)/sku-types", api.SkuTypesView),
    at("cluster/sku-types", api.SkuTypesView),
    at("storages?", api.StoragesView),
    at(r"storages?/(?P<storage>[^/\x00]+)", api.StorageView),
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
V1 = [
    path("", api.InfoView.as_view()),
    at("authn/info", api.AuthnInfoView),
    at("authn/basic/login", api.LoginView),
    at("authn/basic/logout", api.LogoutView),
    *(at(f"token{address}", view) for address, view in TOKENS),
    at(r"user/(?P<user>[^/\x00]+)", api.UserView),
]
"""What clients of before OpenPAI 1.0 sign in with."""

urlpatterns: list[URLPattern | URLResolver] = [
    path("rest-server/api/v2/", include(V2)),
    path("rest-server/api/v1/", include(V1)),
    re_path(r"^rest-server/api/v[12]\Z", api.InfoView.as_view()),
    re_path(r"^rest-server(?:/|\Z)", api.NoApi.as_view()),
    path("job-detail.html", job_detail),
    path("job-list.html", RedirectView.as_view(pattern_name="jobs")),
    path("submit.html", RedirectView.as_view(pattern_name="submit")),
]
