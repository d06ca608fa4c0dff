"""Reports of GPU hours, held and actually used, by virtual cluster, user, SKU and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import F, Q, Sum
from django.db.models.functions import TruncMonth, TruncWeek
from django.utils.translation import gettext

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Fault, Invalid
from portal.hardware.models import Sku
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import JobSight, job_sights, vc_key
from portal.usage.models import UsageDay, UsageProgress
from portal.usage.selectors.gpu_hours import UsageKey, UsageSums
from portal.usage.selectors.open_days import usage_of_open_days

PERIODS = ("day", "week", "month")
GROUPS = ("vc", "user", "sku", *PERIODS)
HOUR_MS = 3_600_000
MOST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """A report's first and last day (UTC, both included), its grouping by ``GROUPS``, and filters."""

    first: date
    last: date
    by: tuple[str, ...] = ("vc",)
    vc: str | None = None
    user: str | None = None
    sku: str | None = None

    @property
    def period(self) -> str | None:
        """The period that time is grouped by."""
        return next((name for name in self.by if name in PERIODS), None)


Group = tuple[Any, ...]
"""Values of a query's ``by``: names, or the first day of the period; None: users who are not named."""


@dataclass(slots=True)
class UsageRow:
    """Sums of one group; ``cost`` by today's prices, None if none of its SKUs has one."""

    group: Group
    sums: UsageSums = field(default_factory=UsageSums)
    cost: Decimal | None = None

    def add(self, sums: UsageSums, price: Decimal | None) -> None:
        """Adds time on GPUs of this price."""
        self.sums.add(sums)
        if price is not None:
            held = sums.guaranteed_ms + sums.opportunistic_ms
            self.cost = (self.cost or Decimal(0)) + price * held / HOUR_MS


@dataclass(slots=True)
class UsageReport:
    """The rows, by period, then by who held most; their total, as of ``until``."""

    rows: list[UsageRow]
    total: UsageRow
    until: datetime


def usage_report(*, user: User, query: UsageQuery, now: datetime) -> UsageReport:
    """The part of it that the user may see: administrators and auditors all, leads their virtual clusters, members
    theirs without the others' names, everybody their own. A fixed number of queries. Raises Invalid for more than
    ``MOST_ROWS`` rows."""
    (report,) = usage_reports(user=user, queries=[query], now=now)
    return report


def usage_reports(*, user: User, queries: Sequence[UsageQuery], now: datetime) -> list[UsageReport]:
    """Several reports at once: each takes one more query."""
    seen, names, rolled_to = _Seen.of(user), _Names.read(), _rolled_to()
    return [_report(query, seen, names, rolled_to, now) for query in queries]


def _report(query: UsageQuery, seen: _Seen, names: _Names, rolled_to: date, now: datetime) -> UsageReport:
    found: dict[Group, UsageRow] = {}
    total = UsageRow(())
    until, today = _open(query, rolled_to, now)
    vc = vc_key(name=query.vc) if query.vc else None
    for one, sums in chain(_closed(query, seen, rolled_to, vc), _chosen(today, query, seen, names, vc)):
        group = tuple(names.of(name, one, seen) for name in query.by)
        price = names.prices.get(one.sku_id)
        if group not in found and len(found) == MOST_ROWS:
            message = gettext("This report has more than %(most_rows)s rows: take fewer days or groups.") % {
                "most_rows": MOST_ROWS
            }
            raise Invalid([Fault("by", message, "too_many")])
        found.setdefault(group, UsageRow(group)).add(sums, price)
        total.add(sums, price)
    rows = sorted(found.values(), key=lambda row: _order(row, query))
    return UsageReport(rows, total, until)


def _order(row: UsageRow, query: UsageQuery) -> tuple[Any, ...]:
    first = row.group[query.by.index(query.period)] if query.period else date.min
    names = [str(part or "") for part in row.group]
    return first, -(row.sums.guaranteed_ms + row.sums.opportunistic_ms), names


class _Part(NamedTuple):
    """Whose a sum is, by row ids; None if the report does not group by it."""

    period: date | None
    vc_id: int | None
    user_id: int | None
    sku_id: int


# ---------------------------------------------------------------- rights


@dataclass(frozen=True, slots=True)
class _Seen:
    """Whose usage somebody may see summed up, and whose names beside it."""

    sums: JobSight
    named: JobSight

    @classmethod
    def of(cls, user: User) -> _Seen:
        return cls(*job_sights(user=user, actions=(Action.USAGE_READ, Action.USAGE_USERS)))

    def condition(self, query: UsageQuery, vc: int | None) -> Q:
        """The rows to read; a user is only found by name if that name is shown. ``vc``: the id of the query's VC."""
        wanted = _among(self.sums) & (_among(self.named) if query.user else Q())
        if query.vc:
            wanted &= Q(vc=vc)
        if query.user:
            wanted &= Q(user__username=query.user)
        return wanted


