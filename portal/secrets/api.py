"""REST: secrets and registry log-ins of users and virtual clusters. Their values go in and never come out."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import User
from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.pagination import BySecret
from portal.common.serializers import Answer, Body, Text
from portal.secrets.models import SecretKind
from portal.secrets.selectors import secrets_of
from portal.secrets.services import secret_delete, secret_set
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vc_with_right

MOST_CHARACTERS = 65_536
TEXT_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS}


@extend_schema_field(
    {"oneOf": [TEXT_SCHEMA, {"type": "object", "minProperties": 1, "additionalProperties": TEXT_SCHEMA}]}
)
class SecretValue(serializers.Field[Any, Any, Any, Any]):
    """A text, or texts by name."""

    def to_internal_value(self, data: Any) -> str | dict[str, str]:
        texts = data.values() if isinstance(data, dict) and data else [data]
        if not all(isinstance(text, str) and 0 < len(text) <= MOST_CHARACTERS for text in texts):
            raise serializers.ValidationError(
                f"A text of 1 to {MOST_CHARACTERS} characters, or an object of such texts.", code="invalid"
            )
        if any("\x00" in text for text in texts):
            raise serializers.ValidationError("Null characters are not allowed.", code="null_characters_not_allowed")
        return data  # type: ignore[no-any-return]  # checked above


class SecretBody(Body):
    value = SecretValue(write_only=True)


class RegistryLoginBody(Body):
    username = Text(max_length=255)
    password = Text(max_length=MOST_CHARACTERS, trim_whitespace=False, write_only=True)


class SecretAnswer(Answer):
    name = serializers.CharField(help_text="what a job file calls it: `<% $secrets.NAME %>`")
    changed_at = serializers.DateTimeField()


class RegistryLoginAnswer(Answer):
    server = serializers.CharField(source="name", help_text="of images that are named with it")
    username = serializers.CharField()
    changed_at = serializers.DateTimeField()


class _Stored(ApiView):
    kind: SecretKind
    pagination_class = BySecret
    problems = (409,)

    def owner(self, name: str | None, action: Action) -> User | VirtualCluster:
        """The virtual cluster of that name, if who asks may do this there; without a name who asks."""
        return self.user if name is None else vc_with_right(user=self.user, name=name, action=action)

    def store(self, owner: User | VirtualCluster, name: str, value: Any, username: str = "") -> Response:
        """Stores it under this name."""
        secret_set(owner=owner, kind=self.kind, name=name, value=value, username=username, **self.by)
        return Response(status=204)

    def drop(self, owner: User | VirtualCluster, name: str) -> Response:
        """Forgets it."""
        secret_delete(owner=owner, kind=self.kind, name=name, **self.by)
        return Response(status=204)


class SecretsView(_Stored):
    """Secrets that job files may refer to."""

    kind = SecretKind.SECRET

    @extend_schema(operation_id="secret_list", responses=SecretAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The names of one's own secrets."""
        return self.page(secrets_of(owner=self.user, kind=self.kind), SecretAnswer)


class SecretView(_Stored):
    """One secret."""

    kind = SecretKind.SECRET

    @extend_schema(operation_id="secret_set", request=SecretBody, responses={204: None})
    def put(self, request: Request, secret: str) -> Response:
        """Stores it, in place of an earlier one. Jobs that are submitted from now on and refer to it without giving it
        themselves have it; it goes before a virtual cluster's of the same name."""
        return self.store(self.user, secret, self.body(SecretBody)["value"])

    @extend_schema(operation_id="secret_delete", responses={204: None})
    def delete(self, request: Request, secret: str) -> Response:
        """Forgets it; jobs that were submitted with it keep it."""
        return self.drop(self.user, secret)


class RegistryLoginsView(_Stored):
    """Log-ins to image registries."""

    kind = SecretKind.REGISTRY

    @extend_schema(operation_id="registry_login_list", responses=RegistryLoginAnswer(many=True))
    def get(self, request: Request) -> Response:
        """One's own, without the passwords."""
        return self.page(secrets_of(owner=self.user, kind=self.kind), RegistryLoginAnswer)


class RegistryLoginView(_Stored):
    """One log-in."""

    kind = SecretKind.REGISTRY

    @extend_schema(operation_id="registry_login_set", request=RegistryLoginBody, responses={204: None})
    def put(self, request: Request, server: str) -> Response:
        """Stores it. Images of this server are pulled with it where the job file gives no `auth`; it goes before a
        virtual cluster's."""
        body = self.body(RegistryLoginBody)
        return self.store(self.user, server, body["password"], body["username"])

    @extend_schema(operation_id="registry_login_delete", responses={204: None})
    def delete(self, request: Request, server: str) -> Response:
        """Forgets it; jobs that were submitted with it keep it."""
        return self.drop(self.user, server)


class TeamSecretsView(_Stored):
    """A virtual cluster's secrets."""

    kind = SecretKind.SECRET

    @extend_schema(operation_id="virtual_cluster_secret_list", responses=SecretAnswer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Their names. For those who are in it, and administrators and auditors."""
        return self.page(secrets_of(owner=self.owner(name, Action.VC_SECRETS_LIST), kind=self.kind), SecretAnswer)


class TeamSecretView(_Stored):
    """One secret of a virtual cluster."""

    kind = SecretKind.SECRET

    @extend_schema(operation_id="virtual_cluster_secret_set", request=SecretBody, responses={204: None})
    def put(self, request: Request, name: str, secret: str) -> Response:
        """Stores it for all jobs of the virtual cluster: whoever may submit there can make a job print it. For its
        leads and administrators."""
        owner = self.owner(name, Action.VC_SECRETS_SET)
        return self.store(owner, secret, self.body(SecretBody)["value"])

    @extend_schema(operation_id="virtual_cluster_secret_delete", responses={204: None})
    def delete(self, request: Request, name: str, secret: str) -> Response:
        """Forgets it. For its leads and administrators."""
        return self.drop(self.owner(name, Action.VC_SECRETS_SET), secret)


class TeamRegistryLoginsView(_Stored):
    """A virtual cluster's log-ins to image registries."""

    kind = SecretKind.REGISTRY

    @extend_schema(operation_id="virtual_cluster_registry_login_list", responses=RegistryLoginAnswer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """Without the passwords. For those who are in it, and administrators and auditors."""
        owner = self.owner(name, Action.VC_SECRETS_LIST)
        return self.page(secrets_of(owner=owner, kind=self.kind), RegistryLoginAnswer)


class TeamRegistryLoginView(_Stored):
    """One log-in of a virtual cluster."""

    kind = SecretKind.REGISTRY

    @extend_schema(operation_id="virtual_cluster_registry_login_set", request=RegistryLoginBody, responses={204: None})
    def put(self, request: Request, name: str, server: str) -> Response:
        """Stores it for all jobs of the virtual cluster. For its leads and administrators."""
        owner, body = self.owner(name, Action.VC_SECRETS_SET), self.body(RegistryLoginBody)
        return self.store(owner, server, body["password"], body["username"])

    @extend_schema(operation_id="virtual_cluster_registry_login_delete", responses={204: None})
    def delete(self, request: Request, name: str, server: str) -> Response:
        """Forgets it. For its leads and administrators."""
        return self.drop(self.owner(name, Action.VC_SECRETS_SET), server)
