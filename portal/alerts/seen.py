"""Alerts and silences visible to a user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action, allowed_everywhere
from portal.alerts.alert import Alert
from portal.alerts.every import alerts_all
from portal.alerts.models import AlertSilence
from portal.alerts.silences import silenced, silences_holding
from portal.teams.selectors.visible import vcs_of


def alerts_seen(*, user: User, now: datetime) -> list[Alert]:
    """The visible alerts, the worst first and silenced ones last: all, or those of virtual clusters that the user
    leads. A fixed number of queries."""
    everything = allowed_everywhere(user, Action.ALERT_READ)
    led = set() if everything else {vc.name for vc in vcs_of(user=user, relations=ALLOWED[Action.ALERT_READ])}
    if not everything and not led:
        return []
    seen = [one for one in alerts_all(now=now) if everything or led & {*one.vcs}]
    return sorted(silenced(seen, silences_holding(now=now)), key=lambda one: one.rank)


def silences_seen(*, user: User, now: datetime, alerts: Sequence[Alert] | None = None) -> Sequence[AlertSilence]:
    """Silences in force, the first to end first, even if their alert is worse by now: all for those who see all alerts,
    else those of the visible alerts (``alerts``, if known)."""
    if allowed_everywhere(user, Action.ALERT_READ):
        return silences_holding(now=now)
    seen = alerts_seen(user=user, now=now) if alerts is None else alerts
    read = {one.key for one in seen}
    return [one for one in silences_holding(now=now) if one.key in read]
