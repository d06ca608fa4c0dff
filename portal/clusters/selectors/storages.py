"""Which storages somebody may use."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from portal.accounts.models import User
from portal.clusters.models import Storage
from portal.clusters.selectors.visible import vcs_for_submit


def storage_restrict(*, user: User) -> QuerySet[Storage]:
    """The storages that the user's jobs may mount: everybody's, and those of the VCs into which the user submits."""
    granted = Storage.objects.filter(vcs__in=vcs_for_submit(user)).values("pk")
    return Storage.objects.filter(Q(everyone=True) | Q(pk__in=granted))
