"""What somebody was let in by, asked again while what they began goes on."""

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
    """What was shown at the beginning; ``user`` asks the database whether it still holds, and for what: ``scope``."""

    scope: Scope

    def user(self) -> User | None: ...


class SessionCredential:
    """A browser's session cookie."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.scope = Scope.ADMIN

    def user(self) -> User | None:
        return session_user(session_key=self.key)


class TokenCredential:
    """A bearer token, of which only the digest is kept."""

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
    """A question to be asked again while the request's answer is sent: whether the token or session that it came with
    still holds, and ``right`` raises no Refused for its user."""
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
