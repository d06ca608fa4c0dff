"""The text of an e-mail: plain, and the same as HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.notices.models import Notice
from portal.notices.states import JobNotice

MOST_SUBJECT = 150
MOST_LISTED = 200
"""Of a mail of many notices; the others are counted."""


def letter(*, key: UUID, user: User, notices: Sequence[Notice]) -> EmailMultiAlternatives:
    """The message about these notices, with a Message-ID that is the same each time it is sent; in
    the user's own language, where one was chosen."""
    with translation.override(user.language or settings.LANGUAGE_CODE):
        return _letter(key, user, notices)


def _letter(key: UUID, user: User, notices: Sequence[Notice]) -> EmailMultiAlternatives:
    context = {
        "cluster_name": settings.CLUSTER_NAME,
        "url": settings.URL,
        "user": user,
        "notices": [_line(one) for one in notices[:MOST_LISTED]],
        "more": max(len(notices) - MOST_LISTED, 0),
        "sums": _sums(notices),
    }
    message = EmailMultiAlternatives(
        subject=_subject(notices),
        body=render_to_string("notices/mail.txt", context),
        from_email=settings.EMAIL_FROM,
        to=[user.email],
        headers={
            "Message-ID": f"<{key.hex}@{urlsplit(settings.URL).hostname}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    message.attach_alternative(render_to_string("notices/mail.html", context), "text/html")
    return message


def _line(notice: Notice) -> dict[str, object]:
    return {
        "job": notice.job.label,
        "what": JobNotice(notice.kind).label,
        "at": notice.at,
        "message": _clean(notice.message),
        "url": f"{settings.URL}/jobs/{notice.job_id}",
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
    line = f"[{settings.CLUSTER_NAME}] {_clean(text)}"
    return line if len(line) <= MOST_SUBJECT else f"{line[: MOST_SUBJECT - 1]}…"


def _clean(text: str) -> str:
    """One line without control characters: names and causes come from people and their programs."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()
