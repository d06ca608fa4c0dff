"""Writing accounts and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, ClusterRole, Scope, Token, User
from portal.common.errors import Denied
from portal.common.throttles import Rate, RateLimit

TOKEN_MARK = "berth_"  # what a token begins with, so that a leaked one is recognised
TOKEN_BYTES = 32
TOUCH_EVERY = timedelta(minutes=1)
SIGN_INS = RateLimit("login", Rate(*settings.LOGIN_RATE))


class WrongPassword(Denied):
    """No active account has this name and password; which of them is wrong is not told."""

    status = 401
    title = "Not signed in"

    def __init__(self) -> None:
        super().__init__("User name or password is wrong.")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at its making: the only moment at which its ``secret`` is known."""

    token: Token
    secret: str


def sign_in(*, username: str, password: str, address: str, now: datetime) -> User:
    """The account with this password.

    Counts tries per address and per user name; a success clears both counts. Raises WrongPassword, RateLimited.
    """
    keys = (f"address:{address}", f"user:{username.lower()}")
    for key in keys:
        SIGN_INS.take(key, now=now)
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        audit_write(Audited.SIGN_IN_REFUSED, actor="", target=username, now=now)
        raise WrongPassword
    for key in keys:
        SIGN_INS.clear(key, now=now)
    audit_write(Audited.SIGN_IN, actor=user.username, target=user.username, now=now)
    return user


def token_create(*, user: User, name: str, scope: Scope, now: datetime, expires_at: datetime | None) -> NewToken:
    """A new token; its secret is returned here and nowhere kept."""
    secret = TOKEN_MARK + secrets.token_urlsafe(TOKEN_BYTES)
    with transaction.atomic():
        token = Token.objects.create(
            user=user,
            name=name,
            prefix=secret[:12],
            digest=Token.digest_of(secret),
            scope=scope,
            created_at=now,
            expires_at=expires_at,
        )
        ends = expires_at.isoformat() if expires_at else None
        after = {"name": name, "scope": str(scope), "expires_at": ends}
        audit_write(Audited.TOKEN_CREATE, actor=user.username, target=token.prefix, now=now, after=after)
    return NewToken(token, secret)


def token_revoke(*, token: Token, now: datetime) -> None:
    """Ends a token; open websockets that use it close within seconds. Doing it twice is doing it once."""
    with transaction.atomic():
        if Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            before = {"name": token.name, "scope": token.scope}
            audit_write(
                Audited.TOKEN_REVOKE, actor=token.user.username, target=token.prefix, now=now, before=before
            )  # fmt: skip


def token_touch(*, token: Token, now: datetime) -> None:
    """Notes that the token was used; at most one write a minute. The first use of a day (UTC) stands in the audit
    log."""
    last = token.last_used_at
    if last is not None and last >= now - TOUCH_EVERY:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - TOUCH_EVERY)
    with transaction.atomic():
        touched = Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        if touched and (last is None or last.astimezone(UTC).date() < now.astimezone(UTC).date()):
            audit_write(Audited.TOKEN_USE, actor=token.user.username, target=token.prefix, now=now)


def user_create(
    *,
    username: str,
    password: str,
    email: str = "",
    role: ClusterRole = ClusterRole.USER,
    actor: str = "",
    rules: Sequence[Any] | None = None,
) -> User:
    """A new account. An administrator may also use Django's own admin pages, the back door.

    ``rules``: password validators in place of the portal's. Raises django's ValidationError for a bad or taken name or
    a weak password.
    """
    admin = role == ClusterRole.ADMIN
    user = User(username=username, email=email, role=role, is_staff=admin, is_superuser=admin)
    validate_password(password, user, rules)
    user.set_password(password)
    user.full_clean()
    with transaction.atomic():
        user.save()
        after = {"email": email, "role": str(role)}
        audit_write(Audited.USER_CREATE, actor=actor, target=username, now=timezone.now(), after=after)
    return user


def user_set_password(*, user: User, password: str, actor: str = "", rules: Sequence[Any] | None = None) -> None:
    """A new password, set by the account itself or by ``actor``; ends the account's browser sessions. ``rules``:
    password validators in place of the portal's. Raises django's ValidationError for a weak one."""
    validate_password(password, user, rules)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        audit_write(Audited.PASSWORD, actor=actor or user.username, target=user.username, now=timezone.now())
