"""Reading what people chose, what they were sent, and the webhook with its log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Denied, NotFound
from portal.notices.models import Delivery, Lane, Mail, NoticeChoice, Sending, Webhook
from portal.notices.states import AHEAD, GIVE_UP_AFTER, SendingState


def notice_choice(*, user: User) -> NoticeChoice:
    """What the user is told of; not stored where nothing was chosen yet."""
    return NoticeChoice.objects.filter(user=user).first() or NoticeChoice(user=user)


def mails_latest(*, user: User) -> Sequence[Mail]:
    """The user's last ten mails, each with the number of what it tells of (``notice_count``)."""
    mails = list(Mail.objects.filter(user=user).annotate(notice_count=Count("notices")).order_by("-id")[:10])
    for mail in mails:
        mail.notice_count += len(mail.alerts or ())
    return mails


def webhook_right(*, user: User, action: Action) -> None:
    """Raises NotFound for those who may not even see the webhook, Denied for those who may not do this with it."""
    if not allowed_everywhere(user, Action.WEBHOOK_READ):
        raise NotFound("webhook")
    if not allowed_everywhere(user, action):
        raise Denied(gettext("The webhook is for administrators; auditors may read it."))


def webhook_get(*, user: User) -> Webhook:
    """The webhook. Raises Denied, NotFound."""
    webhook_right(user=user, action=Action.WEBHOOK_READ)
    hook = Webhook.objects.first()
    if hook is None:
        raise NotFound("webhook")
    return hook


def deliveries(*, user: User) -> QuerySet[Delivery]:
    """What was and will be sent to the webhook, newest first. Raises Denied."""
    webhook_right(user=user, action=Action.WEBHOOK_READ)
    return Delivery.objects.order_by("-id")


FAILING = timedelta(minutes=15)
"""Tried for so long without anything taken: four or five attempts. A receiver or a mail server that restarts, or lets
strangers wait (greylisting), is back before."""


class Failing(NamedTuple):
    """That nothing is taken, since when, and the last that was said of it."""

    since: datetime
    error: str


SEVERAL = 2
"""While the other end answers, so many users, or deliveries, that it does not take are more than one mistyped address,
or one delivery that is disliked."""


def webhook_failing(*, now: datetime) -> Failing | None:
    """Where there is a webhook that takes nothing, though it was tried. At most five queries."""
    hook = Webhook.objects.only("changed_at").first()
    return _failing(Delivery, "webhook", "pk", max(now - GIVE_UP_AFTER, hook.changed_at), now) if hook else None


def mails_failing(*, now: datetime) -> Failing | None:
    """Where no mail is taken, though some were tried. At most four queries."""
    return _failing(Mail, "mail", "user", now - GIVE_UP_AFTER, now) if settings.EMAIL_ON else None


def _failing(model: type[Sending], lane: str, whose: str, given_up_after: datetime, now: datetime) -> Failing | None:
    """What waits after an attempt, or was given up since then, for so long without that anything was taken: where the
    other end does not answer, or does not take what is of several either."""
    tried = Q(state=SendingState.WAITING, attempts__gt=0)
    tried |= Q(state=SendingState.GIVEN_UP, ended_at__gt=given_up_after, attempts__gt=1)
    rows = model._default_manager.filter(tried).order_by("id")
    first = rows.filter(created_at__lt=now - FAILING).first()
    if first is None:
        return None
    sent = model._default_manager.filter(state=SendingState.SENT, ended_at__lte=now + AHEAD).order_by("-ended_at")
    taken = sent.values_list("ended_at", flat=True).first()
    since = max(first.created_at, taken) if taken else first.created_at
    if since > now - FAILING:
        return None
    if Lane.objects.filter(pk=lane, failures__gt=0).exists():
        return Failing(since, first.error)
    of_since = rows.filter(created_at__gte=since)
    refused = of_since.first()
    if refused is None or refused.created_at > now - FAILING:
        return None
    several = of_since.order_by().values(whose).distinct().count() >= SEVERAL
    return Failing(refused.created_at, refused.error) if several else None
