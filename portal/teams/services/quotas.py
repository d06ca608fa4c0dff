"""Changes quotas: now, or for a period."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import or_
from types import MappingProxyType

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from nodes.protocol.wording import Wording
from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.live import announce
from portal.common.prepared import Prepared, Slot
from portal.common.wake import scheduler_wake
from portal.hardware.models import CellType
from portal.teams import wordings
from portal.teams.models import QuotaChange, QuotaChangeLine, QuotaLine, VirtualCluster
from portal.teams.selectors.details import lines_named
from portal.teams.selectors.engine_cluster import ClusterRows, cluster_read
from portal.teams.selectors.quotas import (
    LineKey,
    Lines,
    Planned,
    QuotaBook,
    Quotas,
    as_lines,
    base_lines,
    changes_planned,
    quota_book,
)
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.events import vc_events
from portal.teams.services.quota_checks import quota_faults

MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` cells of a type for a virtual cluster, by name; ``chain`` empty: the only one with the type."""

    vc: str
    cell_type: str
    count: int
    chain: str = ""


def lines_resolve(wishes: Sequence[Wish]) -> Lines:
    """Resolves wishes to quota lines. Raises Invalid with every unknown or repeated name."""
    here = cluster_read()
    book, chains = here.book, here.chains
    vcs = {name: key for key, name in book.vc_names.items()}
    types = {row.name: key for key, row in book.types.items()}
    lines: Lines = {}
    faults: list[Fault] = []
    for place, wish in enumerate(wishes):
        found = list(_wish_faults(wish, f"lines[{place}]", vcs, types))
        if not found:
            key = LineKey(vcs[wish.vc], types[wish.cell_type], wish.chain)
            if key not in book.lines:  # an existing line may be named even if its chain is gone
                found = list(_chain_faults(wish, f"lines[{place}]", chains.having.get(key.cell_type_id, ())))
        faults += found
        if not found:
            key = chains.stored(key)
            if key in lines:
                names = {"vc": wish.vc, "cell_type": wish.cell_type}
                message = gettext("%(vc)s has a line for %(cell_type)s already") % names
                faults.append(Fault(f"lines[{place}]", message, "twice"))
            lines[key] = wish.count
    if faults:
        raise Invalid(faults)
    return lines


def _wish_faults(wish: Wish, path: str, vcs: dict[str, int], types: dict[str, int]) -> Iterable[Fault]:
    if wish.vc not in vcs:
        yield Fault(f"{path}.vc", gettext("there is no virtual cluster %(vc)s") % {"vc": wish.vc}, "unknown")
    if not 0 <= wish.count <= MOST_CELLS:
        numbers = {"most": MOST_CELLS, "count": wish.count}
        yield Fault(f"{path}.count", gettext("must be from 0 to %(most)s, not %(count)s") % numbers, "range")
    if wish.cell_type not in types:
        message = gettext("there is no cell type %(cell_type)s") % {"cell_type": wish.cell_type}
        yield Fault(f"{path}.cell_type", message, "unknown")


def _chain_faults(wish: Wish, path: str, chains: Sequence[str]) -> Iterable[Fault]:
    if wish.chain and wish.chain not in chains:
        there = ", ".join(chains) or gettext("none")
        names = {"chain": wish.chain, "cell_type": wish.cell_type, "there": there}
        message = gettext("%(chain)s has no %(cell_type)s; chains with it: %(there)s") % names
        yield Fault(f"{path}.chain", message, "unknown")
    elif not wish.chain and len(chains) > 1:
        message = gettext("%(cell_type)s is in several chains, name one: %(chains)s") % {
            "cell_type": wish.cell_type,
            "chains": ", ".join(chains),
        }
        yield Fault(f"{path}.chain", message, "ambiguous")


def quota_set(*, vc: VirtualCluster, cell_type: CellType, count: int, now: datetime, actor: str = "") -> None:
    """Guarantee ``count`` cells of a type. Raises Invalid if the cluster has not that many left."""
    quotas_set(lines=lines_resolve([Wish(vc.name, cell_type.name, count)]), now=now, actor=actor)


def quotas_set(*, lines: Lines, now: datetime, actor: str, reason: str = "", version: int | None = None) -> None:
    """Change these lines, all or none; 0 removes a line. Events and audit log state the reason. Raises Invalid with
    every fault, Conflict if the quotas are no longer those of ``version``."""
    with cluster_change(version=version):
        here, old = cluster_read(), Quotas.read()
        if faults := _set_faults(lines, old, here, now):
            raise Invalid(faults)
        changed = lines_write(lines, old.base, here, now, actor, reason)
        before = told_by_vc({key: old.base.get(key, 0) for key in changed}, here.book)
        for vc, told in told_by_vc(changed, here.book).items():
            was = before[vc]
            after = told | ({"reason": reason} if reason else {})
            audit_write(Audited.QUOTA, actor=actor, target=vc, vc=vc, now=now, before=was, after=after)


