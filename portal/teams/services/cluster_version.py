"""Serializes changes of cells and quotas: each is checked against all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.utils.translation import gettext

from portal.common.errors import ChangedMeanwhile, Conflict
from portal.teams.models import ClusterVersion


def cluster_version() -> int:
    """Version of cells and quotas; changes raise it."""
    return ClusterVersion.objects.get_or_create(id=1)[0].version


@contextmanager
def cluster_change(*, version: int | None = None) -> Iterator[None]:
    """A transaction that changes cells or quotas. Raises Conflict if another one came first, ChangedMeanwhile if
    ``version`` is given and no longer current."""
    with transaction.atomic():
        before = cluster_version()
        if version is not None and version != before:
            raise ChangedMeanwhile(gettext("The quotas were changed meanwhile; read them again."))
        yield
        if not ClusterVersion.objects.filter(id=1, version=before).update(version=before + 1):
            raise Conflict(gettext("The quotas were changed at the same moment; try again."))
