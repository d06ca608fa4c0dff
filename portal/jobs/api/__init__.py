"""REST: jobs."""

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

__all__ = [
    "StrangerStopView",
    "SamplesView",
    "AllLogsView",
    "TemplateView",
    "TemplatesView",
    "AttemptsView",
    "BulkView",
    "CodeArchiveView",
    "CodeFolderView",
    "CodeFoldersView",
    "CodeLimitsView",
    "ConfigView",
    "EventsView",
    "FileContentView",
    "FilesView",
    "GiveUpView",
    "IdleExemptionView",
    "IdleExemptionsView",
    "IdlePolicyView",
    "JobIdleExtendView",
    "JobIdleView",
    "TeamIdlePolicyView",
    "JobView",
    "JobsView",
    "LogSearchView",
    "LogsView",
    "MetricsView",
    "MoveView",
    "PauseView",
    "PlaceView",
    "PreemptionsView",
    "PriorityView",
    "QueueView",
    "ResumeView",
    "SavedViewView",
    "SavedViewsView",
    "StopView",
    "TagsView",
    "TasksView",
    "UsageView",
    "ValidateView",
    "node_code",
]
