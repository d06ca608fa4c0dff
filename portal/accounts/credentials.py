"""Credentials of long-lived work, rechecked while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from portal.accounts.models import Scope, Token, User
from portal.accounts.selectors import session_user, token_valid
from portal.common.errors import Refused


class Credential(Protocol):
    """The credential shown at the start; ``user`` looks up whether it is still valid, and sets its ``scope``."""

    scope: Scope

    def user(self) -> User | None: ...


class SessionCredential:
    """A browser's session key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.scope = Scope.ADMIN

    def user(self) -> User | None:
        return session_user(session_key=self.key)


class TokenCredential:
    """A bearer token; only its digest is kept."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self.scope = Scope.READ

    def user(self) -> User | None:
        token = token_valid(digest=self.digest, now=timezone.now())
        if token is None:
            return None
        self.scope = Scope(token.scope)
        return token.user


def still_may(request: HttpRequest | Request, right: Callable[[User], object]) -> Callable[[], bool]:
    """A callable to poll while the response is sent: whether the request's token or session is still valid, and
    ``right`` raises no Refused for its user."""
    token = request.auth if isinstance(request, Request) else None
    session = SessionCredential(request.session.session_key or "")
    credential: Credential = TokenCredential(token.digest) if isinstance(token, Token) else session

    def holds() -> bool:
        user = credential.user()
        if user is None:
            return False
        try:
            right(user)
        except Refused:
            return False
        return True

    return holds
