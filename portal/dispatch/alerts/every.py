"""All alerts, from wherever they are."""

from __future__ import annotations

from datetime import datetime

from portal.clusters.selectors import storages_offered
from portal.dispatch.alerts.alert import Alert
from portal.dispatch.alerts.folders import folder_alerts
from portal.dispatch.alerts.logs import log_alerts
from portal.dispatch.alerts.nodes import closed_alerts, node_alerts
from portal.dispatch.alerts.others import (
    backup_alerts,
    container_alerts,
    idle_alerts,
    quota_alerts,
    storage_alerts,
)
from portal.dispatch.alerts.parts import portal_alerts
from portal.dispatch.alerts.senders import sender_alerts


def alerts_all(*, now: datetime) -> list[Alert]:
    """All of them, whoever asks, also those that are silenced. A fixed number of queries."""
    offered = storages_offered()
    stored = [*quota_alerts(), *storage_alerts(offered), *container_alerts(), *idle_alerts(), *log_alerts()]
    healthy = [name for names in offered.values() for name in names]
    stored += folder_alerts()
    portal = [*portal_alerts(now), *backup_alerts(now), *sender_alerts(now)]
    return [*closed_alerts(), *node_alerts(healthy, now), *stored, *portal]
