"""Details of one virtual cluster (VC), cell types, and quota changes: for pages and the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext

from portal.common.columns import asked_of, column_of
from portal.common.prepared import Prepared, Slot
from portal.hardware.doomed import doomed_read
from portal.hardware.models import CellType
from portal.hardware.states import VcRole
from portal.teams.models import (
    RULES,
    FirmRight,
    LoanLimit,
    Membership,
    PinnedCell,
    QuotaChange,
    VcEvent,
    VirtualCluster,
)
from portal.teams.selectors.engine_cluster import cluster_read
from portal.teams.selectors.quotas import LineKey, Lines, QuotaBook, as_lines, leaves_by_cell_type, quota_book
from scheduling.model.cell_tree import CellTree

_FIRST = ("user_gpus", "class_gpus", "member_class", "default_borrow")
"""Rules that a page names before the others."""


@dataclass(frozen=True, slots=True)
class Line:
    """A quota line by names; ``gpus``: total of its cells."""

    vc: str
    cell_type: str
    chain: str
    count: int
    gpus: int


def lines_named(lines: Lines, book: QuotaBook | None = None) -> list[Line]:
    """Quota lines by names, in order; ``book`` saves a read."""
    book = book or quota_book()

    def named(key: LineKey, count: int) -> Line:
        name = book.types[key.cell_type_id].name
        return Line(book.vc_names[key.vc_id], name, key.chain, count, count * book.leaves[key.cell_type_id])

    return [named(key, count) for key, count in lines.items()]


def vc_detail(*, vc: VirtualCluster, book: QuotaBook | None = None) -> dict[str, Any]:
    """Its rules, quota lines, pinned cells, doomed cells, loan limits and rights to non-preemptible jobs."""
    book = book or quota_book()
    own = {key: count for key, count in book.lines.items() if key.vc_id == vc.pk}
    return {
        **{name: getattr(vc, name) for name in RULES},
        "quota": lines_named(own, book),
        "pinned_cells": _PINNED(vc=vc.pk),
        "loan_limits": _LOAN_LIMITS(vc=vc.pk),
        "doomed": doomed_read(vc.name),
        "firm_rights": _FIRM_RIGHTS(vc=vc.pk),
    }


def rule_rows(vc: VirtualCluster) -> list[tuple[str, Any, str]]:
    """The rules as its page shows them: name, label and value. (It words those that take more than one value.)"""
    rows = [(name, rule.row, _worded(name, getattr(vc, name))) for name, rule in RULES.items() if rule.row]
    return sorted(rows, key=lambda row: _FIRST.index(row[0]) if row[0] in _FIRST else len(_FIRST))


def _worded(name: str, value: Any) -> str:
    words = asked_of(column_of(VirtualCluster, name)).words
    return gettext("no limit") if value is None else str(words.get(value, value)).lower()


_OWN = {"vc_id": Slot("vc", int)}
_PINNED = Prepared(lambda: PinnedCell.objects.filter(**_OWN).values_list("name", flat=True))
_LOAN_LIMITS = Prepared(lambda: LoanLimit.objects.filter(**_OWN).select_related("sku").order_by("sku__name"))
_FIRM_RIGHTS = Prepared(lambda: FirmRight.objects.filter(**_OWN).select_related("user").order_by("user__username"))
_MEMBERS = Prepared(lambda: Membership.objects.filter(**_OWN).select_related("user", "group"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A cell type, the GPUs of one cell, and the chains that have such cells."""

    row: CellType
    gpus: int
    chains: list[str]


def cell_types() -> list[Kind]:
    """Cell types, by SKU and size."""
    rows = {row.pk: row for row in CellType.objects.select_related("sku", "child")}
    leaves = leaves_by_cell_type(rows)
    tree = CellTree(cluster_read().cluster)
    kinds = [Kind(row, leaves[key], tree.chains_with(row.name)) for key, row in rows.items()]
    return sorted(kinds, key=lambda kind: (kind.row.sku.name, kind.gpus, kind.row.name))


def quota_changes(*, over: bool = False) -> QuerySet[QuotaChange]:
    """Quota changes planned or in force, soonest first; with ``over`` finished ones as well."""
    rows = QuotaChange.objects.all() if over else QuotaChange.objects.filter(over_at__isnull=True)
    return rows.prefetch_related("lines__cell_type", "lines__vc").order_by("starts_at", "id")


def change_lines(change: QuotaChange) -> list[Line]:
    """A change's lines by names."""
    return lines_named(as_lines(change.lines.all()))


def vc_members(*, vc: VirtualCluster) -> list[Membership]:
    """Memberships, leads first, with their user or group."""
    return sorted(_MEMBERS(vc=vc.pk), key=lambda row: (row.role != VcRole.LEAD, str(row.user or row.group)))


def vc_events(*, vc: VirtualCluster, most: int = 20) -> list[VcEvent]:
    """Events, newest first."""
    return list(vc.events.order_by("-id")[:most])
