"""Alerts are told: to administrators by mail, and to the webhook, when they have begun and when they are over.

What is wrong is worked out anew at each look. Kept from one look to the next is only what lasts, and which of it was
told (``AlertWatch.known``). What a look finds out, what it tells and what it keeps is one transaction: who is killed
before its end has told nobody, and the next look tells it.
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
"""A look each so many seconds, by whichever worker is first."""
LEAST_PAUSE = timedelta(seconds=LOOK_S * 0.6)
BEGUN_AFTER = timedelta(minutes=1)
"""What is over sooner is not told. A server is silent for half a minute before it is lost (BERTH_NODE_LOST_AFTER), a
restarted part of the portal is back within seconds: neither is a mail."""
OVER_AFTER = timedelta(minutes=5)
"""What comes back sooner was never over: a fault that comes and goes is told once."""
TOLD = frozenset({Severity.CRITICAL, Severity.WARNING})
"""Information is read on the page; whom it concerns is told otherwise."""
CLOCK_BACK = timedelta(minutes=1)

Words = Mapping[str, AlertWords]


class Entry(TypedDict, total=False):
    """Of an alert that lasts: since when it is ``seen``; once it was told, since when it was wrong as it was told
    (``since``), of what it is and what was ``said``; ``gone``: since when it is not there any more; ``worse``,
    ``milder``: since when it is so than its ``severity``, as which it was told; ``source``: the question that found it
    last. Moments as in ISO 8601."""

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
    """What a look makes of what it finds: what lasts, and the keys of what is to be told."""

    lasting: dict[str, Entry]
    begun: list[str]
    over: list[str]


def alerts_look(*, now: datetime) -> bool:
    """Look at the alerts, and tell what has begun and what is over; False while another looks, or has just looked. One
    that fails counts as none, so that it shows (``control_stopped``) that nobody is told anything."""
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
        # Only the last who looked: what another found meanwhile is newer.
        if AlertWatch.objects.filter(id=1, looked_at=now).update(known=judged.lasting) and changes:
            alerts_tell(changes=sorted(changes, key=_rank), now=now)


def _claim(now: datetime) -> datetime | None:
    """The moment of the look before, where the one that is due is the caller's; a clock that was set back holds it up
    no longer than a moment."""
    before = AlertWatch.objects.get_or_create(id=1, defaults={"looked_at": now - LEAST_PAUSE})[0].looked_at
    due = Q(looked_at__lte=now - LEAST_PAUSE) | Q(looked_at__gt=now + CLOCK_BACK)
    claimed = AlertWatch.objects.filter(due, id=1, looked_at=before).update(looked_at=now)
    return before if claimed else None


def _found(now: datetime) -> dict[str, Alert]:
    with translation.override(settings.LANGUAGE_CODE):
        return {one.key: one for one in alerts_all(now=now) if one.severity in TOLD}


def judge(found: Mapping[str, Alert], known: Known, silences: Mapping[str, AlertSilence], now: datetime) -> Judged:
    """By keys, severities and sources alone. What is silenced is as if it were not there, and is told anew if it is
    when the silence ends, or when it gets worse than it was silenced. Whether that is over which a question found that
    fails now, nobody knows: it stays as it was."""
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
    """What is known of an alert that is there. What was told is told anew once it is worse; once it has been milder for
    as long as it takes to be over, it counts as told so, and a relapse is worse again."""
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
    """What each of these says in every language of the portal. Where nothing is to be told, nothing is asked."""
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
    """What is kept of it, to tell its end."""
    said = {language: list(words) for language, words in change.said.items()}
    return Entry(seen=entry["seen"], source=entry["source"], since=change.since.isoformat(), code=change.code,
                 severity=change.severity, kind=change.kind, said=said)  # fmt: skip


def _over(key: str, entry: Entry) -> AlertChange:
    said = {language: AlertWords(*words) for language, words in entry["said"].items()}
    since, gone = datetime.fromisoformat(entry["since"]), datetime.fromisoformat(entry["gone"])
    return AlertChange(False, key, entry["code"], entry["severity"], entry["kind"], since, gone, said)


def _rank(change: AlertChange) -> tuple[Any, ...]:
    return not change.begun, SEVERITIES.index(Severity(change.severity)), change.key
