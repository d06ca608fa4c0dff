"""Every address of the portal."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.views.generic import RedirectView

from portal.accounts.api.account import CurrentTokenView, LoginView, MeView, TokensView, TokenView
from portal.accounts.api.audit import AuditExportView, AuditView
from portal.accounts.api.keys import SshKeysView, SshKeyView
from portal.accounts.views.account import back_door_login
from portal.alerts.api.alerts import AlertSilencesView, AlertSilenceView, AlertsView
from portal.alerts.api.prometheus import PrometheusView
from portal.alerts.api.settings import SettingsView
from portal.cluster.api.gpus import GpuHistoryView, GpusView
from portal.cluster.api.nodes import (
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
from portal.code.tickets import PATH as NODE_CODE
from portal.common.converters import CodeName, Name, Person, SecretName, Server
from portal.common.document import DocumentView, document_page
from portal.common.health import healthz
from portal.common.help import help_page
from portal.files.api import FileContentView, FilesView
from portal.forecast.api import EstimatesView
from portal.idle.api import (
    IdleExemptionsView,
    IdleExemptionView,
    IdlePolicyView,
    JobIdleExtendView,
    JobIdleView,
    TeamIdlePolicyView,
)
from portal.images.api import ImagesView, ImageView
from portal.job_pages.api.changes import BulkView, PlaceView, PriorityView, TagsView
from portal.job_pages.api.code import CodeArchiveView, CodeFoldersView, CodeFolderView, CodeLimitsView
from portal.job_pages.api.jobs import (
    AttemptsView,
    ConfigView,
    EventsView,
    JobsView,
    JobView,
    MoveView,
    ParkView,
    PauseView,
    ResumeView,
    StopView,
    TasksView,
    ValidateView,
)
from portal.job_pages.api.node_code import node_code
from portal.job_pages.api.nodes import GiveUpView
from portal.job_pages.api.preemptions import PreemptionsView
from portal.job_pages.api.saved_views import SavedViewsView, SavedViewView
from portal.joining.api.views import JoinTokensView, JoinTokenView, JoinView
from portal.logs.api.all_logs import AllLogsView
from portal.logs.api.log_search import LogSearchView
from portal.logs.api.logs import LogsView
from portal.metrics.api import AdviceView, MetricsView
from portal.node_orders.api import StrangerStopView
from portal.notices.api.choices import ChoiceView
from portal.notices.api.webhook import DeliveriesView, TestView, WebhookView
from portal.people.api.groups import GroupMemberView, GroupsView, GroupView
from portal.people.api.people import UserPasswordView, UsersView, UserView
from portal.people.api.people_import import UsersImportView
from portal.queue.api.views import QueueView
from portal.scheduler.api.cluster import ClusterView
from portal.scheduler.api.nodes import RemovableNodeView
from portal.scheduler.api.quotas import QuotaChangesView, QuotaChangeView, QuotasView
from portal.secrets.api import (
    RegistryLoginsView,
    RegistryLoginView,
    SecretsView,
    SecretView,
    TeamRegistryLoginsView,
    TeamRegistryLoginView,
    TeamSecretsView,
    TeamSecretView,
)
from portal.storages.api import StorageServersView, StorageServerView, StoragesView, StorageView
from portal.teams.api.views import (
    FirmRightView,
    MembersView,
    MemberView,
    SharesView,
    VirtualClustersView,
    VirtualClusterView,
)
from portal.templates.api import SamplesView, TemplatesView, TemplateView
from portal.usage.api import UsageView

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
    path("jobs/<int:job_id>/park", ParkView.as_view()),
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
    path("jobs/<int:job_id>/advice", AdviceView.as_view()),
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
    path("", include("portal.people.urls")),
    path("", include("portal.cluster.urls")),
    path("", include("portal.joining.urls")),
    path("", include("portal.teams.urls")),
    path("", include("portal.secrets.urls")),
    path("", include("portal.storages.urls")),
    path("", include("portal.images.urls")),
    path("", include("portal.job_pages.urls")),
    path("", include("portal.node_orders.urls")),
    path("", include("portal.files.urls")),
    path("", include("portal.metrics.urls")),
    path("", include("portal.usage.urls")),
    path("", include("portal.idle.urls")),
    path("", include("portal.queue.urls")),
    path("", include("portal.templates.urls")),
    path("", include("portal.scheduler.urls")),
    path("", include("portal.alerts.urls")),
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
