"""Sends alerts to administrators by mail, and to the webhook, when they begin and when they end.

Alerts are computed anew at each look. Stored between looks is only which of them last, and which were sent
(``AlertWatch.known``). A look stores its state and queues its messages in one transaction: if killed before the commit
nothing was sent, and the next look sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import translation

from portal.alerts.alert import SEVERITIES, Alert, Severity
from portal.alerts.every import UNCLEAR, alerts_all
from portal.alerts.models import AlertSilence, AlertWatch
from portal.alerts.silences import covering, silences_expire, silences_holding
from portal.notices.services.alerts import alerts_tell
from portal.notices.services.bodies import AlertChange, AlertWords

LOOK_S = 15.0
"""Seconds between looks, by whichever worker is first."""
LEAST_PAUSE = timedelta(seconds=LOOK_S * 0.6)
BEGUN_AFTER = timedelta(minutes=1)
"""Alerts that end sooner are not sent. A server is silent for half a minute before it is lost (BERTH_NODE_LOST_AFTER),
a restarted process is back within seconds: neither is worth a mail."""
OVER_AFTER = timedelta(minutes=5)
"""An alert that returns sooner has not ended: an intermittent fault is sent once."""
TOLD = frozenset({Severity.CRITICAL, Severity.WARNING})
"""Info is only shown on the page; those concerned are notified otherwise."""
CLOCK_BACK = timedelta(minutes=1)

Words = Mapping[str, AlertWords]


class Entry(TypedDict, total=False):
    """State of a lasting alert, times in ISO 8601. ``seen``: since when it is there; ``source``: the check that found
    it last. Once it was sent: ``since`` (as sent), what it is and what was ``said``; ``gone``: since when it is absent;
    ``worse``, ``milder``: since when it differs so from ``severity``, as which it was sent."""

    seen: str
    source: str
    since: str
    code: str
    severity: str
    kind: str
    said: dict[str, list[str]]
    gone: str
    worse: str
    milder: str


Known = Mapping[str, Entry]


class Judged(NamedTuple):
    """The result of a look: the lasting alerts, and the keys of those whose beginning or end is to be sent."""

    lasting: dict[str, Entry]
    begun: list[str]
    over: list[str]


def alerts_look(*, now: datetime) -> bool:
    """Looks at the alerts, and sends what began and what ended; False if another worker looks, or has just looked. A
    failed look does not count, so that it shows (``control_stopped``) that nobody is notified."""
    before = _claim(now)
    if before is None:
        return False
    try:
        _look(now)
    except Exception:
        AlertWatch.objects.filter(id=1, looked_at=now).update(looked_at=min(before, now - LEAST_PAUSE))
        raise
    return True


def _look(now: datetime) -> None:
    silences_expire(now=now)
    found = _found(now)
    known: Known = AlertWatch.objects.get(id=1).known
    judged = judge(found, known, {one.key: one for one in silences_holding(now=now)}, now)
    said = _said(judged.begun, found, now)
    changes = [_begun(found[key], said[key], judged.lasting[key], now) for key in judged.begun]
    for key, change in zip(judged.begun, changes, strict=True):
        judged.lasting[key] = _told(change, judged.lasting[key])
    changes += [_over(key, known[key]) for key in judged.over]
    if judged.lasting == known:
        return
    with transaction.atomic():
        # Only if nobody has looked since: that state would be newer.
        if AlertWatch.objects.filter(id=1, looked_at=now).update(known=judged.lasting) and changes:
            alerts_tell(changes=sorted(changes, key=_rank), now=now)


def _claim(now: datetime) -> datetime | None:
    """Claims the look if it is due, and returns the time of the last one, else None. A last look in the future (the
    clock was set back) does not block."""
    before = AlertWatch.objects.get_or_create(id=1, defaults={"looked_at": now - LEAST_PAUSE})[0].looked_at
    due = Q(looked_at__lte=now - LEAST_PAUSE) | Q(looked_at__gt=now + CLOCK_BACK)
    claimed = AlertWatch.objects.filter(due, id=1, looked_at=before).update(looked_at=now)
    return before if claimed else None


def _found(now: datetime) -> dict[str, Alert]:
    with translation.override(settings.LANGUAGE_CODE):
        return {one.key: one for one in alerts_all(now=now) if one.severity in TOLD}


def judge(found: Mapping[str, Alert], known: Known, silences: Mapping[str, AlertSilence], now: datetime) -> Judged:
    """Compares found with known alerts, by keys, severities and sources alone. A silenced alert counts as absent, and
    begins anew if it is there when the silence ends, or when it gets worse than it was silenced. An alert whose check
    fails now stays as it was: it may or may not have ended."""
    unclear = {one.source for one in found.values() if one.code == UNCLEAR}
    there = {key: one.severity for key, one in found.items() if not covering(silences.get(key), one.severity)}
    judged = Judged({}, [], [])
    for key, severity in there.items():
        entry = judged.lasting[key] = _going_on(known.get(key, Entry(seen=now.isoformat())), severity, now)
        entry["source"] = found[key].source
        if _lasted(entry.get("worse") if "said" in entry else entry["seen"], BEGUN_AFTER, now):
            judged.begun.append(key)
    for key, entry in known.items():
        if key in there or "said" not in entry or covering(silences.get(key), Severity(entry["severity"])):
            continue
        if entry.get("source") in unclear:
            judged.lasting[key] = entry
            continue
        gone = entry.get("gone") or now.isoformat()
        if _lasted(gone, OVER_AFTER, now):
            judged.over.append(key)
        else:
            judged.lasting[key] = {**entry, "gone": gone}
    return judged


def _going_on(known: Entry, severity: Severity, now: datetime) -> Entry:
    """The entry of a present alert. If it got worse than it was sent, it is to be sent again; once it has been milder
    for ``OVER_AFTER``, the milder severity counts as sent, and a relapse is worse again."""
    entry = known.copy()
    entry.pop("gone", None)
    entry.pop("worse", None)
    entry.pop("milder", None)
    if "said" not in entry or severity == entry["severity"]:
        return entry
    if severity.worse_than(Severity(entry["severity"])):
        entry["worse"] = known.get("worse") or now.isoformat()
        return entry
    entry["milder"] = known.get("milder") or now.isoformat()
    if _lasted(entry["milder"], OVER_AFTER, now):
        entry["severity"] = str(severity)
        del entry["milder"]
    return entry


def _lasted(since: str | None, long: timedelta, now: datetime) -> bool:
    return since is not None and now - datetime.fromisoformat(since) >= long


def _said(keys: Iterable[str], found: Mapping[str, Alert], now: datetime) -> dict[str, dict[str, AlertWords]]:
    """The alerts' texts in every language of the portal; no queries if there are none to send."""
    said = {key: {settings.LANGUAGE_CODE: _words(found[key])} for key in keys}
    for language, _name in settings.LANGUAGES:
        if said and language != settings.LANGUAGE_CODE:
            with translation.override(language):
                there = {one.key: _words(one) for one in alerts_all(now=now)}
            for key, words in said.items():
                words[language] = there.get(key, words[settings.LANGUAGE_CODE])
    return said


def _words(alert: Alert) -> AlertWords:
    return AlertWords(alert.name, alert.message, alert.advice)


def _begun(alert: Alert, said: Words, entry: Entry, now: datetime) -> AlertChange:
    since = alert.since or datetime.fromisoformat(entry["seen"])
    return AlertChange(True, alert.key, alert.code, str(alert.severity), alert.kind, since, now, said)


def _told(change: AlertChange, entry: Entry) -> Entry:
    """The entry of an alert that was sent, with what is needed to send its end."""
    said = {language: list(words) for language, words in change.said.items()}
    return Entry(seen=entry["seen"], source=entry["source"], since=change.since.isoformat(), code=change.code,
                 severity=change.severity, kind=change.kind, said=said)  # fmt: skip


def _over(key: str, entry: Entry) -> AlertChange:
    said = {language: AlertWords(*words) for language, words in entry["said"].items()}
    since, gone = datetime.fromisoformat(entry["since"]), datetime.fromisoformat(entry["gone"])
    return AlertChange(False, key, entry["code"], entry["severity"], entry["kind"], since, gone, said)


def _rank(change: AlertChange) -> tuple[Any, ...]:
    return not change.begun, SEVERITIES.index(Severity(change.severity)), change.key
