"""REST: servers that join by a token."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.common.serializers import Answer, Body, Text, Whole
from portal.joining.models import JoinToken
from portal.joining.selectors import join_token_get, join_tokens_of
from portal.joining.services.join_tokens import NewJoinToken, join_line, join_token_create, join_token_revoke, node_join
from portal.teams.selectors.visible import node_add_right


class JoinTokenBody(Body):
    uses = Whole(default=1, min_value=1, max_value=1000, help_text="servers that may join by it")
    hours = Whole(default=24, min_value=1, max_value=720, help_text="hours for which it can be used")
    labels = Text(max_length=100, allow_blank=True, default="", help_text="of these servers: `rack=3`, or nothing")
    accept = serializers.BooleanField(
        default=False,
        help_text="accept unseen what they report first: whoever has the token gets jobs and their secrets",
    )
    cpu_tasks = serializers.BooleanField(
        default=False,
        help_text="with `accept`: tasks without GPUs of every virtual cluster, with their secrets, may run there, too",
    )


class JoinTokenAnswer(Answer):
    """A token by which servers join, without its secret."""

    id = serializers.IntegerField()
    prefix = serializers.CharField(help_text="how it begins")
    uses = serializers.IntegerField(help_text="servers that may join by it")
    used = serializers.IntegerField(help_text="servers that have")
    labels = serializers.CharField(allow_blank=True)
    accept = serializers.BooleanField(help_text="who joins by it is accepted unseen")
    cpu_tasks = serializers.BooleanField(help_text="and gets tasks without GPUs, too")
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class NewJoinTokenAnswer(JoinTokenAnswer):
    """With its secret, this once."""

    whole = True
    secret = serializers.CharField(help_text="told in this answer alone")
    line = serializers.CharField(help_text="what is run on each server")


class JoinBody(Body):
    token = Text(max_length=200, help_text="the join token")
    name = Text(max_length=63, help_text="the server's name: small letters, digits, dots and dashes")
    public_key = Text(max_length=64, help_text="the public half of the key that it has made")


class JoinedAnswer(Answer):
    """What a server that joined is told."""

    whole = True
    name = serializers.CharField()
    sealed = serializers.CharField(
        help_text="its agent's variables and the authority of Redis's certificate, as JSON sealed to its key"
    )


class JoinTokensView(ApiView):
    """The tokens by which servers join."""

    pagination_class = None

    @extend_schema(operation_id="join_token_list", responses=JoinTokenAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Those that were not revoked, newest first, without their secrets. For administrators."""
        return self.listed([_told(one) for one in join_tokens_of(user=self.user)], JoinTokenAnswer)

    @extend_schema(operation_id="join_token_create", request=JoinTokenBody, responses={201: NewJoinTokenAnswer})
    def post(self, request: Request) -> Response:
        """A new token; the answer is the only place that ever shows it, with the line that is run on each server. For
        administrators."""
        node_add_right(user=self.user)
        body = self.body(JoinTokenBody)
        made = join_token_create(**body, **self.by)
        return Response(_told_once(made), status=201)


class JoinTokenView(ApiView):
    """One such token."""

    @extend_schema(operation_id="join_token_revoke", responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """Nobody joins by it any more; who has joined stays. For administrators."""
        token = join_token_get(user=self.user, token_id=token_id)
        join_token_revoke(token=token, **self.by)
        return Response(status=204)


class JoinView(ApiView):
    """A server joins."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    problems = (403, 409, 429)

    @extend_schema(operation_id="join", request=JoinBody, responses={201: JoinedAnswer}, auth=[])
    def post(self, request: Request) -> Response:
        """Registers the server that brings a join token, with a key of its own. The same again, with the same key, is
        answered again and uses nothing up. 403 for a token that is unknown, revoked, expired or used up; 409 where the
        name has another key. `python -m nodes join` asks this."""
        body = self.body(JoinBody)
        joined = node_join(**body, address=request.META["REMOTE_ADDR"], now=timezone.now())
        return Response(JoinedAnswer({"name": joined.node.name, "sealed": joined.sealed}).data, status=201)


_COLUMNS = ("id", "prefix", "uses", "used", "accept", "cpu_tasks", "created_by", "created_at", "expires_at")


def _told(token: JoinToken) -> dict[str, Any]:
    labels = f"rack={token.rack}" if token.rack else ""
    return {name: getattr(token, name) for name in _COLUMNS} | {"labels": labels}


def _told_once(made: NewJoinToken) -> dict[str, Any]:
    told = _told(made.token) | {"secret": made.secret, "line": join_line(made.secret)}
    return NewJoinTokenAnswer(told).data
