"""REST: what the scheduler says; the cluster's configuration and quotas, and what a change would do to running jobs."""

from portal.dispatch.api.alerts import AlertSilencesView, AlertSilenceView, AlertsView
from portal.dispatch.api.cluster import ClusterView
from portal.dispatch.api.estimates import EstimatesView
from portal.dispatch.api.metrics import MetricsView
from portal.dispatch.api.nodes import RemovableNodeView
from portal.dispatch.api.quotas import QuotaChangesView, QuotaChangeView, QuotasView
from portal.dispatch.api.settings import SettingsView

__all__ = [
    "AlertSilenceView",
    "AlertSilencesView",
    "AlertsView",
    "ClusterView",
    "EstimatesView",
    "MetricsView",
    "QuotaChangeView",
    "QuotaChangesView",
    "QuotasView",
    "RemovableNodeView",
    "SettingsView",
]
