"""REST: jobs."""

from portal.jobs.api.logs import LogsView
from portal.jobs.api.views import (
    AttemptsView,
    ConfigView,
    EventsView,
    JobsView,
    JobView,
    QueueView,
    StopView,
    TasksView,
    ValidateView,
)

__all__ = [
    "AttemptsView",
    "ConfigView",
    "EventsView",
    "JobView",
    "JobsView",
    "LogsView",
    "QueueView",
    "StopView",
    "TasksView",
    "ValidateView",
]
