"""The usage page: GPU hours held and actually used, by whom, of what, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, page_view
from portal.common.charts import Chart, Line
from portal.common.errors import Invalid
from portal.usage.forms import GROUPS, UsageForm
from portal.usage.selectors.usage_report import UsageReport, UsageRow, usage_reports

HOUR_MS = 3_600_000
MOST_BARS = 15
MOST_LINES = 500
"""Maximum rows of the table; the CSV file has all."""
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class UsageLine:
    """A row in hours; ``grown``: of those on loan, by extra tasks. ``used_percent`` is of what was measured; None if
    nothing was."""

    name: str
    held: float
    lent: float
    grown: float
    used: float
    idle: float
    lost: float
    used_percent: int | None
    cost: Decimal | None
    address: str = ""


@page_view
def usage(request: PageRequest) -> HttpResponse:
    """A report by virtual cluster, user or SKU, and the same over time."""
    now = timezone.now()
    today = now.astimezone(UTC).date()
    form = UsageForm(request.GET.dict(), user=request.user, today=today)
    context: dict[str, Any] = {"form": form, "ranges": _ranges(today, request), "currency": settings.CURRENCY}
    if not form.is_valid():
        return render(request, "usage/usage.html", context, status=400)
    by, per = form.cleaned_data["by"], form.cleaned_data["per"]
    try:
        queries = [form.query(by), form.query(per)]
        report, times = usage_reports(user=request.user, queries=queries, now=now)
    except Invalid as refusal:
        form.add_error(None, refusal.faults[0].message)
        return render(request, "usage/usage.html", context, status=400)
    lines = [_line(row, _name(row, by), form) for row in report.rows[:MOST_LINES]]
    context |= {
        "total": _line(report.total, "", form),
        "until": report.until if form.cleaned_data["last"] >= today else None,
        "lines": lines,
        "more": len(report.rows) - len(lines),
        "by_label": next(label for name, label in GROUPS if name == by),
        "charts": [_over_time(times, form, per), _by_whom(report.rows, lines)] if lines else [],
        "csv": _csv(form, by, per),
    }
    return render(request, "usage/usage.html", context)


def _name(row: UsageRow, by: str) -> str:
    name = row.group[0]
    return str(name) if name is not None else _("others of the team")


def _line(row: UsageRow, name: str, form: UsageForm) -> UsageLine:
    sums = row.sums
    percent = round(100 * sums.used_ms / sums.measured_ms) if sums.measured_ms else None
    held = sums.guaranteed_ms + sums.opportunistic_ms
    lent, grown, used, idle, lost = (
        ms / HOUR_MS for ms in (sums.opportunistic_ms, sums.grown_ms, sums.used_ms, sums.idle_ms, sums.wasted_ms)
    )
    return UsageLine(name, held / HOUR_MS, lent, grown, used, idle, lost, percent, row.cost, _closer(form, row))


_NEXT = {"vc": "user", "user": "sku", "sku": "vc"}


def _closer(form: UsageForm, row: UsageRow) -> str:
    """The address of this row's own report, grouped by what comes next."""
    by = form.cleaned_data["by"]
    if not row.group or row.group[0] is None:
        return ""
    return "?" + urlencode({**_given(form), by: row.group[0], "by": _NEXT[by]})


def _given(form: UsageForm) -> dict[str, Any]:
    return {name: value for name, value in form.cleaned_data.items() if value}


def _csv(form: UsageForm, by: str, per: str) -> str:
    """The query for the API's CSV file, grouped by both."""
    given = _given(form)
    whose = [(name, given[name]) for name in ("vc", "user", "sku") if name in given]
    return urlencode(
        [("format", "csv"), ("by", f"{by},{per}"), ("from", given["first"]), ("to", given["last"]), *whose]
    )


def _ranges(today: date, request: PageRequest) -> list[tuple[str, str]]:
    """Links to common periods, keeping the rest of the address."""
    month = today.replace(day=1)
    before = (month - DAY).replace(day=1)
    spans = [
        (_("7 days"), today - 6 * DAY, today, "day"), (_("This month"), month, today, "day"),
        (_("Last month"), before, month - DAY, "day"), (_("12 weeks"), today - 83 * DAY, today, "week"),
        (_("This year"), today.replace(month=1, day=1), today, "month"),
    ]  # fmt: skip
    kept = [(name, value) for name, value in request.GET.items() if name in ("by", "vc", "sku", "user")]
    return [
        (name, "?" + urlencode([*kept, ("first", first), ("last", last), ("per", per)]))
        for name, first, last, per in spans
    ]


# ---------------------------------------------------------------- charts


def _over_time(report: UsageReport, form: UsageForm, per: str) -> Chart:
    """The chart over time, including periods without hours."""
    found: dict[date, UsageRow] = {row.group[0]: row for row in report.rows}
    days = list(_periods(form.cleaned_data["first"], form.cleaned_data["last"], per))
    style = _("F Y") if per == "month" else _("M j")
    return _chart(
        "time", _("GPU hours over time"), [date_format(day, style) for day in days], [found.get(d) for d in days]
    )


def _periods(first: date, last: date, per: str) -> Iterable[date]:
    """The first days of the periods."""
    starts = {"day": first, "week": first - first.weekday() * DAY, "month": first.replace(day=1)}
    day = starts[per]
    while day <= last:
        yield day
        next_month = (day.replace(day=28) + 4 * DAY).replace(day=1)
        day = {"day": day + DAY, "week": day + 7 * DAY, "month": next_month}[per]


def _chart(key: str, title: str, names: list[str], rows: Sequence[UsageRow | None]) -> Chart:
    """A chart of what was held in three parts: used, idle or half used, not measured."""
    sums = [row.sums if row else None for row in rows]
    used = [round(one.used_ms / HOUR_MS, 2) if one else 0 for one in sums]
    rest = [round((one.measured_ms - one.used_ms) / HOUR_MS, 2) if one else 0 for one in sums]
    dark = [
        round(max(0, one.guaranteed_ms + one.opportunistic_ms - one.measured_ms) / HOUR_MS, 2) if one else 0
        for one in sums
    ]
    lines = [Line(_("really used"), used, "running"), Line(_("held, not used"), rest, "waiting")]
    if any(dark):
        lines.append(Line(_("held, not measured"), dark, "stopped"))
    return Chart(key, title, "h", lines, names=names, kind="bar", stacked=True)


def _by_whom(rows: Sequence[UsageRow], lines: Sequence[UsageLine]) -> Chart:
    names = [line.name for line in lines[:MOST_BARS]]
    return _chart("whom", _("Who held most"), names, rows[:MOST_BARS])
