"""Reading stored secrets: their names for people, their values for jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet

from portal.accounts.models import User
from portal.common.sealing import unseal
from portal.secrets.models import SecretKind, StoredSecret
from portal.teams.models import VirtualCluster


class Login(NamedTuple):
    """To an image registry."""

    username: str
    password: str


def secrets_of(*, owner: User | VirtualCluster, kind: SecretKind) -> QuerySet[StoredSecret]:
    """What a user or a virtual cluster has stored, by name, without the values."""
    return owner.stored_secrets.filter(kind=kind).defer("sealed")


def secret_values(*, user: User, vc: str, names: Collection[str]) -> dict[str, Any]:
    """Of these secrets those that are stored, for a job that the user submits into this virtual cluster: the user's
    own, else the virtual cluster's. One query; none without names."""
    return {row.name: unseal(row.sealed) for row in _for_job(user, vc, SecretKind.SECRET, names)}


def registry_logins(*, user: User, vc: str, servers: Collection[str]) -> dict[str, Login]:
    """Of these registries the log-ins that are stored, in the same way."""
    rows = _for_job(user, vc, SecretKind.REGISTRY, servers)
    return {row.name: Login(row.username, unseal(row.sealed)) for row in rows}


def _for_job(user: User, vc: str, kind: SecretKind, names: Collection[str]) -> QuerySet[StoredSecret]:
    """The user's come last, so that they win."""
    owner = Q(user=user) | Q(vc__name=vc)
    return StoredSecret.objects.filter(owner, kind=kind, name__in=names).order_by(F("user").asc(nulls_first=True))
