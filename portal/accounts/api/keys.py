"""REST: one's SSH keys."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.keys import ssh_key_add, ssh_key_get, ssh_key_remove, ssh_keys_of
from portal.accounts.rest import ApiView
from portal.common.pagination import OldestFirst
from portal.common.serializers import Answer, Body, Text


class SshKeyBody(Body):
    public = Text(max_length=10_000, help_text="a line of `authorized_keys` without options; 400 for a private key")
    name = Text(max_length=100, allow_blank=True, default="", help_text="empty: the comment in the line")


class SshKeyAnswer(Answer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    kind = serializers.CharField(help_text="such as `ssh-ed25519`")
    fingerprint = serializers.CharField(help_text="as OpenSSH shows it")
    public = serializers.CharField(help_text="without its comment")
    created_at = serializers.DateTimeField()


class SshKeysView(ApiView):
    """The public SSH keys of whoever asks."""

    pagination_class = OldestFirst
    problems = (409,)

    @extend_schema(operation_id="ssh_key_list", responses=SshKeyAnswer(many=True))
    def get(self, request: Request) -> Response:
        """One's own."""
        return self.page(ssh_keys_of(user=self.user), SshKeyAnswer)

    @extend_schema(operation_id="ssh_key_add", request=SshKeyBody, responses={201: SshKeyAnswer})
    def post(self, request: Request) -> Response:
        """Stores a key; 409 where it is stored already."""
        made = ssh_key_add(user=self.user, **self.body(SshKeyBody), now=timezone.now())
        return Response(SshKeyAnswer(made).data, status=201)


class SshKeyView(ApiView):
    """One key."""

    @extend_schema(operation_id="ssh_key_remove", responses={204: None})
    def delete(self, request: Request, key_id: int) -> Response:
        """Forgets it."""
        ssh_key_remove(key=ssh_key_get(user=self.user, key_id=key_id), now=timezone.now())
        return Response(status=204)
