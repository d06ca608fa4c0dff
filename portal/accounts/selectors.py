"""Reads accounts and tokens."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module

from django.conf import settings
from django.contrib import auth
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from portal.accounts.models import Token, User
from portal.common.errors import NotFound
from portal.common.prepared import Prepared, Slot


def token_valid(*, digest: str, now: datetime) -> Token | None:
    """The token with that digest and its user, unless it is revoked or expired or its owner is disabled."""
    return _TOKEN.first(digest=digest, now=now)


def _token() -> QuerySet[Token]:
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=Slot("now", datetime))
    found = Token.objects.filter(alive, digest=Slot("digest", str), revoked_at__isnull=True, user__is_active=True)
    return found.select_related("user").order_by()


_TOKEN = Prepared(_token)


def token_get_valid(*, token_id: int, now: datetime) -> Token | None:
    """The same, by id."""
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    found = Token.objects.filter(alive, pk=token_id, revoked_at__isnull=True, user__is_active=True)
    return found.select_related("user").first()


def tokens_of(*, user: User) -> QuerySet[Token]:
    """The user's unrevoked tokens, newest first; expired ones included, so that one sees why they fail."""
    return Token.objects.filter(user=user, revoked_at__isnull=True)


def token_get(*, user: User, token_id: int) -> Token:
    """A token of the user. Raises NotFound."""
    token = tokens_of(user=user).filter(pk=token_id).first()
    if token is None:
        raise NotFound("token", token_id)
    return token


def session_user(*, session_key: str) -> User | None:
    """The user of a browser session; None once it ended, the account was disabled or its password changed."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = auth.get_user(request)
    return user if isinstance(user, User) else None
