"""Pages of what the scheduler is told, and of what is wrong."""

from portal.dispatch.views.alerts import alert_silence, alert_silence_end, alerts, alerts_brief, settings
from portal.dispatch.views.configuration import configuration
from portal.dispatch.views.nodes import node_end
from portal.dispatch.views.quota import quota, quota_change_end

__all__ = [
    "alert_silence",
    "alert_silence_end",
    "alerts",
    "alerts_brief",
    "configuration",
    "node_end",
    "quota",
    "quota_change_end",
    "settings",
]
