"""Checks that quotas fit the hardware (HiveD's safety) and are no smaller than the rights promised in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext

from portal.common.errors import Fault
from portal.teams.models import FirmRight
from portal.teams.selectors.engine_cluster import ClusterRows, cluster_read
from portal.teams.selectors.quotas import Lines, QuotaBook, Quotas, moments, quota_book
from scheduling.model.validate import Shortage, shortages


def shortages_now() -> list[str]:
    """What current quotas need beyond what there is: a sentence for each level."""
    return [_words(found) for found in shortages(cluster_read().cluster)]


def _words(found: Shortage) -> str:
    cells = found.cell_type
    if found.chain not in {"", found.cell_type}:
        cells = gettext("%(cell_type)s of %(chain)s") % {"cell_type": found.cell_type, "chain": found.chain}
    numbers = {"needed": found.needed, "cells": cells, "available": found.available}
    return gettext("the quotas need %(needed)s %(cells)s, %(available)s are there") % numbers


def _from(at: datetime, problem: str, *, later: bool) -> str:
    """The problem with its start, if that is not now."""
    if not later:
        return problem
    moment = f"{timezone.localtime(at):%Y-%m-%d %H:%M}"
    return gettext("from %(moment)s on, %(problem)s") % {"moment": moment, "problem": problem}


def quota_faults(new: Quotas, old: Quotas, *, here: ClusterRows, now: datetime) -> list[Fault]:
    """Every fault of these quotas in this cluster, now and at each moment when they change.

    Shortages the old quotas already have, for hardware that is gone, count only if they grow.
    """
    check = _Check(here, _Rights.read(here.book))
    faults: list[Fault] = []
    for at in moments([*new.planned, *old.planned], now=now):
        found = check.faults(new.at(at), old.at(at), at, later=at != now)
        faults += [fault for fault in found if fault.path not in {f.path for f in faults}]
    return faults


@dataclass(frozen=True, slots=True)
class _Check:
    rows: ClusterRows
    rights: _Rights

    def faults(self, new: Lines, old: Lines, at: datetime, *, later: bool) -> Iterator[Fault]:
        before = {(one.chain, one.cell_type): one.needed for one in shortages(self.rows.with_quotas(old))}
        for one in shortages(self.rows.with_quotas(new)):
            if one.needed > before.get((one.chain, one.cell_type), 0):
                yield Fault(f"quota.{one.cell_type}", _from(at, _words(one), later=later), "too_large")
        for vc, name in self.rows.vc_names.items():
            promised, owned = self.rights.promised(vc, at), self.rights.gpus(vc, new)
            if promised > owned and (not old or owned < self.rights.gpus(vc, old)):
                message = gettext(
                    "%(vc)s would own %(owned)s GPUs, %(promised)s are promised to jobs that are not preempted"
                ) % {"vc": name, "owned": owned, "promised": promised}
                yield Fault(f"quota.{name}", _from(at, message, later=later), "promised")


@dataclass(frozen=True, slots=True)
class _Rights:
    """Rights to non-preemptible jobs, and the GPUs that quotas amount to."""

    rows: list[FirmRight]
    book: QuotaBook

    @classmethod
    def read(cls, book: QuotaBook) -> _Rights:
        return cls(list(FirmRight.objects.all()), book)

    def promised(self, vc: int, at: datetime) -> int:
        """GPUs promised in a virtual cluster at that time."""
        day = timezone.localdate(at)
        return sum(row.gpus for row in self.rows if row.vc_id == vc and row.last_day >= day)

    def gpus(self, vc: int, lines: Lines) -> int:
        """GPUs that a virtual cluster owns by these lines."""
        own = sum(count * self.book.leaves[key.cell_type_id] for key, count in lines.items() if key.vc_id == vc)
        return own + sum(self.book.leaves[cell_type] for owner, cell_type in self.book.pinned if owner == vc)


def gpus_owned(*, vc: int, lines: Lines) -> int:
    """GPUs of all kinds that a virtual cluster owns by these lines and its pinned cells."""
    return _Rights.read(quota_book()).gpus(vc, lines)
