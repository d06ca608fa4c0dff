"""A virtual cluster's usage over the last weeks: a part of its page, and a page of its own."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, page_view
from portal.common.charts import Chart, Line
from portal.common.errors import NotFound
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import jobs_seen, vc_get
from portal.usage.selectors.gpu_hours import UsageSums
from portal.usage.selectors.usage_report import UsageQuery, UsageReport, usage_report

SPANS = (7, 30, 90)
HOUR_MS = 3_600_000


@page_view
def vc_usage(request: PageRequest, name: str) -> HttpResponse:
    """GPU hours by day: inside the quota, on loan, and of these actually used."""
    vc = vc_get(user=request.user, name=name)
    if not jobs_seen(user=request.user, vc=vc):
        raise NotFound("usage of", name)
    asked = request.GET.get("days", "")
    days = int(asked) if asked in map(str, SPANS) else 30
    now = timezone.now()
    last = now.astimezone(UTC).date()
    first = last - timedelta(days=days - 1)
    query = UsageQuery(first, last, by=("day",), vc=vc.name)
    report = usage_report(user=request.user, query=query, now=now)
    context = {
        "vc": vc,
        "chart": _chart(vc, report, first, days),
        "total": {name: _hours(value) for name, value in _parts(report.total.sums).items()},
        "days": days,
        "spans": SPANS,
        "csv": urlencode({"format": "csv", "vc": vc.name, "by": "user,day", "from": first, "to": last}),
    }
    return render(request, "usage/parts/vc_usage.html" if request.htmx else "usage/vc_usage.html", context)


def _chart(vc: VirtualCluster, report: UsageReport, first: date, days: int) -> Chart:
    of_day = {row.group[0]: _parts(row.sums) for row in report.rows}
    dates = [first + timedelta(days=number) for number in range(days)]
    # Noon is on that day nearly everywhere: the browser draws times in its own zone.
    times = [int(datetime(one.year, one.month, one.day, 12, tzinfo=UTC).timestamp()) for one in dates]
    names = {"guaranteed": _("inside the quota"), "loan": _("on loan"), "used": _("really used")}
    colours = {"guaranteed": "running", "loan": "stopping", "used": "succeeded"}
    lines = [
        Line(words, [round(_hours(of_day[day][part]), 2) if day in of_day else 0 for day in dates], colours[part])
        for part, words in names.items()
    ]
    return Chart(f"usage-{vc.pk}", _("GPU hours by day"), "", lines, times=times, kind="line")


def _parts(sums: UsageSums) -> dict[str, int]:
    return {
        "guaranteed": sums.guaranteed_ms,
        "loan": sums.opportunistic_ms,
        "grown": sums.grown_ms,
        "used": sums.used_ms,
        "idle": sums.idle_ms,
        "wasted": sums.wasted_ms,
    }


def _hours(ms: int) -> float:
    return ms / HOUR_MS
