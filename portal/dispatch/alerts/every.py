"""All alerts, from wherever they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from portal.clusters.selectors import storages_offered
from portal.common.prepared import Prepared
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
from portal.dispatch.models import AlertWatch


def alerts_all(*, now: datetime) -> list[Alert]:
    """All of them, whoever asks, also those that are silenced. Where no row tells since when something is wrong, it is
    since the look that found it first. A fixed number of queries."""
    watch, offered = _WATCH.first(), storages_offered()
    stored = [*quota_alerts(), *storage_alerts(offered), *container_alerts(), *idle_alerts(), *log_alerts()]
    healthy = [name for names in offered.values() for name in names]
    stored += folder_alerts()
    portal = [*portal_alerts(now, watch), *backup_alerts(now), *sender_alerts(now)]
    found = [*closed_alerts(), *node_alerts(healthy, now), *stored, *portal]
    return [_dated(one, watch.known.get(one.key)) for one in found] if watch else found


def _dated(alert: Alert, known: Mapping[str, Any] | None) -> Alert:
    return alert if alert.since or known is None else replace(alert, since=datetime.fromisoformat(known["seen"]))


_WATCH = Prepared(lambda: AlertWatch.objects.order_by()[:1])
