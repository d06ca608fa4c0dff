"""OpenPAI's addresses, below ``/rest-server``, and those of pages. Its clients write the former with and without a
slash at the end, and lists of users, groups and storages in the singular, too."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView
from rest_framework.views import APIView

from portal.openpai.api.attempts import HealthView, JobAttemptsView, JobAttemptView, LogView, TaskLogsView, TaskView
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
    AuthnInfoView,
    InfoView,
    LoginView,
    LogoutView,
    TokenCheckView,
    TokensView,
    TokenView,
)
from portal.openpai.pages import job_detail

JOB = r"jobs/(?P<framework>[^/\x00]+)"
ATTEMPT = r"attempts/(?P<attempt>[0-9]{1,9})"
TASK = rf"{JOB}/{ATTEMPT}/taskRoles/(?P<role>[^/\x00]+)/taskIndex/(?P<index>[0-9]{{1,9}})/attempts"


def at(address: str, view: type[APIView]) -> URLPattern:
    """The view under this address, with or without a slash at its end."""
    return re_path(rf"^{address}/?\Z", view.as_view())


TOKENS = [
    ("/check", TokenCheckView),
    ("/application", ApplicationTokenView),
    (r"/(?P<token>[^/\x00]+)", TokenView),
    ("", TokensView),
]
V2 = [
    path("", InfoView.as_view()),
    at("info", InfoView),
    at("authn/info", AuthnInfoView),
    at("authn/basic/login", LoginView),
    at("authn/basic/logout", LogoutView),
    *(at(f"tokens{address}", view) for address, view in TOKENS),
    at("users?", UsersView),
    at(r"users?/me", OwnView),
    at(r"users?/(?P<user>[^/\x00]+)", UserView),
    at(r"users?/(?P<user>[^/\x00]+)/group", UserGroupView),
    at(r"users?/(?P<user>[^/\x00]+)/grouplist", UserGroupListView),
    at("groups?", GroupsView),
    at(r"groups?/(?P<group>[^/\x00]+)", GroupView),
    at(r"groups?/(?P<group>[^/\x00]+)/userlist", GroupMembersView),
    at("virtual-clusters", VirtualClustersView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)", VirtualClusterView),
    at(r"virtual-clusters/(?P<vc>[^/\x00]+)/sku-types", SkuTypesView),
    at("cluster/sku-types", SkuTypesView),
    at("storages?", StoragesView),
    at(r"storages?/(?P<storage>[^/\x00]+)", StorageView),
    at("jobs", JobsView),
    at(JOB, JobView),
    at(f"{JOB}/config", ConfigView),
    at(f"{JOB}/executionType", ExecutionView),
    at(f"{JOB}/ssh", SshView),
    at(f"{JOB}/tag", TagView),
    at(f"{JOB}/events", EventsView),
    at(f"{JOB}/job-attempts/healthz", HealthView),
    at(f"{JOB}/job-attempts", JobAttemptsView),
    at(f"{JOB}/job-{ATTEMPT}", JobAttemptView),
    at(f"{JOB}/{ATTEMPT}", JobView),
    at(TASK, TaskView),
    at(rf"{TASK}/(?P<run>[0-9]{{1,9}})/logs", TaskLogsView),
    at(r"log-manager/[^/\x00]+/logs/user\.pai\.(?P<name>[a-z]+)", LogView),
    at("kubernetes/nodes", K8sNodesView),
    at("kubernetes/pods", K8sPodsView),
    at("alerts", AlertsView),
    re_path("", NoApi.as_view()),
]
V1 = [
    path("", InfoView.as_view()),
    at("authn/info", AuthnInfoView),
    at("authn/basic/login", LoginView),
    at("authn/basic/logout", LogoutView),
    *(at(f"token{address}", view) for address, view in TOKENS),
    at(r"user/(?P<user>[^/\x00]+)", UserView),
]
"""What clients of before OpenPAI 1.0 sign in with."""

urlpatterns: list[URLPattern | URLResolver] = [
    path("rest-server/api/v2/", include(V2)),
    path("rest-server/api/v1/", include(V1)),
    re_path(r"^rest-server/api/v[12]\Z", InfoView.as_view()),
    re_path(r"^rest-server(?:/|\Z)", NoApi.as_view()),
    path("job-detail.html", job_detail),
    path("job-list.html", RedirectView.as_view(pattern_name="jobs")),
    path("submit.html", RedirectView.as_view(pattern_name="submit")),
]
