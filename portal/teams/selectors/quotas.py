"""Quotas of virtual clusters (VCs), now and later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from portal.common.row_versions import KeptResult, RowsVersion
from portal.hardware.models import CellType, Sku
from portal.teams.models import PinnedCell, QuotaChange, QuotaChangeLine, QuotaLine, VirtualCluster


class LineKey(NamedTuple):
    """Key of a quota line: row ids of VC and cell type, and the chain (empty: that of the nodes which name none, so
    that the key is stable when another chain with the type comes or goes)."""

    vc_id: int
    cell_type_id: int
    chain: str


Lines = dict[LineKey, int]
"""Cells by line, in the order of the lines' creation."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains with cells of each type, in order, and the chain of the nodes that name none: by type id."""

    having: Mapping[int, Sequence[str]]
    unnamed: Mapping[int, str]

    def named(self, key: LineKey) -> str:
        """The chain a line refers to. If it was made when no node had its type: the first that has it."""
        chains, own = self.having.get(key.cell_type_id, ()), self.unnamed[key.cell_type_id]
        return key.chain or (chains[0] if chains and own not in chains else own)

    def needed(self, key: LineKey) -> str:
        """A stored line's chain if its type alone is ambiguous, else empty."""
        chains, chain = self.having.get(key.cell_type_id, ()), self.named(key)
        return chain if len(chains) > 1 or (key.chain and chain not in chains) else ""

    def stored(self, key: LineKey) -> LineKey:
        """The key under which such a line is stored, however it is written."""
        chain = self.named(key)
        return key._replace(chain="" if chain == self.unnamed[key.cell_type_id] else chain)

    def meant(self, lines: Lines) -> Lines:
        """The lines under their stored keys; equal ones are added up."""
        found: Lines = {}
        for key, count in lines.items():
            one = self.stored(key)
            found[one] = found.get(one, 0) + count
        return found


def quota_lines() -> Lines:
    """The quotas in force: the lines, overridden by those of the changes that have begun. Two queries."""
    lines = base_lines()
    held = QuotaChangeLine.objects.filter(change__begun_at__isnull=False, change__over_at__isnull=True)
    lines.update(as_lines(held.order_by("id")))
    return lines


def base_lines() -> Lines:
    """The quotas without temporary changes."""
    return as_lines(QuotaLine.objects.order_by("id"))


def as_lines(rows: Iterable[QuotaLine | QuotaChangeLine]) -> Lines:
    """Rows of lines by their keys."""
    return {LineKey(row.vc_id, row.cell_type_id, row.chain): row.count for row in rows}


@dataclass(frozen=True, slots=True)
class Planned:
    """A quota change that is not over; ``ends_at`` None: permanent."""

    starts_at: datetime
    ends_at: datetime | None
    lines: Lines

    def holds(self, at: datetime) -> bool:
        """Whether it is in force then."""
        return self.starts_at <= at and (self.ends_at is None or at < self.ends_at)


def changes_planned() -> list[Planned]:
    """Changes that are not over, in the order of their start. Two queries."""
    rows = QuotaChange.objects.filter(over_at__isnull=True).prefetch_related("lines").order_by("starts_at", "id")
    return [Planned(row.starts_at, row.ends_at, as_lines(row.lines.all())) for row in rows]


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas over time: the permanent ones, and the changes that are not over."""

    base: Lines
    planned: Sequence[Planned] = ()

    @classmethod
    def read(cls) -> Quotas:
        """Three queries."""
        return cls(base_lines(), changes_planned())

    def at(self, moment: datetime) -> Lines:
        """Quotas then."""
        lines = dict(self.base)
        standing = [change for change in self.planned if change.holds(moment)]
        for change in sorted(standing, key=lambda one: one.ends_at is not None):
            lines.update(change.lines)
        return lines


def moments(planned: Iterable[Planned], *, now: datetime) -> list[datetime]:
    """Times at which the quotas change; the first is now."""
    ends = {at for change in planned for at in (change.starts_at, change.ends_at) if at is not None and at > now}
    return [now, *sorted(ends)]


def leaves_by_cell_type(types: Mapping[int, CellType]) -> dict[int, int]:
    """GPUs per cell of each type, by the type's id."""

    def leaves(key: int) -> int:
        child = types[key].child_id
        return 1 if child is None else types[key].child_count * leaves(child)

    return {key: leaves(key) for key in types}


@dataclass(frozen=True, slots=True)
class QuotaBook:
    """The quotas in force, and the names they refer to. Read-only: it is cached."""

    types: Mapping[int, CellType]  # by id, with their SKUs
    leaves: Mapping[int, int]  # GPUs of one cell, by the type's id
    vc_names: Mapping[int, str]
    lines: Lines
    pinned: tuple[tuple[int, int], ...]  # VC and type of each pinned cell that a VC owns


def _book_make() -> QuotaBook:
    types = {row.pk: row for row in CellType.objects.select_related("sku")}
    return QuotaBook(
        types=types,
        leaves=leaves_by_cell_type(types),
        vc_names=dict(VirtualCluster.objects.values_list("id", "name")),
        lines=quota_lines(),
        pinned=tuple(PinnedCell.objects.filter(vc__isnull=False).values_list("vc_id", "cell_type_id")),
    )


_TABLES = (Sku, CellType, PinnedCell, VirtualCluster, QuotaLine, QuotaChange, QuotaChangeLine)
_BOOK = KeptResult(RowsVersion(*(model.objects.all for model in _TABLES)), _book_make)


def quota_book() -> QuotaBook:
    """The cached book while none of its rows has changed: then one query, else six."""
    return _BOOK.read()
