"""Every address of the portal."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.views.generic import RedirectView

from portal.accounts.api.account import CurrentTokenView, LoginView, MeView, TokensView, TokenView
from portal.accounts.api.audit import AuditExportView, AuditView
from portal.accounts.api.keys import SshKeysView, SshKeyView
from portal.accounts.views.account import back_door_login
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
    PutBackView,
    SkuShareView,
    SkusView,
    SkuView,
    TopologyView,
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
from portal.common.converters import CodeName, Name, Person, SecretName, Server
from portal.common.document import DocumentView, document_page
from portal.common.health import healthz
from portal.common.help import help_page
from portal.dispatch.api.alerts import AlertSilencesView, AlertSilenceView, AlertsView
from portal.dispatch.api.cluster import ClusterView
from portal.dispatch.api.estimates import EstimatesView
from portal.dispatch.api.metrics import PrometheusView
from portal.dispatch.api.nodes import RemovableNodeView
from portal.dispatch.api.quotas import QuotaChangesView, QuotaChangeView, QuotasView
from portal.dispatch.api.settings import SettingsView
from portal.jobs.api.all_logs import AllLogsView
from portal.jobs.api.changes import BulkView, PlaceView, PriorityView, TagsView
from portal.jobs.api.code import CodeArchiveView, CodeFoldersView, CodeFolderView, CodeLimitsView
from portal.jobs.api.files import FileContentView, FilesView
from portal.jobs.api.idle import (
    IdleExemptionsView,
    IdleExemptionView,
    IdlePolicyView,
    JobIdleExtendView,
    JobIdleView,
    TeamIdlePolicyView,
)
from portal.jobs.api.log_search import LogSearchView
from portal.jobs.api.logs import LogsView
from portal.jobs.api.metrics import MetricsView
from portal.jobs.api.node_code import node_code
from portal.jobs.api.nodes import GiveUpView
from portal.jobs.api.preemptions import PreemptionsView
from portal.jobs.api.queue import QueueView
from portal.jobs.api.saved_views import SavedViewsView, SavedViewView
from portal.jobs.api.strangers import StrangerStopView
from portal.jobs.api.templates import SamplesView, TemplatesView, TemplateView
from portal.jobs.api.usage import UsageView
from portal.jobs.api.views import (
    AttemptsView,
    ConfigView,
    EventsView,
    JobsView,
    JobView,
    MoveView,
    PauseView,
    ResumeView,
    StopView,
    TasksView,
    ValidateView,
)
from portal.jobs.code.tickets import PATH as NODE_CODE
from portal.notices.api.choices import ChoiceView
from portal.notices.api.webhook import DeliveriesView, TestView, WebhookView

register_converter(CodeName, "code")
register_converter(Name, "name")
register_converter(Person, "person")
register_converter(SecretName, "secret")
register_converter(Server, "server")

REST: list[URLPattern | URLResolver] = [
    path("login", LoginView.as_view()),
    path("me", MeView.as_view()),
    path("me/notices", ChoiceView.as_view()),
    path("me/ssh-keys", SshKeysView.as_view()),
    path("me/ssh-keys/<int:key_id>", SshKeyView.as_view()),
    path("tokens", TokensView.as_view()),
    path("tokens/current", CurrentTokenView.as_view()),
    path("tokens/<int:token_id>", TokenView.as_view()),
    path("audit", AuditView.as_view()),
    path("audit/export", AuditExportView.as_view()),
    path("users", UsersView.as_view()),
    path("users/import", UsersImportView.as_view()),
    path("users/<person:username>", UserView.as_view()),
    path("users/<person:username>/password", UserPasswordView.as_view()),
    path("groups", GroupsView.as_view()),
    path("groups/<person:group>", GroupView.as_view()),
    path("groups/<person:group>/members/<person:username>", GroupMemberView.as_view()),
    path("virtual-clusters", VirtualClustersView.as_view()),
    path("virtual-clusters/<name:name>", VirtualClusterView.as_view()),
    path("virtual-clusters/<name:name>/members", MembersView.as_view()),
    path("virtual-clusters/<name:name>/members/<int:member_id>", MemberView.as_view()),
    path("virtual-clusters/<name:name>/shares", SharesView.as_view()),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>", FirmRightView.as_view()),
    path("virtual-clusters/<name:name>/secrets", TeamSecretsView.as_view()),
    path("virtual-clusters/<name:name>/secrets/<secret:secret>", TeamSecretView.as_view()),
    path("virtual-clusters/<name:name>/registry-logins", TeamRegistryLoginsView.as_view()),
    path("virtual-clusters/<name:name>/registry-logins/<server:server>", TeamRegistryLoginView.as_view()),
    path("images", ImagesView.as_view()),
    path("images/<int:rule_id>", ImageView.as_view()),
    path("storages", StoragesView.as_view()),
    path("storages/<name:name>", StorageView.as_view()),
    path("storages/<name:name>/servers", StorageServersView.as_view()),
    path("storages/<name:name>/servers/<name:node>", StorageServerView.as_view()),
    path("secrets", SecretsView.as_view()),
    path("secrets/<secret:secret>", SecretView.as_view()),
    path("registry-logins", RegistryLoginsView.as_view()),
    path("registry-logins/<server:server>", RegistryLoginView.as_view()),
    path("cluster", ClusterView.as_view()),
    path("quotas", QuotasView.as_view()),
    path("quota-changes", QuotaChangesView.as_view()),
    path("quota-changes/<int:change_id>", QuotaChangeView.as_view()),
    path("cell-types", CellTypesView.as_view()),
    path("join", JoinView.as_view()),
    path("join-tokens", JoinTokensView.as_view()),
    path("join-tokens/<int:token_id>", JoinTokenView.as_view()),
    path("nodes", NodesView.as_view()),
    path("nodes/<name:name>", RemovableNodeView.as_view()),
    path("nodes/<name:name>/key", NodeKeyView.as_view()),
    path("nodes/<name:name>/give-up", GiveUpView.as_view()),
    path("nodes/<name:name>/accept", AcceptView.as_view()),
    path("nodes/<name:name>/cpu-tasks", CpuTasksView.as_view()),
    path("nodes/<name:name>/put-back", PutBackView.as_view()),
    path("nodes/<name:name>/topology", TopologyView.as_view()),
    path("nodes/<name:name>/unknown-containers/<name:attempt>/stop", StrangerStopView.as_view()),
    path("gpus", GpusView.as_view()),
    path("gpus/history", GpuHistoryView.as_view()),
    path("skus", SkusView.as_view()),
    path("skus/<name:name>", SkuView.as_view()),
    path("skus/<name:name>/share", SkuShareView.as_view()),
    path("jobs", JobsView.as_view()),
    path("jobs/bulk", BulkView.as_view()),
    path("jobs/<int:job_id>", JobView.as_view()),
    path("jobs/<int:job_id>/tags", TagsView.as_view()),
    path("jobs/<int:job_id>/priority", PriorityView.as_view()),
    path("jobs/<int:job_id>/place", PlaceView.as_view()),
    path("jobs/<int:job_id>/stop", StopView.as_view()),
    path("jobs/<int:job_id>/move", MoveView.as_view()),
    path("jobs/<int:job_id>/pause", PauseView.as_view()),
    path("jobs/<int:job_id>/resume", ResumeView.as_view()),
    path("jobs/<int:job_id>/config", ConfigView.as_view()),
    path("jobs/<int:job_id>/events", EventsView.as_view()),
    path("jobs/<int:job_id>/attempts", AttemptsView.as_view()),
    path("jobs/<int:job_id>/preemptions", PreemptionsView.as_view()),
    path("jobs/<int:job_id>/tasks", TasksView.as_view()),
    path("jobs/<int:job_id>/logs", LogsView.as_view()),
    path("jobs/<int:job_id>/logs/search", LogSearchView.as_view()),
    path("jobs/<int:job_id>/logs/all", AllLogsView.as_view()),
    path("code", CodeFoldersView.as_view()),
    path("code/limits", CodeLimitsView.as_view()),
    path("code/<code:code>", CodeFolderView.as_view()),
    path("code/<code:code>/archive", CodeArchiveView.as_view()),
    path("jobs/<int:job_id>/files", FilesView.as_view()),
    path("jobs/<int:job_id>/files/content", FileContentView.as_view()),
    path("jobs/<int:job_id>/metrics", MetricsView.as_view()),
    path("jobs/<int:job_id>/idle", JobIdleView.as_view()),
    path("jobs/<int:job_id>/idle/extend", JobIdleExtendView.as_view()),
    path("idle-policy", IdlePolicyView.as_view()),
    path("virtual-clusters/<name:name>/idle-policy", TeamIdlePolicyView.as_view()),
    path("idle-exemptions", IdleExemptionsView.as_view()),
    path("idle-exemptions/<int:exemption_id>", IdleExemptionView.as_view()),
    path("validate", ValidateView.as_view()),
    path("samples", SamplesView.as_view()),
    path("templates", TemplatesView.as_view()),
    path("templates/<int:template_id>", TemplateView.as_view()),
    path("queue", QueueView.as_view()),
    path("saved-views", SavedViewsView.as_view()),
    path("saved-views/<int:view_id>", SavedViewView.as_view()),
    path("usage", UsageView.as_view()),
    path("webhook", WebhookView.as_view()),
    path("webhook/test", TestView.as_view()),
    path("webhook/deliveries", DeliveriesView.as_view()),
    path("alerts", AlertsView.as_view()),
    path("alert-silences", AlertSilencesView.as_view()),
    path("alert-silences/<int:silence_id>", AlertSilenceView.as_view()),
    path("settings", SettingsView.as_view()),
    path("estimates", EstimatesView.as_view()),
    path("openapi.json", DocumentView.as_view(), name="openapi"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(REST)),  # first: addresses are tried in this order, and programs ask most
    path("", include("portal.accounts.urls")),
    path("", include("portal.clusters.urls")),
    path("", include("portal.jobs.urls")),
    path("", include("portal.dispatch.urls")),
    path("", include("portal.notices.urls")),
    path("", include("portal.openpai.urls")),
    path(f"{NODE_CODE}<str:signed>", node_code),
    path("api/docs", document_page, name="api-docs"),
    path("help", help_page, name="help"),
    path("help/<name:name>", help_page, name="help"),
    path("healthz", healthz, name="healthz"),
    path("metrics", PrometheusView.as_view(), name="metrics"),
    # The portal's own log-in: it counts the tries, and notes them.
    path("admin/login/", back_door_login),
    path("admin/password_change/", RedirectView.as_view(pattern_name="profile")),
    path("admin/", admin.site.urls),
]

handler400 = "portal.common.problems.bad_request"
handler404 = "portal.common.problems.not_found"
handler500 = "portal.common.problems.internal_error"
