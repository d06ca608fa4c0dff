"""Collects all alerts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext, gettext_noop

from portal.alerts.alert import Alert, Severity
from portal.alerts.folders import folder_alerts
from portal.alerts.logs import log_alerts
from portal.alerts.models import AlertWatch
from portal.alerts.nodes import closed_alerts, node_alerts
from portal.alerts.others import (
    backup_alerts,
    container_alerts,
    hang_alerts,
    idle_alerts,
    owner_alerts,
    quota_alerts,
    storage_alerts,
)
from portal.alerts.parts import portal_alerts
from portal.alerts.senders import sender_alerts
from portal.common.prepared import Prepared
from portal.storages.selectors.storages import Offered, storages_offered

log = logging.getLogger(__name__)

UNCLEAR = "alerts_unclear"
"""Code of the alert that one of the checks fails."""


def alerts_all(*, now: datetime) -> list[Alert]:
    """All alerts, silenced ones included, for whichever reader. If no row tells since when something is wrong, the time
    is that of the look that first found it. A fixed number of queries. Raises OperationalError, InterfaceError if the
    database itself fails."""
    watch = _WATCH.first()
    found = [one for name, ask in _questions(now, watch).items() for one in _answered(name, ask)]
    return [_dated(one, watch.known.get(one.key)) for one in found] if watch else found


def _questions(now: datetime, watch: AlertWatch | None) -> dict[str, Callable[[], Iterable[Alert]]]:
    offered = cache(storages_offered)  # queried once, by the first that needs it
    return {
        gettext_noop("servers that take jobs"): closed_alerts,
        gettext_noop("servers and GPUs"): lambda: node_alerts(_healthy(offered()), now),
        gettext_noop("quotas"): quota_alerts,
        gettext_noop("storages"): lambda: storage_alerts(offered()),
        gettext_noop("containers"): lambda: container_alerts(now),
        gettext_noop("idle jobs"): idle_alerts,
        gettext_noop("jobs that hang"): hang_alerts,
        gettext_noop("owners of jobs"): owner_alerts,
        gettext_noop("room for logs"): log_alerts,
        gettext_noop("job folders"): lambda: folder_alerts(now),
        gettext_noop("the portal's parts"): lambda: portal_alerts(now, watch),
        gettext_noop("backups"): lambda: backup_alerts(now),
        gettext_noop("webhook and mail"): lambda: sender_alerts(now),
    }


def _healthy(offered: Offered) -> list[str]:
    return [name for names in offered.values() for name in names]


def _answered(name: str, ask: Callable[[], Iterable[Alert]]) -> Iterator[Alert]:
    """Runs one check: if it fails, the others go on, and the failure is an alert itself. A failing database fails
    all."""
    try:
        for one in ask():
            yield replace(one, source=name)
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("what is wrong with %s cannot be told", name)
        message = gettext("What is wrong there cannot be told: the look at it fails.")
        advice = gettext("The portal's log says what it stumbles over. What is told of everything else holds.")
        yield Alert(UNCLEAR, Severity.CRITICAL, "portal", gettext(name), message, advice, ref=name, source=name)


def _dated(alert: Alert, known: Mapping[str, Any] | None) -> Alert:
    return alert if alert.since or known is None else replace(alert, since=datetime.fromisoformat(known["seen"]))


_WATCH = Prepared(lambda: AlertWatch.objects.order_by()[:1])
