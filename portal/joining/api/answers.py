"""What the API says of servers that join."""

from __future__ import annotations

from rest_framework import serializers

from portal.common.serializers import Answer


class JoiningAnswer(Answer):
    """What a server needs to join."""

    whole = True
    name = serializers.CharField()
    public_key = serializers.CharField(help_text="by which its reports are known")
    key = serializers.CharField(
        allow_null=True, help_text="its private key, for `node.key` in its agent's folder; null: it has its own"
    )
    environment = serializers.DictField(
        child=serializers.CharField(),
        help_text="its agent's variables; `PASSWORD` in an address stands for what nobody is told",
    )
    redis_ca = serializers.CharField(
        allow_null=True, help_text="certificates (PEM) of who signed that of Redis; null: an authority that all know"
    )
