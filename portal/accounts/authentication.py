"""Authentication of API requests by bearer token or browser session, and token scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from portal.accounts.models import Scope, Token, User
from portal.accounts.selectors import token_valid
from portal.accounts.services import token_touch
from portal.common.origin import origin_token

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which itself imports this module, by the settings


class BearerToken(BaseAuthentication):
    """``Authorization: Bearer berth_…``. An invalid token is refused, never treated as anonymous."""

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("The header must read: Authorization: Bearer TOKEN.")
        return self.held(words[1].decode("latin-1"))

    def held(self, secret: str) -> tuple[User, Token]:
        """The token with its user. Raises AuthenticationFailed if it is not valid."""
        now = timezone.now()
        token = token_valid(digest=Token.digest_of(secret), now=now)
        if token is None:
            raise AuthenticationFailed("The token is not known, expired or revoked.")
        origin_token(token.prefix)
        token_touch(token=token, now=now)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="berth"'


class SignedInWithScope(BasePermission):
    """Requires a signed-in user, and a token whose scope covers the request.

    Reading needs ``read``; everything else the view's ``scope``, ``admin`` by default. A browser session has every
    scope. What the user may do is decided by ``portal.accounts.rights``.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.user is None:
            return False
        needed = Scope.READ if request.method in SAFE_METHODS else getattr(view, "scope", Scope.ADMIN)
        if isinstance(request.auth, Token) and not Scope(request.auth.scope).covers(needed):
            self.message: Any = f"This token has the scope {request.auth.scope}; {needed} is needed."
            return False
        return True
