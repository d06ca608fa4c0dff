"""Password reset by a link that works once, for a day."""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.utils.translation import gettext, gettext_noop

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.accounts.services import PasswordsOff, user_set_password
from portal.common.errors import Conflict, RateLimited, Refused, Unavailable
from portal.common.throttles import Rate, RateLimit, by_address
from portal.common.wake import task_send

log = logging.getLogger(__name__)

MAIL_TASK = "control.password_mail"
ASKED = RateLimit("password-mail", Rate(*settings.LOGIN_RATE))
WRITTEN = RateLimit("password-mail-to", Rate(10, 3600))
"""Per account, whoever asked from wherever: nobody's mailbox can be flooded."""
MOST_MAILS = 5
"""Accounts of one address that get a mail at once."""
MOST_TYPED = 254
"""Length of the longest e-mail address."""


class LinkOver(Refused):
    """The link was used, has expired, or never was one."""

    status = 410
    title = gettext_noop("Not valid any more")

    def __init__(self) -> None:
        super().__init__(gettext("This link holds no more: it was used, or it is older than a day. Ask for a new one."))


def reset_link_make(*, user: User, now: datetime, actor: str) -> str:
    """The URL to set a new password once. Raises Conflict for a disabled account, PasswordsOff."""
    if not user.is_active:
        raise Conflict(gettext("The account %(name)s is disabled.") % {"name": user.username})
    if not settings.PASSWORDS:
        raise PasswordsOff
    audit_write(Audited.PASSWORD_LINK, actor=actor, target=user.username, now=now)
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    return f"{settings.URL}{reverse('password-new', kwargs={'uid': uid, 'token': token})}"


def reset_user(*, uid: str, token: str, held: bool = False) -> User:
    """The link's account; ``held`` locks its row until the caller's transaction ends. Raises LinkOver."""
    try:
        key = int(urlsafe_base64_decode(uid))
    except ValueError:
        raise LinkOver from None
    rows = User.objects.select_for_update() if held else User.objects.all()
    user = rows.filter(pk=key, is_active=True).first() if key < 2**63 else None
    if user is None or not settings.PASSWORDS or not default_token_generator.check_token(user, token):
        raise LinkOver
    return user


def reset_password(*, uid: str, token: str, password: str) -> User:
    """Sets the password of the link's account, which invalidates the link: of two concurrent uses the second fails.
    Raises LinkOver, django's ValidationError."""
    with transaction.atomic():
        user = reset_user(uid=uid, token=token, held=True)
        user_set_password(user=user, password=password)
    return user


def reset_ask(*, typed: str, address: str, now: datetime) -> None:
    """Has a link mailed to the account with this name or e-mail address. A worker looks it up: neither the answer nor
    its timing tells whether it exists. Raises RateLimited; Unavailable while the broker is down."""
    for key in (by_address(address), f"typed:{typed.lower()}"):
        ASKED.take(key, now=now)
    if not task_send(MAIL_TASK, typed, queue="control", expires=600):
        raise Unavailable(gettext("No e-mail can be sent at the moment. Try again in some minutes."))


def reset_mails_send(*, typed: str, now: datetime) -> int:
    """Mails a link to the accounts with this name or e-mail address that log in by password; returns how many. Raises
    SMTPException and OSError if the mail server refuses."""
    found = User.objects.filter(Q(username=typed) | Q(email__iexact=typed), is_active=True).exclude(email="")
    able = [user for user in found.order_by("pk")[:MOST_MAILS] if user.has_usable_password()]
    users = [user for user in able if _may_be_written_to(user, now)]
    if users and settings.PASSWORDS:
        with get_connection(fail_silently=False) as connection:
            connection.send_messages([_letter(user, now) for user in users])
    return len(users)


def _may_be_written_to(user: User, now: datetime) -> bool:
    try:
        WRITTEN.take(str(user.pk), now=now)
    except RateLimited:
        log.warning("%s asks for a new password again and again: no more letters for a while", user.username)
        return False
    return True


def _letter(user: User, now: datetime) -> EmailMessage:
    link = reset_link_make(user=user, now=now, actor="")
    with translation.override(user.language or settings.LANGUAGE_CODE):
        context = {"user": user, "cluster_name": settings.CLUSTER_NAME, "link": link}
        return EmailMessage(
            subject=gettext("[%(cluster)s] A new password for %(name)s")
            % {"cluster": settings.CLUSTER_NAME, "name": user.username},
            body=render_to_string("accounts/reset_mail.txt", context),
            from_email=settings.EMAIL_FROM,
            to=[user.email],
            headers={"Auto-Submitted": "auto-generated"},
        )
