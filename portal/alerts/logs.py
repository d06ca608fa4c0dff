"""Alerts of virtual clusters whose log quota is nearly full, or too small for live jobs."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext

from portal.alerts.alert import Alert, Severity
from portal.common.prepared import Prepared
from portal.common.templatetags.frontend import size
from portal.teams.models import KeptLogs
from portal.teams.selectors.kept_logs import log_room

_KEPT = Prepared(lambda: KeptLogs.objects.filter(vc__removed_at=None).select_related("vc").order_by("vc__name"))


def log_alerts() -> Iterator[Alert]:
    """One for each virtual cluster whose logs will soon be deleted early, or already are. One query."""
    for kept in _KEPT():
        room, name = log_room(kept), kept.vc.name
        sizes = {"over": size(room.over), "live": size(room.live), "limit": size(room.limit)}
        if room.live_too_large:
            message = gettext("Its live jobs have written %(live)s of logs; %(limit)s are kept once they are over.")
            advice = gettext("Let them write less, download what you need, or ask an administrator for a larger quota.")
            yield Alert("log_quota", Severity.WARNING, "vc", name, message % sizes, advice, vcs=(name,))
        elif room.nearly_full:
            message = gettext(
                "Its jobs that are over have %(over)s of logs, of %(limit)s that are kept: those of the jobs that "
                "ended longest ago go first."
            )
            advice = gettext("Download what you need, or ask an administrator for a larger quota.")
            yield Alert("log_quota", Severity.INFO, "vc", name, message % sizes, advice, vcs=(name,))