def told_by_vc(lines: Lines, book: QuotaBook) -> dict[str, dict[str, int]]:
    """Virtual cluster -> cell type (and chain) -> count, as logged in the audit log."""
    told: dict[str, dict[str, int]] = {}
    for one in lines_named(lines, book):
        told.setdefault(one.vc, {})[one.cell_type + (f" of {one.chain}" if one.chain else "")] = one.count
    return told


def lines_write(lines: Lines, before: Lines, here: ClusterRows, now: datetime, actor: str, reason: str = "") -> Lines:
    """Write these lines over those of ``before``, with an event for each change; inside the caller's transaction, after
    its checks. Returns the changed lines."""
    # A line with the same meaning under another key was written before there were such nodes.
    same = {key for key in before if key not in lines and here.chains.stored(key) in lines}
    changed = {key: count for key, count in lines.items() if before.get(key, 0) != count}
    if gone := same | {key for key, count in changed.items() if not count}:
        QuotaLine.objects.filter(reduce(or_, (Q(**key._asdict()) for key in gone))).delete()
    rows = [QuotaLine(**key._asdict(), count=count) for key, count in changed.items() if count]
    QuotaLine.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["vc", "cell_type", "chain"], update_fields=["count"]
    )
    _events(changed, "quota", wordings.QUOTA, now, actor, reason, here.book)
    return changed


def _events(
    lines: Lines,
    code: str,
    wording: Wording,
    now: datetime,
    actor: str,
    reason: str = "",
    book: QuotaBook | None = None,
    times: Mapping[str, str] = MappingProxyType({}),
) -> None:
    messages: list[tuple[int, str]] = []
    for key, one in zip(lines, lines_named(lines, book), strict=True):
        message = wording(vc=one.vc, number=one.count, type=one.cell_type, **times)
        messages.append((key.vc_id, wordings.FOR_REASON(why=message, reason=reason) if reason else message))
    vc_events(messages=messages, code=code, now=now, actor=actor)
    if lines:
        transaction.on_commit(lambda: announce("queue", {}))
        transaction.on_commit(scheduler_wake)


# ---------------------------------------------------------------- for a period


def quotas_set_faults(*, lines: Lines, now: datetime) -> list[Fault]:
    """Every fault of changing these lines now."""
    return _set_faults(lines, Quotas.read(), cluster_read(), now)


def _set_faults(lines: Lines, old: Quotas, here: ClusterRows, now: datetime) -> list[Fault]:
    new = Quotas(here.chains.meant(old.base) | lines, old.planned)
    return quota_faults(new, old, here=here, now=now)


def quota_change_faults(*, lines: Lines, starts_at: datetime, ends_at: datetime | None, now: datetime) -> list[Fault]:
    """Every fault of this change. If its times are invalid, its numbers are checked as if from now on, and for good."""
    faults = []
    if not lines:
        faults.append(Fault("lines", gettext("names no quota line"), "empty"))
    if starts_at < now:
        faults.append(Fault("starts_at", gettext("lies in the past"), "past"))
    if ends_at is not None and ends_at <= starts_at:
        faults.append(Fault("ends_at", gettext("must be later than the start"), "range"))
    overlaps = list(_overlaps(lines, starts_at, ends_at))
    if lines and not overlaps:
        start = max(starts_at, now)
        end = ends_at if ends_at is not None and ends_at > start else None
        old = Quotas.read()
        new = replace(old, planned=[*old.planned, Planned(start, end, lines)])
        faults += quota_faults(new, old, here=cluster_read(), now=now)
    return faults + overlaps


def _overlaps(lines: Lines, starts_at: datetime, ends_at: datetime | None) -> Iterable[Fault]:
    """Changes of one line in force at one time: whose end would count?"""
    for change in changes_planned():
        apart = (ends_at is not None and ends_at <= change.starts_at) or (
            change.ends_at is not None and change.ends_at <= starts_at
        )
        if not apart and lines.keys() & change.lines.keys():
            start = f"{timezone.localtime(change.starts_at):%Y-%m-%d %H:%M}"
            message = gettext("a change of the same quota holds from %(start)s; withdraw it") % {"start": start}
            yield Fault("lines", message, "overlap")


