"""Storages that a job may mount, the nodes that have them, and why a job waits for them, in words."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

from portal.job_file.model import JobSpec
from portal.job_file.wordings import AND_MORE
from portal.jobs import wordings
from portal.storages.models import Storage
from portal.storages.selectors.ties import StorageTies, storage_ties
from portal.teams.selectors.engine_cluster import cluster_read

NAMED = 5


def storage_names(*, vc: str) -> frozenset[str]:
    """Names of storages that jobs of this virtual cluster may mount."""
    granted = Storage.objects.filter(Q(everyone=True) | Q(vcs__name=vc))
    return frozenset(granted.values_list("name", flat=True))


def storages_place(
    *, ties: StorageTies, mounted: Collection[str], nodes: frozenset[str], only: frozenset[str], but: frozenset[str]
) -> tuple[frozenset[str] | None, str]:
    """Nodes out of ``nodes`` for a job that mounts these storages and names nodes by ``only`` (empty: all) and ``but``;
    None: all. And why none of them has its storages; empty if one has, or if it is not the storages that are in the
    way."""
    needed = [name for name in (*mounted, ties.folders) if name in ties.apart]
    named = (only or nodes) - but
    left = named.difference(*(ties.apart[name] for name in needed))
    return left if only or but or needed else None, _lacking(ties, needed, named, left)


def storages_away(*, spec: JobSpec) -> str:
    """Why no server that the job may run on has its storages now; empty if one has."""
    nodes = cluster_read().nodes
    mounted = [mount.name for mount in spec.storages or ()]
    only, but = frozenset(spec.berth.nodes_only), frozenset(spec.berth.nodes_not)
    ties = storage_ties(nodes.values())
    return storages_place(ties=ties, mounted=mounted, nodes=frozenset(nodes), only=only, but=but)[1]


def _lacking(ties: StorageTies, needed: Collection[str], named: frozenset[str], left: frozenset[str]) -> str:
    here = named & ties.accepted
    if not needed or not here or left & ties.healthy:
        return ""
    for name in needed:
        if here <= ties.apart[name]:
            return _nobody(ties, name, here)
    up = here & ties.healthy
    for name in needed if up else ():
        if up <= ties.apart[name]:
            return wordings.AWAY(storage=name, nodes=_some(here - ties.apart[name]))
    return wordings.NOT_ALL_THERE(storages=[*needed]) if up else ""


def _nobody(ties: StorageTies, name: str, here: frozenset[str]) -> str:
    away = {node: why for node, why in ties.away.get(name, {}).items() if node in here}
    if not away:
        return wordings.NOT_TIED(storage=name)
    why = away[min(away)]
    nodes = _some({node for node, other in away.items() if other == why})
    return wordings.NOT_OFFERED(storage=name, node=nodes, why=why)


def _some(nodes: Collection[str]) -> str:
    named = sorted(nodes)
    if len(named) <= NAMED:
        return ", ".join(named)
    return AND_MORE(names=named[:NAMED], number=len(named) - NAMED)
