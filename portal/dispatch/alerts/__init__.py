"""What is wrong now, worked out from rows and readings when somebody asks: nothing of it is stored, so that nothing of
it can be out of date."""

from __future__ import annotations

from datetime import datetime

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, allowed_everywhere
from portal.clusters.selectors import storages_offered, vcs_of
from portal.dispatch.alerts.alert import SEVERITIES, Alert, Severity
from portal.dispatch.alerts.nodes import SERVERS_CLOSED, closed_alerts, node_alerts
from portal.dispatch.alerts.others import (
    backup_alerts,
    container_alerts,
    idle_alerts,
    portal_alerts,
    quota_alerts,
    storage_alerts,
)

__all__ = ["SERVERS_CLOSED", "SEVERITIES", "Alert", "Severity", "alerts_all", "alerts_seen"]


def alerts_seen(*, user: User, now: datetime) -> list[Alert]:
    """The alerts that the user may read, the worst first: all, or those of the virtual clusters that one leads. A fixed
    number of queries."""
    everything = allowed_everywhere(user, Action.ALERT_READ)
    led = set() if everything else {vc.name for vc in vcs_of(user=user, relations=ALLOWED[Action.ALERT_READ])}
    if not everything and not led:
        return []
    return sorted((one for one in alerts_all(now=now) if everything or led & {*one.vcs}), key=lambda one: one.rank)


def alerts_all(*, now: datetime) -> list[Alert]:
    """All of them, whoever asks."""
    offered = storages_offered()
    stored = [*quota_alerts(), *storage_alerts(offered), *container_alerts(), *idle_alerts()]
    healthy = [name for names in offered.values() for name in names]
    return [*closed_alerts(), *node_alerts(healthy, now), *stored, *portal_alerts(now), *backup_alerts(now)]
