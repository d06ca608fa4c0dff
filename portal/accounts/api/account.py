"""REST: signing in, one's account, one's tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import django_filters
from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import ClusterRole, Scope, Token
from portal.accounts.rest import ApiView
from portal.accounts.selectors import token_get, tokens_of
from portal.accounts.services import NewToken, language_set, sign_in, token_create, token_revoke
from portal.common.errors import Absent
from portal.common.filters import ChoicesFilter, GivenFilter
from portal.common.serializers import Answer, Body, Text, Whole

MOST_DAYS = 3650
LOGIN_DAYS = 30
LANGUAGE = "of one's pages and mails; empty: as the browser asks. The API itself speaks English"


class TokenBody(Body):
    name = Text(max_length=100, help_text="what it is for")
    scope = serializers.ChoiceField(Scope.choices, default=Scope.SUBMIT)
    expires_in_days = Whole(
        min_value=1, max_value=MOST_DAYS, allow_null=True, default=None, help_text="empty: it does not expire"
    )


class LoginBody(Body):
    username = Text(max_length=64)
    password = Text(max_length=1000, trim_whitespace=False, write_only=True)
    name = Text(max_length=100, default="login", help_text="the token's name")
    scope = serializers.ChoiceField(Scope.choices, default=Scope.SUBMIT)
    expires_in_days = Whole(min_value=1, max_value=MOST_DAYS, default=LOGIN_DAYS)


class TokenFilter(GivenFilter):
    """Filters of the list of tokens."""

    of = Token

    scope = ChoicesFilter(choices=Scope.choices, help_text="one or several")
    name = django_filters.CharFilter(lookup_expr="icontains", help_text="part of its name")


class TokenAnswer(Answer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="how the token begins, to recognise it")
    scope = serializers.ChoiceField(Scope.choices)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class NewTokenAnswer(TokenAnswer):
    whole = True
    token = serializers.CharField(help_text="the token itself, shown this once")


class MeAnswer(Answer):
    whole = True
    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    role = serializers.ChoiceField(ClusterRole.choices)
    scope = serializers.ChoiceField(Scope.choices, help_text="what this token or session may be used for")
    language = serializers.ChoiceField(settings.LANGUAGES, allow_blank=True, help_text=LANGUAGE)


class MeBody(Body):
    language = serializers.ChoiceField(settings.LANGUAGES, allow_blank=True, help_text=LANGUAGE)


def _shown(made: NewToken) -> dict[str, Any]:
    return {**TokenAnswer(made.token).data, "token": made.secret}


class LoginView(ApiView):
    """User name and password against a token."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    problems = (429,)

    @extend_schema(operation_id="login", request=LoginBody, responses={201: NewTokenAnswer}, auth=[])
    def post(self, request: Request) -> Response:
        """Answers a new token. A few tries a minute for each address and each user name."""
        data = self.body(LoginBody)
        now = timezone.now()
        user = sign_in(
            username=data["username"], password=data["password"], address=request.META["REMOTE_ADDR"], now=now
        )
        expires_at = now + timedelta(days=data["expires_in_days"])
        made = token_create(user=user, name=data["name"], scope=data["scope"], now=now, expires_at=expires_at)
        return Response(_shown(made), status=201)


class TokensView(ApiView):
    """The tokens of whoever asks."""

    filterset_class = TokenFilter
    orders = ("name", "created_at")

    @extend_schema(operation_id="token_list", responses=TokenAnswer(many=True))
    def get(self, request: Request) -> HttpResponseBase:
        """One's tokens, newest first, without their secrets; revoked ones are gone."""
        return self.page(tokens_of(user=self.user), TokenAnswer)

    @extend_schema(operation_id="token_create", request=TokenBody, responses={201: NewTokenAnswer})
    def post(self, request: Request) -> Response:
        """A new token; the answer is the only place that ever shows it."""
        data = self.body(TokenBody)
        now = timezone.now()
        days = data["expires_in_days"]
        expires_at = None if days is None else now + timedelta(days=days)
        made = token_create(user=self.user, name=data["name"], scope=data["scope"], now=now, expires_at=expires_at)
        return Response(_shown(made), status=201)


class TokenView(ApiView):
    """One token of whoever asks."""

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """Ends the token at once, and within seconds the websockets that were opened with it."""
        token_revoke(token=token_get(user=self.user, token_id=token_id), now=timezone.now())
        return Response(status=204)


class CurrentTokenView(ApiView):
    """The token that asks."""

    scope = Scope.READ

    @extend_schema(operation_id="token_revoke_current", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Ends the token that the request is sent with, whatever its scope. A browser's session has none: 404."""
        if not isinstance(request.auth, Token):
            raise Absent(gettext("The request came without a token."))
        token_revoke(token=request.auth, now=timezone.now())
        return Response(status=204)


class MeView(ApiView):
    """Whoever asks."""

    @extend_schema(operation_id="me", responses=MeAnswer)
    def get(self, request: Request) -> Response:
        """The account behind the request, and what the token may be used for."""
        return self._answer(request)

    @extend_schema(operation_id="me_change", request=MeBody, responses=MeAnswer)
    def patch(self, request: Request) -> Response:
        """Chooses the language of one's pages and mails."""
        language_set(user=self.user, language=self.body(MeBody)["language"], now=timezone.now())
        return self._answer(request)

    def _answer(self, request: Request) -> Response:
        user, auth = self.user, request.auth
        scope = auth.scope if isinstance(auth, Token) else Scope.ADMIN
        me = {
            "id": user.pk, "username": user.username, "email": user.email, "role": user.role, "scope": scope,
            "language": user.language,
        }  # fmt: skip
        return Response(MeAnswer(me).data)
