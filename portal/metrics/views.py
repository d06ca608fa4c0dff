"""The charts of a job's page: what its tasks used, while they run and afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.accounts.pages import PageRequest, page_view
from portal.common.charts import Chart
from portal.common.errors import NotFound
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.selectors.details import job_attempt_current, task_runs
from portal.jobs.selectors.visible import job_get, task_attempt_visible
from portal.jobs.states import JOB_LIVE
from portal.jobs.views.asked import number_asked
from portal.logs.stream import streams_client
from portal.metrics.advice import job_advice
from portal.metrics.charts import charts_of_task, charts_of_tasks
from portal.metrics.overview import MOST_TASKS, Window, task_curves, window_of
from portal.metrics.reading import CurveReader
from portal.metrics.record import Records
from portal.metrics.steps import step_problems

SPANS = (900, 3600, 21_600, 86_400)
SOONEST_S, LATEST_S = 10, 60
"""How often live charts are read again."""
LAST_MOMENT = 32_503_679_999


@page_view
def job_charts_now(request: PageRequest, job_id: int) -> HttpResponse:
    """The charts alone, as they are now: what the page asks for again while the job runs."""
    job = job_get(user=request.user, job_id=job_id)
    newest = job_attempt_current(job=job)
    attempt = number_asked(request, "attempt") or (newest.number if newest else None)
    return render(request, "metrics/parts/charts.html", {"job": job, **charts_shown(request, job, attempt)})


def charts_shown(request: PageRequest, job: Job, attempt: int | None) -> dict[str, Any]:
    """What ``metrics/parts/charts.html`` shows: of the task that the address names, of the only one, or of all."""
    now, first = timezone.now(), number_asked(request, "first")
    runs, total = task_runs(job=job, attempt=attempt, first=first, limit=MOST_TASKS)
    chosen = _chosen(request.user, job, request.GET.get("task", ""))
    rows = [chosen] if chosen else runs
    window = window_of(rows, now=now, chosen=_part(request, rows, now)) if rows else None
    asked = _asked(request)
    charts = _charts(rows, window) if window else []
    told = any(chart.key == "step" for chart in charts)
    return {
        "charts": charts,
        "advice": job_advice(job=job),
        "step_problems": step_problems(job, rows, told=told, now=now, redis=streams_client()),
        "window": window,
        "runs": runs,
        "task": chosen,
        "attempt": attempt,
        "spans": [(length, _words(length), _with(asked, last=length)) for length in SPANS],
        "span": number_asked(request, "last"),
        "zoomed": "from" in asked,
        "whole": _with(asked),
        "query": urlencode(asked),
        "pages": _pages(asked, first, total),
        "every": _every(window) if job.state in JOB_LIVE and "to" not in asked else None,
    }


def _chosen(user: User, job: Job, key: str) -> TaskAttempt | None:
    if not key:
        return None
    row = task_attempt_visible(user, key)
    if row.task.job_id != job.pk:
        raise NotFound("task attempt", key)
    return row


def _charts(rows: list[TaskAttempt], window: Window) -> list[Chart]:
    records, redis = Records(settings.METRICS_DIR), streams_client()
    if len(rows) > 1:
        return charts_of_tasks(task_curves(rows, window, records=records, redis=redis), window)
    (row,) = rows
    first, end = _moment(window.first), _moment(window.end)
    curves = CurveReader(records, redis).read(row, first=first, end=end, step=window.step)
    return charts_of_task(curves, window, name=f"{row.task.role.name}/{row.task.index}")


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.get_fixed_timezone(0))


def _part(request: HttpRequest, rows: list[TaskAttempt], now: datetime) -> tuple[int, int] | None:
    """What part of the time is asked for: from one moment to another, or the last so many seconds."""
    first, end = (_second(request.GET.get(name, "")) for name in ("from", "to"))
    if first and end and first < end:
        return first, end
    if length := number_asked(request, "last"):
        over = int(max(row.released_at or now for row in rows).timestamp())
        return over - length, over
    return None


def _second(text: str) -> int:
    """A moment in seconds since 1970; 0 where there is none."""
    return min(int(text), LAST_MOMENT) if text.isascii() and text.isdigit() and len(text) < 13 else 0


def _asked(request: HttpRequest) -> dict[str, str]:
    """What of the address is kept as the reader goes on."""
    names = ("attempt", "task", "first", "last", "from", "to")
    return {name: value for name in names if (value := request.GET.get(name, "")) and len(value) < 64}


def _with(asked: dict[str, str], **changes: int) -> str:
    kept = {name: value for name, value in asked.items() if name not in {"last", "from", "to"}}
    return urlencode({**kept, **changes})


def _words(seconds: int) -> str:
    if seconds < 3600:
        return _("Last %(count)d minutes") % {"count": seconds // 60}
    return _("Last hour") if seconds == 3600 else _("Last %(count)d hours") % {"count": seconds // 3600}


def _pages(asked: dict[str, str], first: int, total: int) -> dict[str, str]:
    kept = {name: value for name, value in asked.items() if name != "first"}
    found = {}
    if first:
        found["earlier"] = urlencode({**kept, "first": max(0, first - MOST_TASKS)})
    if first + MOST_TASKS < total:
        found["later"] = urlencode({**kept, "first": first + MOST_TASKS})
    return found


def _every(window: Window | None) -> int:
    """No more often than a new point comes."""
    return max(SOONEST_S, min(LATEST_S, window.step)) if window else SOONEST_S
