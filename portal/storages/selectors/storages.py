"""Which storages a user may use, and which nodes offer them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext, gettext_noop

from nodes.protocol.messages import StorageWish
from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.aggregates import Joined
from portal.common.errors import Denied, NotFound
from portal.common.prepared import Prepared
from portal.hardware.inventories import UNGUARDED
from portal.hardware.models import Node
from portal.hardware.states import NodeHealth
from portal.storages.models import Storage
from portal.storages.ties import is_untied, offers
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vcs_for_submit

NO_FOLDER = gettext_noop("its agent tells no such folder")
"""Why a node does not offer a storage about which it reports nothing."""


@dataclass(frozen=True, slots=True)
class StoragePlaces:
    """A storage, with the healthy nodes that offer it now and those that do not (``missing``), except those that an
    administrator untied; ``unguarded``: nodes offering it where setuid programs that jobs leave in it take effect."""

    storage: Storage
    nodes: list[str]
    missing: list[str]
    untied: list[str]
    unguarded: list[str]


def storage_restrict(*, user: User) -> QuerySet[Storage]:
    """The storages that the user's jobs may mount: those for everybody, and those of VCs they may submit to."""
    granted = Storage.objects.filter(vcs__in=vcs_for_submit(user)).values("pk")
    return Storage.objects.filter(Q(everyone=True) | Q(pk__in=granted))


def storages_seen(*, user: User) -> QuerySet[Storage]:
    """The storages visible to the user: all, or those that their jobs may mount."""
    everything = allowed_everywhere(user, Action.STORAGE_READ)
    return Storage.objects.all() if everything else storage_restrict(user=user)


def storage_get(*, user: User, name: str) -> Storage:
    """The storage with that name. Raises NotFound if there is none, or the user may not see it."""
    found = storages_seen(user=user).filter(name=name).first()
    if found is None:
        raise NotFound("storage", name)
    return found


def storage_right(*, user: User) -> None:
    """Raises Denied unless the user may create and change storages."""
    if not allowed_everywhere(user, Action.STORAGE_MANAGE):
        raise Denied(gettext("Only an administrator may make, change and remove storages."))


def storage_to_manage(*, user: User, name: str) -> Storage:
    """The storage, for changing it. Raises NotFound if the user may not see it, Denied if they may not change it."""
    found = storage_get(user=user, name=name)
    storage_right(user=user)
    return found


Offered = Mapping[tuple[str, str, str], Sequence[str]]
"""Node names by what the nodes report, which is the same for many, as JSON texts: the folders that they offer, the
storages that they do not, with reasons; and their ties."""


def storages_offered() -> Offered:
    """What healthy nodes report. One query."""
    return {(text, bad, ties): names.split(",") for text, bad, ties, names in _TOLD()}


def storages_placed(*, storages: Sequence[Storage], offered: Offered | None = None) -> list[StoragePlaces]:
    """The storages with the nodes that offer them, in the given order. Two queries for any number; none if ``offered``
    is given, and then ``unguarded`` is empty."""
    told = storages_offered() if offered is None else offered
    mounted = [
        (json.loads(text), json.loads(bad), json.loads(ties), names) for (text, bad, ties), names in told.items()
    ]
    open_at = unguarded_roots() if offered is None else {}
    placed = []
    for storage in storages:
        there: dict[bool, list[str]] = {True: [], False: []}
        untied: list[str] = []
        for roots, bad, ties, names in mounted:
            if is_untied(ties, storage.pk):
                untied += names
            else:
                there[offers(storage.root, roots, bad)] += names
        unguarded = [name for name in there[True] if storage.root in open_at.get(name, ())]
        placed.append(StoragePlaces(storage, *map(sorted, (there[True], there[False], untied, unguarded))))
    return placed


def unguarded_roots() -> dict[str, frozenset[str]]:
    """By healthy node, the storage roots where it reports that setuid programs left by jobs take effect. One query."""
    found = Node.objects.filter(health=NodeHealth.HEALTHY, inventory__has_key=UNGUARDED).order_by()
    return {name: frozenset(told[UNGUARDED]) for name, told in found.values_list("name", "inventory")}


def _told() -> QuerySet[Node, tuple[str, str, str, str]]:
    up = Node.objects.filter(health=NodeHealth.HEALTHY).order_by()
    told = {name: Cast(name, TextField()) for name in ("storages", "storage_faults", "ties")}
    rows = up.values(**{f"{name}_told": text for name, text in told.items()})
    return rows.annotate(names=Joined("name")).values_list(*(f"{name}_told" for name in told), "names")


def _granted() -> QuerySet[Storage]:
    """Query of storages that some job may use."""
    used = Q(everyone=True) | Q(jobs=True) | Q(vcs__isnull=False)
    return Storage.objects.filter(used).distinct().order_by("root")


_GRANTED = Prepared(_granted)


def storages_granted() -> list[Storage]:
    """Storages that some job may use. One query."""
    return list(_GRANTED())


def storages_exported() -> list[str]:
    """Names of storages that servers mount for the portal: accepting a server ties it to them. One query."""
    return list(Storage.objects.exclude(export="").order_by("name").values_list("name", flat=True))


def storage_wishes(*, node: Node, granted: Sequence[Storage]) -> tuple[StorageWish, ...]:
    """The storages that the node shall mount: all that nobody untied it from; none while it is pending."""
    if node.pending:
        return ()
    return tuple(
        StorageWish(
            name=one.name,
            root=one.root,
            export=one.export,
            options=one.options,
            read_only=one.read_only,
            must_be_mount=one.is_mount,
        )
        for one in granted
        if not is_untied(node.ties, one.pk)
    )


def roots_of_own_folders() -> frozenset[str]:
    """Roots of storages in which jobs that write see only their user's own folder: by the storage's setting, or because
    a virtual cluster that may use it allows root, which is given no more. One query."""
    return frozenset(_ROOTS())


def _roots() -> QuerySet[Storage, str]:
    allows = VirtualCluster.objects.filter(default_profile="root").order_by()
    as_root = Q(everyone=True) & Exists(allows) | Exists(allows.filter(storages=OuterRef("pk")))
    found = Storage.objects.filter(Q(per_user=True) | Q(read_only=False) & as_root)
    return found.order_by().values_list("root", flat=True)


_ROOTS = Prepared(_roots)


def storage_offered(*, node: Node, storage: Storage) -> bool:
    """Whether the node offers it, by its last report."""
    return offers(storage.root, node.storages, node.storage_faults)


class StorageHere(NamedTuple):
    """A storage on a node: why the node does not offer it, and why setuid programs left by jobs take effect there; each
    empty if that is not so."""

    name: str
    root: str
    fault: str
    unguarded: str


def storages_of_node(*, node: Node, user: User) -> list[StorageHere]:
    """The storages visible to the user, as one node reports them. One query."""
    unguarded = node.inventory.get(UNGUARDED, {})
    return [
        StorageHere(one.name, one.root, _fault(node, one), unguarded.get(one.root, ""))
        for one in storages_seen(user=user).order_by("name")
    ]


def _fault(node: Node, storage: Storage) -> str:
    if is_untied(node.ties, storage.pk):
        return gettext("an administrator has untied it from this storage")
    if storage_offered(node=node, storage=storage):
        return ""
    return node.storage_faults.get(storage.root, "") or gettext(NO_FOLDER)


_TOLD = Prepared(_told)
