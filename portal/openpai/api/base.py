"""What every address of OpenPAI's API is made of."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, NoReturn

from drf_spectacular.utils import extend_schema
from rest_framework.authentication import get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.accounts.authentication import BearerToken
from portal.accounts.models import Scope, Token, User
from portal.accounts.rest import ApiView
from portal.openpai.errors import APPLICATION, BAD_TOKEN, GUEST, NOT_ADMIN, PaiError, forbidden, handler


class PaiToken(BearerToken):
    """The same tokens as everywhere, refused in OpenPAI's words. One of an application may come as the password of its
    user, too: ``Authorization: Basic``, base64 of ``user:token``."""

    def authenticate(self, request: Request) -> Any:
        scheme, _, given = get_authorization_header(request).partition(b" ")
        try:
            return self._of_application(given) if scheme.lower() == b"basic" else super().authenticate(request)
        except AuthenticationFailed as error:
            raise PaiError(401, "UnauthorizedUserError", BAD_TOKEN) from error

    def _of_application(self, given: bytes) -> tuple[User, Token]:
        try:
            name, _, secret = b64decode(given.strip(), validate=True).decode().partition(":")
        except ValueError as error:
            raise AuthenticationFailed from error
        user, token = self.held(secret)
        if (user.username, token.scope) != (name, Scope.SUBMIT):
            raise AuthenticationFailed
        return user, token


class MayUse(BasePermission):
    """Somebody is signed in, and the token's scope covers the request; see ``SignedInWithScope``."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.user is None:
            raise PaiError(401, "UnauthorizedUserError", GUEST)
        needed = Scope.READ if request.method in SAFE_METHODS else getattr(view, "scope", Scope.ADMIN)
        if isinstance(request.auth, Token) and not Scope(request.auth.scope).covers(needed):
            raise forbidden(APPLICATION)
        return True


@extend_schema(exclude=True)
class PaiView(ApiView):
    """A view of OpenPAI's API. Its contract is OpenPAI's own document, not ours."""

    authentication_classes: Any = (PaiToken,)
    permission_classes: Any = (MayUse,)
    pagination_class = None

    def get_exception_handler(self) -> Any:
        return handler

    def admin_only(self) -> None:
        """Raises ForbiddenUserError for everybody but administrators."""
        if not self.user.is_cluster_admin:
            raise forbidden(NOT_ADMIN)


class NoApi(PaiView):
    """Every address that nobody serves."""

    authentication_classes = ()
    permission_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        raise PaiError(404, "NoApiError", f"API {request.path} is not found.")
