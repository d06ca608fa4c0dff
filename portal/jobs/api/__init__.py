"""REST: jobs."""

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
    "QueueView",
    "StopView",
    "TasksView",
    "ValidateView",
]
