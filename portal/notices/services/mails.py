"""Notices become e-mails, a few each minute for each user, and go to the mail server."""

from __future__ import annotations

from datetime import datetime, timedelta
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db import transaction
from django.db.models import Count

from portal.accounts.addresses import address_validate
from portal.accounts.models import User
from portal.common.failpoint import failpoint
from portal.common.mail_faults import mail_fault
from portal.notices.letters import alerts_letter, letter
from portal.notices.models import Lane, Mail, Notice
from portal.notices.services.sending import (
    attempt,
    claim_next,
    error_words,
    lane_make,
    lane_open,
    lane_shut,
    sending_done,
    sending_failed,
    sending_refused,
)
from portal.notices.states import AHEAD

LANE = "mail"
MINUTE = timedelta(minutes=1)
NOT_AVAILABLE = 421
"""The server closes the connection: it says nothing of this mail (RFC 5321)."""
MOST_ALONE = 3
"""So many notices of a user at once have a mail each; more of them are one mail."""
USERS_AT_ONCE = 200


def mails_make(*, now: datetime) -> int:
    """Put the notices that wait into mails; how many. A user who was written to as often as is allowed in a minute gets
    all that came meanwhile in one mail, in the next."""
    lane_make(LANE, now=now)
    with transaction.atomic():
        Lane.objects.select_for_update().get(pk=LANE)  # one maker at a time
        waiting = Notice.objects.filter(mail=None).order_by().values_list("user").annotate(Count("pk"))
        recent = Mail.objects.filter(created_at__gt=now - MINUTE, created_at__lte=now + AHEAD)
        recent_of = recent.order_by().values_list("user").annotate(Count("pk"))
        written = dict(recent_of)
        room = {user: settings.MAILS_PER_MINUTE - written.get(user, 0) for user, _ in waiting}
        users = sorted(user for user, left in room.items() if left > 0)[:USERS_AT_ONCE]
        return sum(_make(user, room[user], now) for user in users)


def _make(user: int, room: int, now: datetime) -> int:
    notices = list(Notice.objects.filter(user=user, mail=None).order_by("pk").values_list("pk", flat=True))
    together = [notices] if len(notices) > min(room, MOST_ALONE) else [[one] for one in notices]
    for keys in together:
        mail = Mail.objects.create(user_id=user, created_at=now, next_try_at=now, claimed_until=now)
        Notice.objects.filter(user=user, mail=None, pk__gte=keys[0], pk__lte=keys[-1]).update(mail=mail)
    return len(together)


def mail_send_next(*, now: datetime) -> bool:
    """Try the mail that is due first; whether the next may be tried now."""
    row = claim_next(Mail, now=now)
    if row is None:
        return False
    return attempt(row, lambda: _try(row, now), now=now)


def _try(row: Mail, now: datetime) -> bool:
    user = User.objects.get(pk=row.user_id)
    if refusal := _unreachable(user):
        sending_refused(row, error=refusal, now=now)
        return True
    if row.alerts:
        return _send(row, alerts_letter(key=row.key, user=user, alerts=row.alerts), now)
    notices = list(row.notices.select_related("job__user").defer("job__spec", "job__config", "job__secrets_sealed"))
    if not notices:
        sending_refused(row, error="The jobs that it was about are deleted.", now=now)
        return True
    return _send(row, letter(key=row.key, user=user, notices=notices), now)


def _unreachable(user: User) -> str:
    if not user.is_active:
        return "The account is disabled."
    try:
        address_validate(user.email)
    except ValidationError:
        return "The account has no valid e-mail address."
    return ""


def _send(row: Mail, message: EmailMultiAlternatives, now: datetime) -> bool:
    try:
        # A connection each: what one mail does to it must not be the next one's fault.
        with get_connection(fail_silently=False) as connection:
            connection.send_messages([message])
    except (SMTPRecipientsRefused, SMTPDataError) as error:
        return _refused(row, error, now)
    except (SMTPException, OSError) as error:
        sending_failed(row, error=mail_fault(error), now=now)
        lane_shut(LANE, now=now)
        return False
    failpoint("mail_sent")
    sending_done(row, now=now)
    lane_open(LANE)
    return True


def _refused(row: Mail, error: SMTPRecipientsRefused | SMTPDataError, now: datetime) -> bool:
    """Replies of 500 and above are for good; others are for now (RFC 5321)."""
    code = error.smtp_code if isinstance(error, SMTPDataError) else min(code for code, _ in error.recipients.values())
    settle = sending_refused if code >= 500 else sending_failed
    settle(row, error=error_words(error), now=now)
    if code == NOT_AVAILABLE:
        lane_shut(LANE, now=now)
        return False
    lane_open(LANE)
    return True
