"""OpenPAI's REST API: who it is, signing in, tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.conf import settings
from django.utils import timezone
from rest_framework import serializers
from rest_framework.parsers import FormParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope, Token
from portal.accounts.selectors import tokens_of
from portal.accounts.services import token_revoke
from portal.common.parsers import StrictJSONParser
from portal.common.serializers import Body
from portal.openpai.api.base import MayUse, PaiToken, PaiView
from portal.openpai.services.people import login
from portal.openpai.services.tokens import application_token, token_end

WEEK_S = 7 * 24 * 3600
LONGEST_S = 3650 * 24 * 3600


class LoginBody(Body):
    """Comes as a form, in which everything is text."""

    username = serializers.CharField(max_length=64)
    password = serializers.CharField(max_length=1000, trim_whitespace=False)
    expiration = serializers.IntegerField(min_value=1, max_value=LONGEST_S, default=WEEK_S)


class InfoView(PaiView):
    """The cluster."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Request) -> Response:
        return Response(
            {
                "name": settings.CLUSTER_NAME,
                "version": f"v{settings.VERSION}",
                "launcherType": "k8s",
                "authnMethod": "basic",
            }
        )


class AuthnInfoView(PaiView):
    """How one signs in. OpenPAI's document does not have it, its portal and VS Code extension ask for it."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Request) -> Response:
        found = {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
        return Response(found)


class LoginView(PaiView):
    """User name and password against a token."""

    authentication_classes: Any = ()
    permission_classes: Any = ()
    parser_classes = (FormParser, StrictJSONParser)

    def post(self, request: Request) -> Response:
        data = self.body(LoginBody)
        made = login(
            username=data["username"], password=data["password"], address=request.META["REMOTE_ADDR"],
            lifetime=timedelta(seconds=data["expiration"]), now=timezone.now(),
        )  # fmt: skip
        user = made.token.user
        return Response(
            {"token": made.secret, "user": user.username, "admin": user.is_cluster_admin, "hasGitHubPAT": False}
        )


class LogoutView(PaiView):
    """Ending the token that asks."""

    def delete(self, request: Request) -> Response:
        token_revoke(token=cast(Token, request.auth), now=timezone.now())
        return Response({"message": "Logout successfully"})


class MayUseOrSignIn(MayUse):
    """Whoever posts signs in; for all else somebody is signed in."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method == "POST" or super().has_permission(request, view)


class TokensView(LoginView):
    """One's tokens; a new one is had by signing in, here as well."""

    authentication_classes = (PaiToken,)
    permission_classes = (MayUseOrSignIn,)

    def get(self, request: Request) -> Response:
        """Their ids: of the tokens themselves only hashes are kept."""
        ids = tokens_of(user=self.user).values_list("pk", flat=True)
        return Response({"tokens": [str(key) for key in ids]})


class TokenCheckView(PaiView):
    """Whose token it is that asks. Programs beside OpenPAI's portal know by it who their caller is."""

    def get(self, request: Request) -> Response:
        application = cast(Token, request.auth).scope == Scope.SUBMIT
        found = {"username": self.user.username, "application": application, "admin": self.user.is_cluster_admin}
        return Response(found)


class TokenView(PaiView):
    """One token, by its id or by itself."""

    def delete(self, request: Request, token: str) -> Response:
        token_end(user=self.user, named=token, now=timezone.now())
        return Response({"message": "revoke successfully"})


class ApplicationTokenView(PaiView):
    """Tokens for programs."""

    def post(self, request: Request) -> Response:
        made = application_token(user=self.user, now=timezone.now())
        return Response({"token": made.secret, "application": True})