def _among(sight: JobSight) -> Q:
    return Q() if sight.everything else Q(user=sight.own) | Q(vc__in=sight.vcs)


@dataclass(frozen=True, slots=True)
class _Names:
    """Names and prices by row id: there are few of each."""

    vcs: Mapping[int, str]
    users: Mapping[int, str]
    skus: Mapping[int, str]
    prices: Mapping[int, Decimal | None]

    @classmethod
    def read(cls) -> _Names:
        skus = list(Sku.objects.order_by().values_list("pk", "name", "price"))
        return cls(
            _vc_names(VirtualCluster._base_manager.order_by("-pk").values_list("pk", "name", "removed_at")),
            dict(User.objects.order_by().values_list("pk", "username")),
            {key: name for key, name, _ in skus},
            {key: price for key, _, price in skus},
        )

    def of(self, name: str, one: _Part, seen: _Seen) -> Any:
        if name == "vc":
            return self.vcs[one.vc_id or 0]
        if name == "sku":
            return self.skus[one.sku_id]
        if name in PERIODS:
            return one.period
        known = seen.named.covers(user_id=one.user_id or 0, vc_id=one.vc_id or 0)
        return self.users[one.user_id or 0] if known else None


def _vc_names(rows: Iterable[tuple[int, str, datetime | None]]) -> dict[int, str]:
    """Names of VCs, newest first. A reused name is the newer one's; the earlier gets the day of its end appended, so
    that the two are not confused."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for key, name, removed in rows:
        gone = name in taken and removed is not None
        found[key] = gettext("%(vc)s (until %(day)s)") % {"vc": name, "day": f"{removed:%Y-%m-%d}"} if gone else name
        taken.add(name)
    return found


# ---------------------------------------------------------------- closed and open days


def _rolled_to() -> date:
    """The day before which days are summed up."""
    row = UsageProgress.objects.filter(id=1).first()
    return row.rolled_to if row else date.min


_SUMS = [one.name for one in fields(UsageSums)]
_TRUNCATED = {"day": F("day"), "week": TruncWeek("day"), "month": TruncMonth("day")}


def _closed(query: UsageQuery, seen: _Seen, rolled_to: date, vc: int | None) -> Iterator[tuple[_Part, UsageSums]]:
    days = {"day__gte": query.first, "day__lte": query.last, "day__lt": rolled_to}
    rows = UsageDay.objects.filter(seen.condition(query, vc), **days)
    if query.sku:
        rows = rows.filter(sku__name=query.sku)
    by: dict[str, Any] = {"sku_id": F("sku_id")}
    if {"vc", "user"} & {*query.by}:
        by["vc_id"] = F("vc_id")  # for users too: it decides whether they are named
    if "user" in query.by:
        by["user_id"] = F("user_id")
    if query.period:
        by["period"] = _TRUNCATED[query.period]
    sums = {name: Sum(name) for name in _SUMS}
    summed: Any = rows.order_by().values(**{f"of_{name}": one for name, one in by.items()}).annotate(**sums)
    for row in summed.iterator(chunk_size=MOST_ROWS):  # stop early if there are too many
        part = _Part(row.get("of_period"), row.get("of_vc_id"), row.get("of_user_id"), row["of_sku_id"])
        yield part, UsageSums(*(row[name] for name in _SUMS))


def _open(query: UsageQuery, rolled_to: date, now: datetime) -> tuple[datetime, Iterable[tuple[UsageKey, UsageSums]]]:
    """Days not summed up yet: today, and yesterday until shortly after midnight."""
    first, last = max(query.first, rolled_to), min(query.last, now.astimezone(UTC).date())
    if first > last:
        return now, ()
    until, sums = usage_of_open_days(first=first, last=last, now=now)
    return until, ((key, one) for key, one in sums.items() if first <= key.day <= last)


def _chosen(
    sums: Iterable[tuple[UsageKey, UsageSums]], query: UsageQuery, seen: _Seen, names: _Names, vc: int | None
) -> Iterator[tuple[_Part, UsageSums]]:
    """Those of the sums that the user may see and the query asks for."""
    for key, one in sums:
        whose = {"user_id": key.user_id, "vc_id": key.vc_id}
        if not seen.sums.covers(**whose) or (query.user and not seen.named.covers(**whose)):
            continue
        user, sku = names.users.get(key.user_id), names.skus.get(key.sku_id)
        if key.vc_id not in names.vcs or user is None or sku is None:
            continue  # deleted or created since the names were read
        asked = (query.user, user), (query.sku, sku)
        if query.vc is not None and key.vc_id != vc:
            continue
        if all(wanted in (None, name) for wanted, name in asked):
            yield _Part(_period(key.day, query.period), key.vc_id, key.user_id, key.sku_id), one


def _period(day: date, name: str | None) -> date:
    """The first day of its period."""
    if name == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if name == "month" else day
