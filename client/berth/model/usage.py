"""Usage in GPU hours."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from berth.model.base import Answer


class UsageSums(Answer, frozen=True, kw_only=True):
    """GPU hours: held (guaranteed and on loan, of the latter ``grown`` by extra tasks of elastic jobs), of these
    measured, used (times utilisation) and idle; lost with work that was not saved. ``cost``: by today's prices, None
    where no SKU has one."""

    gpu_hours: float
    guaranteed_gpu_hours: float
    opportunistic_gpu_hours: float
    grown_gpu_hours: float = 0
    measured_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    wasted_gpu_hours: float
    cost: Decimal | None


class UsageRow(UsageSums, frozen=True, kw_only=True):
    """Usage of one group: the fields that the report is grouped by. ``period`` is its first day; ``user`` is None for
    the others of one's team together."""

    vc: str | None = None
    user: str | None = None
    sku: str | None = None
    period: date | None = None


class Usage(Answer, frozen=True, kw_only=True):
    """GPU hours from ``first`` to ``last`` (days in UTC, both included), of what runs up to ``until``."""

    first: date
    last: date
    until: datetime
    by: list[str]
    currency: str
    total: UsageSums
    rows: list[UsageRow]
