"""What is guaranteed to virtual clusters (VCs), now and later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from portal.clusters.models import CellType, PinnedCell, QuotaChange, QuotaChangeLine, QuotaLine


class LineKey(NamedTuple):
    """Which quota line: the VC's and the cell type's row ids, and the chain (empty: the only one)."""

    vc_id: int
    cell_type_id: int
    chain: str


Lines = dict[LineKey, int]
"""Cells by line, in the order in which the lines were made."""


def quota_lines() -> Lines:
    """The quotas that hold now: the lines, and in their place those of the changes that have begun. Two queries."""
    lines = base_lines()
    held = QuotaChangeLine.objects.filter(change__begun_at__isnull=False, change__over_at__isnull=True)
    lines.update(_as_lines(held.order_by("id")))
    return lines


def base_lines() -> Lines:
    """The quotas without what holds for a time only."""
    return _as_lines(QuotaLine.objects.order_by("id"))


def _as_lines(rows: Iterable[QuotaLine | QuotaChangeLine]) -> Lines:
    return {LineKey(row.vc_id, row.cell_type_id, row.chain): row.count for row in rows}


@dataclass(frozen=True, slots=True)
class Planned:
    """A change of quotas that has not ended: ``ends_at`` None is for good."""

    starts_at: datetime
    ends_at: datetime | None
    lines: Lines

    def holds(self, at: datetime) -> bool:
        """Whether it holds at that moment."""
        return self.starts_at <= at and (self.ends_at is None or at < self.ends_at)


def changes_planned() -> list[Planned]:
    """The changes that are not over, in the order of their start. Two queries."""
    rows = QuotaChange.objects.filter(over_at__isnull=True).prefetch_related("lines").order_by("starts_at", "id")
    return [Planned(row.starts_at, row.ends_at, _as_lines(row.lines.all())) for row in rows]


def lines_at(at: datetime, *, base: Mapping[LineKey, int], planned: Iterable[Planned]) -> Lines:
    """The quotas of a moment, from the lines of now and the changes to come."""
    lines = dict(base)
    standing = [change for change in planned if change.holds(at)]
    for change in sorted(standing, key=lambda one: one.ends_at is not None):
        lines.update(change.lines)
    return lines


def moments(planned: Iterable[Planned], *, now: datetime) -> list[datetime]:
    """When the quotas change from now on; the first is now."""
    ends = {at for change in planned for at in (change.starts_at, change.ends_at) if at is not None and at > now}
    return [now, *sorted(ends)]


def pinned_lines() -> dict[int, list[CellType]]:
    """The types of the pinned cells that each VC owns, by the VC's id."""
    owned: dict[int, list[CellType]] = defaultdict(list)
    for cell in PinnedCell.objects.filter(vc__isnull=False).select_related("cell_type__sku"):
        if cell.vc_id is not None:
            owned[cell.vc_id].append(cell.cell_type)
    return owned