def quota_change_create(
    *, lines: Lines, starts_at: datetime, ends_at: datetime | None, reason: str, actor: str, now: datetime
) -> QuotaChange:
    """Plan a change; it begins and ends by itself. Raises Invalid with every fault."""
    with cluster_change():
        if faults := quota_change_faults(lines=lines, starts_at=starts_at, ends_at=ends_at, now=now):
            raise Invalid(faults)
        change = QuotaChange.objects.create(
            starts_at=starts_at, ends_at=ends_at, reason=reason, actor=actor, created_at=now
        )
        QuotaChangeLine.objects.bulk_create(
            QuotaChangeLine(change=change, **key._asdict(), count=count) for key, count in lines.items()
        )
        times = {"start": f"{timezone.localtime(starts_at):%Y-%m-%d %H:%M}"}
        if ends_at:
            times["end"] = f"{timezone.localtime(ends_at):%Y-%m-%d %H:%M}"
        wording = wordings.PLANNED_UNTIL if ends_at else wordings.PLANNED
        _events(lines, "quota_planned", wording, now, actor, reason, times=times)
        audit_write(Audited.QUOTA_CHANGE, actor=actor, target=f"change {change.pk}", now=now, after=_told(change))
    return change


def quota_change_withdraw(*, change: QuotaChange, now: datetime, actor: str) -> None:
    """Withdraw a change; one that has begun ends now. Raises Conflict if it is over, Invalid if the quotas that would
    return are impossible."""
    with cluster_change():
        old, lines = Quotas.read(), as_lines(change.lines.all())
        rest = [one for one in old.planned if one.lines != lines or one.starts_at != change.starts_at]
        if faults := quota_faults(replace(old, planned=rest), old, here=cluster_read(), now=now):
            raise Invalid(faults)
        rows = QuotaChange.objects.filter(pk=change.pk, over_at__isnull=True)
        if not rows.update(over_at=now, withdrawn=True):
            raise Conflict(gettext("This change is over already."))
        _events(lines, "quota_withdrawn", wordings.WITHDRAWN, now, actor)
        audit_write(Audited.QUOTA_CHANGE, actor=actor, target=f"change {change.pk}", now=now, before=_told(change))


def emptied_withdraw(*, now: datetime, actor: str) -> None:
    """Withdraw changes without lines left, since they named only a removed virtual cluster; inside the caller's
    transaction."""
    for change in QuotaChange.objects.filter(over_at__isnull=True, lines__isnull=True):
        QuotaChange.objects.filter(pk=change.pk).update(over_at=now, withdrawn=True)
        audit_write(Audited.QUOTA_CHANGE, actor=actor, target=f"change {change.pk}", now=now, before=_told(change))


def _told(change: QuotaChange) -> dict[str, object]:
    """The change as logged in the audit log."""
    ends = change.ends_at.isoformat() if change.ends_at else None
    why = {"reason": change.reason} if change.reason else {}
    return {
        "from": change.starts_at.isoformat(),
        "until": ends,
        "quotas": told_by_vc(as_lines(change.lines.all()), quota_book()),
        **why,
    }


def quota_changes_apply(*, now: datetime) -> int:
    """Begin and end changes that are due; returns how many. Each is one conditional UPDATE, done once; one that
    collides with another quota change is done a cycle later."""
    if not _DUE(now=now):
        return 0
    open_ones = QuotaChange.objects.filter(over_at__isnull=True)
    moved = 0
    with suppress(Conflict):
        for change in open_ones.filter(begun_at__isnull=True, starts_at__lte=now).order_by("starts_at", "id"):
            moved += _begin(change, now)
        for change in open_ones.filter(begun_at__isnull=False, ends_at__lte=now).order_by("ends_at", "id"):
            moved += _end(change, now)
    return moved


def _due() -> QuerySet[QuotaChange, int]:
    """Open changes due to begin or end; one that begins may be due to end as well."""
    now = Slot("now", datetime)
    due = Q(begun_at=None, starts_at__lte=now) | Q(begun_at__isnull=False, ends_at__lte=now)
    return QuotaChange.objects.filter(due, over_at=None).order_by().values_list("pk", flat=True)


_DUE = Prepared(_due)


def _begin(change: QuotaChange, now: datetime) -> bool:
    for_good = change.ends_at is None
    with cluster_change():
        fresh = QuotaChange.objects.filter(pk=change.pk, begun_at__isnull=True, over_at__isnull=True)
        if not fresh.update(begun_at=now, over_at=now if for_good else None):
            return False
        if for_good:
            lines_write(as_lines(change.lines.all()), base_lines(), cluster_read(), now, change.actor, change.reason)
        else:
            end = f"{timezone.localtime(change.ends_at):%Y-%m-%d %H:%M}"
            lines = as_lines(change.lines.all())
            _events(lines, "quota_begun", wordings.BEGUN, now, change.actor, change.reason, times={"end": end})
    return True


def _end(change: QuotaChange, now: datetime) -> bool:
    with cluster_change():
        if not QuotaChange.objects.filter(pk=change.pk, over_at__isnull=True).update(over_at=now):
            return False
        base = base_lines()
        back = {key: base.get(key, 0) for key in as_lines(change.lines.all())}
        _events(back, "quota_returned", wordings.RETURNED, now, "")
    return True
