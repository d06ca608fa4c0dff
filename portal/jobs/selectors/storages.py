"""Which storages a job may mount."""

from __future__ import annotations

from django.db.models import Q

from portal.clusters.models import Storage


def storage_names(*, vc: str) -> frozenset[str]:
    """Storages that jobs of this virtual cluster may mount."""
    granted = Storage.objects.filter(Q(everyone=True) | Q(vcs__name=vc))
    return frozenset(granted.values_list("name", flat=True))
