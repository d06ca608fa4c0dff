"""The text of an e-mail: plain, and the same as HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.models import User
from portal.jobs.models import Job
from portal.notices.models import Notice
from portal.notices.states import ENDS, JobNotice

MOST_SUBJECT = 150
MOST_LISTED = 200
"""Of a mail of many notices; the others are counted."""
MOST_ADVISED = 10
"""Of a mail with more notices, none has advice."""


Adviser = Callable[[Job], Sequence[str]]
_advisers: list[Adviser] = []


def advises(adviser: Adviser) -> Adviser:
    """Registers a function that gives sentences for the mail about a job's end, in the language that is active."""
    _advisers.append(adviser)
    return adviser


def letter(*, key: UUID, user: User, notices: Sequence[Notice]) -> EmailMultiAlternatives:
    """The message about these notices, with a Message-ID that is the same each time it is sent; in
    the user's own language, where one was chosen."""
    with translation.override(user.language or settings.LANGUAGE_CODE):
        return _letter(key, user, notices)


def _letter(key: UUID, user: User, notices: Sequence[Notice]) -> EmailMultiAlternatives:
    context = {
        "notices": [_line(one, advised=len(notices) <= MOST_ADVISED) for one in notices[:MOST_LISTED]],
        "more": max(len(notices) - MOST_LISTED, 0),
        "sums": _sums(notices),
    }
    return _message(key, user, _subject(notices), "notices/mail", context)


def alerts_letter(*, key: UUID, user: User, alerts: Sequence[Mapping[str, Any]]) -> EmailMultiAlternatives:
    """The same of alerts that began or are over, which are in the user's language already."""
    begun = [one for one in alerts if one["begun"]]
    over = [one for one in alerts if not one["begun"]]
    context = {
        "begun": [_alert(one) for one in begun[:MOST_LISTED]],
        "over": [_alert(one) for one in over[:MOST_LISTED]],
        "more": max(len(begun) - MOST_LISTED, 0) + max(len(over) - MOST_LISTED, 0),
    }
    with translation.override(user.language or settings.LANGUAGE_CODE):
        return _message(key, user, _alerts_subject(begun, over), "notices/alerts_mail", context)


def _alert(one: Mapping[str, Any]) -> dict[str, object]:
    times = {name: datetime.fromisoformat(one[name]) for name in ("since", "at")}
    return {**one, **times, "name": _clean(one["name"]), "message": _clean(one["message"])}


def _alerts_subject(begun: Sequence[Mapping[str, Any]], over: Sequence[Mapping[str, Any]]) -> str:
    if len(begun) + len(over) == 1:
        (one,) = [*begun, *over]
        words = _("Alert: %(name)s: %(message)s") if begun else _("Over: %(name)s: %(message)s")
        return _line_of(words % {"name": one["name"], "message": one["message"]})
    new = ngettext("%(count)s new alert", "%(count)s new alerts", len(begun)) % {"count": len(begun)}
    old = ngettext("%(count)s alert over", "%(count)s alerts over", len(over)) % {"count": len(over)}
    sums = ", ".join([*([new] if begun else []), *([old] if over else [])])
    names = ", ".join(dict.fromkeys(str(one["name"]) for one in [*begun, *over]))
    return _line_of(f"{sums}: {names}")


def _message(key: UUID, user: User, subject: str, template: str, context: Mapping[str, Any]) -> EmailMultiAlternatives:
    context = {"cluster_name": settings.CLUSTER_NAME, "url": settings.URL, "user": user, **context}
    message = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"{template}.txt", context),
        from_email=settings.EMAIL_FROM,
        to=[user.email],
        headers={
            "Message-ID": f"<{key.hex}@{urlsplit(settings.URL).hostname}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    message.attach_alternative(render_to_string(f"{template}.html", context), "text/html")
    return message


def _line(notice: Notice, *, advised: bool) -> dict[str, object]:
    return {
        "job": notice.job.label,
        "what": JobNotice(notice.kind).label,
        "at": notice.at,
        "message": _clean(notice.message),
        "url": f"{settings.URL}/jobs/{notice.job_id}",
        "advice": [words for adviser in _advisers for words in adviser(notice.job)]
        if advised and notice.kind in ENDS
        else [],
    }


def _sums(notices: Sequence[Notice]) -> str:
    """How many of each kind."""
    counts = Counter(JobNotice(one.kind).label for one in notices)
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _subject(notices: Sequence[Notice]) -> str:
    if len(notices) == 1:
        one = notices[0]
        text = f"{one.job.label} {JobNotice(one.kind).label}: {one.message}"
    else:
        text = _("%(count)s changes of your jobs: %(sums)s") % {"count": len(notices), "sums": _sums(notices)}
    return _line_of(text)


def _line_of(text: str) -> str:
    line = f"[{settings.CLUSTER_NAME}] {_clean(text)}"
    return line if len(line) <= MOST_SUBJECT else f"{line[: MOST_SUBJECT - 1]}…"


def _clean(text: str) -> str:
    """One line without control characters: names and causes come from people and their programs."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()
