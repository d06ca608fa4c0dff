"""Which storages somebody may use, and where they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.clusters.models import Node, Storage
from portal.clusters.selectors.visible import vcs_for_submit
from portal.clusters.states import NodeHealth
from portal.common.aggregates import Joined
from portal.common.errors import Denied, NotFound
from portal.common.prepared import Prepared


@dataclass(frozen=True, slots=True)
class StoragePlaces:
    """A storage, and of the healthy nodes those that offer it now and those that do not."""

    storage: Storage
    nodes: list[str]
    missing: list[str]


def storage_restrict(*, user: User) -> QuerySet[Storage]:
    """The storages that the user's jobs may mount: everybody's, and those of the VCs into which the user submits."""
    granted = Storage.objects.filter(vcs__in=vcs_for_submit(user)).values("pk")
    return Storage.objects.filter(Q(everyone=True) | Q(pk__in=granted))


def storages_seen(*, user: User) -> QuerySet[Storage]:
    """The storages that the user may read of: all, or those that the user's jobs may mount."""
    everything = allowed_everywhere(user, Action.STORAGE_READ)
    return Storage.objects.all() if everything else storage_restrict(user=user)


def storage_get(*, user: User, name: str) -> Storage:
    """The storage of that name; NotFound when there is none that the user may see."""
    found = storages_seen(user=user).filter(name=name).first()
    if found is None:
        raise NotFound("storage", name)
    return found


def storage_right(*, user: User) -> None:
    """Raises Denied unless the user may make and change storages."""
    if not allowed_everywhere(user, Action.STORAGE_MANAGE):
        raise Denied(gettext("Only an administrator may make, change and remove storages."))


def storage_to_manage(*, user: User, name: str) -> Storage:
    """The storage, to change it. NotFound when the user may not even see it, Denied when not more than that."""
    found = storage_get(user=user, name=name)
    storage_right(user=user)
    return found


Offered = Mapping[str, Sequence[str]]
"""Names of nodes, by the folders that they tell, as JSON, which are the same on many."""


def storages_offered() -> Offered:
    """What healthy nodes tell. One query."""
    return {text: names.split(",") for text, names in _TOLD()}


def storages_placed(*, storages: Sequence[Storage], offered: Offered | None = None) -> list[StoragePlaces]:
    """The storages with the nodes that offer them, in the given order; one query for any number, none where
    ``offered`` is at hand."""
    told = storages_offered() if offered is None else offered
    mounted = [([PurePosixPath(root) for root in json.loads(text)], names) for text, names in told.items()]
    placed = []
    for storage in storages:
        there: dict[bool, list[str]] = {True: [], False: []}
        for roots, names in mounted:
            there[_offers(roots, storage)] += names
        placed.append(StoragePlaces(storage, sorted(there[True]), sorted(there[False])))
    return placed


def _told() -> QuerySet[Node, tuple[str, str]]:
    rows = Node.objects.filter(health=NodeHealth.HEALTHY).order_by().values(told=Cast("storages", TextField()))
    return rows.annotate(names=Joined("name")).values_list("told", "names")


_TOLD = Prepared(_told)


def _offers(roots: Sequence[PurePosixPath], storage: Storage) -> bool:
    """Nodes tell the folders below which storages may lie; that of the job folders must be one of them."""
    path = PurePosixPath(storage.root)
    return path in roots if storage.jobs else any(path.is_relative_to(root) for root in roots)
