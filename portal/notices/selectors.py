"""Reading what people chose, what they were sent, and the webhook with its log."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Count, QuerySet
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Denied, NotFound
from portal.notices.models import Delivery, Mail, NoticeChoice, Webhook


def notice_kinds(*, user: User) -> list[str]:
    """What the user is told of, of every job."""
    choice = NoticeChoice.objects.filter(user=user).first()
    return list(choice.kinds) if choice else []


def mails_latest(*, user: User) -> Sequence[Mail]:
    """The user's last ten mails, each with the number of its ``notice_count``."""
    return list(Mail.objects.filter(user=user).annotate(notice_count=Count("notices")).order_by("-id")[:10])


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
