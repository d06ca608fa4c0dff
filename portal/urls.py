"""Every address of the portal."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.views.generic import RedirectView

from portal.accounts import api as accounts
from portal.accounts.views import back_door_login
from portal.clusters import api as clusters
from portal.common.converters import CodeName, Name, Person, SecretName, Server
from portal.common.document import DocumentView, document_page
from portal.common.health import healthz
from portal.common.help import help_page
from portal.dispatch import api as dispatch
from portal.jobs import api as jobs
from portal.jobs.code.tickets import PATH as NODE_CODE
from portal.notices import api as notices

register_converter(CodeName, "code")
register_converter(Name, "name")
register_converter(Person, "person")
register_converter(SecretName, "secret")
register_converter(Server, "server")

REST: list[URLPattern | URLResolver] = [
    path("login", accounts.LoginView.as_view()),
    path("me", accounts.MeView.as_view()),
    path("me/notices", notices.ChoiceView.as_view()),
    path("me/ssh-keys", accounts.SshKeysView.as_view()),
    path("me/ssh-keys/<int:key_id>", accounts.SshKeyView.as_view()),
    path("tokens", accounts.TokensView.as_view()),
    path("tokens/current", accounts.CurrentTokenView.as_view()),
    path("tokens/<int:token_id>", accounts.TokenView.as_view()),
    path("audit", accounts.AuditView.as_view()),
    path("audit/export", accounts.AuditExportView.as_view()),
    path("users", clusters.UsersView.as_view()),
    path("users/import", clusters.UsersImportView.as_view()),
    path("users/<person:username>", clusters.UserView.as_view()),
    path("users/<person:username>/password", clusters.UserPasswordView.as_view()),
    path("groups", clusters.GroupsView.as_view()),
    path("groups/<person:group>", clusters.GroupView.as_view()),
    path("groups/<person:group>/members/<person:username>", clusters.GroupMemberView.as_view()),
    path("virtual-clusters", clusters.VirtualClustersView.as_view()),
    path("virtual-clusters/<name:name>", clusters.VirtualClusterView.as_view()),
    path("virtual-clusters/<name:name>/members", clusters.MembersView.as_view()),
    path("virtual-clusters/<name:name>/members/<int:member_id>", clusters.MemberView.as_view()),
    path("virtual-clusters/<name:name>/shares", clusters.SharesView.as_view()),
    path("virtual-clusters/<name:name>/firm-rights/<str:user>", clusters.FirmRightView.as_view()),
    path("virtual-clusters/<name:name>/secrets", clusters.TeamSecretsView.as_view()),
    path("virtual-clusters/<name:name>/secrets/<secret:secret>", clusters.TeamSecretView.as_view()),
    path("virtual-clusters/<name:name>/registry-logins", clusters.TeamRegistryLoginsView.as_view()),
    path("virtual-clusters/<name:name>/registry-logins/<server:server>", clusters.TeamRegistryLoginView.as_view()),
    path("images", clusters.ImagesView.as_view()),
    path("images/<int:rule_id>", clusters.ImageView.as_view()),
    path("storages", clusters.StoragesView.as_view()),
    path("storages/<name:name>", clusters.StorageView.as_view()),
    path("storages/<name:name>/servers", clusters.StorageServersView.as_view()),
    path("storages/<name:name>/servers/<name:node>", clusters.StorageServerView.as_view()),
    path("secrets", clusters.SecretsView.as_view()),
    path("secrets/<secret:secret>", clusters.SecretView.as_view()),
    path("registry-logins", clusters.RegistryLoginsView.as_view()),
    path("registry-logins/<server:server>", clusters.RegistryLoginView.as_view()),
    path("cluster", dispatch.ClusterView.as_view()),
    path("quotas", dispatch.QuotasView.as_view()),
    path("quota-changes", dispatch.QuotaChangesView.as_view()),
    path("quota-changes/<int:change_id>", dispatch.QuotaChangeView.as_view()),
    path("cell-types", clusters.CellTypesView.as_view()),
    path("join", clusters.JoinView.as_view()),
    path("join-tokens", clusters.JoinTokensView.as_view()),
    path("join-tokens/<int:token_id>", clusters.JoinTokenView.as_view()),
    path("nodes", clusters.NodesView.as_view()),
    path("nodes/<name:name>", dispatch.RemovableNodeView.as_view()),
    path("nodes/<name:name>/key", clusters.NodeKeyView.as_view()),
    path("nodes/<name:name>/give-up", jobs.GiveUpView.as_view()),
    path("nodes/<name:name>/accept", clusters.AcceptView.as_view()),
    path("nodes/<name:name>/cpu-tasks", clusters.CpuTasksView.as_view()),
    path("nodes/<name:name>/put-back", clusters.PutBackView.as_view()),
    path("nodes/<name:name>/topology", clusters.TopologyView.as_view()),
    path("nodes/<name:name>/unknown-containers/<name:attempt>/stop", jobs.StrangerStopView.as_view()),
    path("gpus", clusters.GpusView.as_view()),
    path("gpus/history", clusters.GpuHistoryView.as_view()),
    path("skus", clusters.SkusView.as_view()),
    path("skus/<name:name>", clusters.SkuView.as_view()),
    path("skus/<name:name>/share", clusters.SkuShareView.as_view()),
    path("jobs", jobs.JobsView.as_view()),
    path("jobs/bulk", jobs.BulkView.as_view()),
    path("jobs/<int:job_id>", jobs.JobView.as_view()),
    path("jobs/<int:job_id>/tags", jobs.TagsView.as_view()),
    path("jobs/<int:job_id>/priority", jobs.PriorityView.as_view()),
    path("jobs/<int:job_id>/place", jobs.PlaceView.as_view()),
    path("jobs/<int:job_id>/stop", jobs.StopView.as_view()),
    path("jobs/<int:job_id>/move", jobs.MoveView.as_view()),
    path("jobs/<int:job_id>/pause", jobs.PauseView.as_view()),
    path("jobs/<int:job_id>/resume", jobs.ResumeView.as_view()),
    path("jobs/<int:job_id>/config", jobs.ConfigView.as_view()),
    path("jobs/<int:job_id>/events", jobs.EventsView.as_view()),
    path("jobs/<int:job_id>/attempts", jobs.AttemptsView.as_view()),
    path("jobs/<int:job_id>/preemptions", jobs.PreemptionsView.as_view()),
    path("jobs/<int:job_id>/tasks", jobs.TasksView.as_view()),
    path("jobs/<int:job_id>/logs", jobs.LogsView.as_view()),
    path("jobs/<int:job_id>/logs/search", jobs.LogSearchView.as_view()),
    path("jobs/<int:job_id>/logs/all", jobs.AllLogsView.as_view()),
    path("code", jobs.CodeFoldersView.as_view()),
    path("code/limits", jobs.CodeLimitsView.as_view()),
    path("code/<code:code>", jobs.CodeFolderView.as_view()),
    path("code/<code:code>/archive", jobs.CodeArchiveView.as_view()),
    path("jobs/<int:job_id>/files", jobs.FilesView.as_view()),
    path("jobs/<int:job_id>/files/content", jobs.FileContentView.as_view()),
    path("jobs/<int:job_id>/metrics", jobs.MetricsView.as_view()),
    path("jobs/<int:job_id>/idle", jobs.JobIdleView.as_view()),
    path("jobs/<int:job_id>/idle/extend", jobs.JobIdleExtendView.as_view()),
    path("idle-policy", jobs.IdlePolicyView.as_view()),
    path("virtual-clusters/<name:name>/idle-policy", jobs.TeamIdlePolicyView.as_view()),
    path("idle-exemptions", jobs.IdleExemptionsView.as_view()),
    path("idle-exemptions/<int:exemption_id>", jobs.IdleExemptionView.as_view()),
    path("validate", jobs.ValidateView.as_view()),
    path("samples", jobs.SamplesView.as_view()),
    path("templates", jobs.TemplatesView.as_view()),
    path("templates/<int:template_id>", jobs.TemplateView.as_view()),
    path("queue", jobs.QueueView.as_view()),
    path("saved-views", jobs.SavedViewsView.as_view()),
    path("saved-views/<int:view_id>", jobs.SavedViewView.as_view()),
    path("usage", jobs.UsageView.as_view()),
    path("webhook", notices.WebhookView.as_view()),
    path("webhook/test", notices.TestView.as_view()),
    path("webhook/deliveries", notices.DeliveriesView.as_view()),
    path("alerts", dispatch.AlertsView.as_view()),
    path("alert-silences", dispatch.AlertSilencesView.as_view()),
    path("alert-silences/<int:silence_id>", dispatch.AlertSilenceView.as_view()),
    path("settings", dispatch.SettingsView.as_view()),
    path("estimates", dispatch.EstimatesView.as_view()),
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
    path(f"{NODE_CODE}<str:signed>", jobs.node_code),
    path("api/docs", document_page, name="api-docs"),
    path("help", help_page, name="help"),
    path("help/<name:name>", help_page, name="help"),
    path("healthz", healthz, name="healthz"),
    path("metrics", dispatch.MetricsView.as_view(), name="metrics"),
    # The portal's own log-in: it counts the tries, and notes them.
    path("admin/login/", back_door_login),
    path("admin/password_change/", RedirectView.as_view(pattern_name="profile")),
    path("admin/", admin.site.urls),
]

handler400 = "portal.common.problems.bad_request"
handler404 = "portal.common.problems.not_found"
handler500 = "portal.common.problems.internal_error"
