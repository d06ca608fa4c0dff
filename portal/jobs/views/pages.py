"""Pages of jobs: home, list, queue, and what one does to a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.models import User
from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action
from portal.clusters.selectors import job_sight, sku_totals
from portal.common.errors import Conflict
from portal.jobs.forms import JobFilterForm, MoveForm, QueueForm
from portal.jobs.models import Job
from portal.jobs.selectors import (
    job_with_right,
    queue_ordered,
    queue_places,
    queue_rows,
    queue_waiting,
    vc_choices,
)
from portal.jobs.selectors.pages import JobFilter, job_counts, jobs_found
from portal.jobs.services import job_change_vc, job_pause, job_resume, job_stop
from portal.jobs.spec import Problem, SpecInvalid
from portal.jobs.states import JobState
from portal.jobs.views.asked import PRIORITY_WORDS

RECENT = 8
QUEUE_PAGE = 100


@login_required
@require_safe
def home(request: PageRequest) -> HttpResponse:
    """My jobs by state, my teams' shares, free GPUs, what I did last."""
    user = request.user
    context = {
        "counts": [(state, state.label, number) for state, number in _counts(user)],
        "recent": jobs_found(user=user, only=JobFilter(user=user), limit=RECENT),
        "shares": [(one.vc, one.shares) for one in vc_choices(user=user)],
        "skus": sku_totals(),
    }
    return render(request, "jobs/parts/home.html" if request.htmx else "jobs/home.html", context)


def _counts(user: User) -> list[tuple[JobState, int]]:
    counts = job_counts(user=user)
    return [(state, counts[state]) for state in JobState]


@login_required
@require_safe
def job_list(request: PageRequest) -> HttpResponse:
    """The jobs one may see, filtered."""
    form = JobFilterForm(request.GET, user=request.user)
    page = jobs_found(user=request.user, only=form.to_filter())
    kept = {name: value for name, value in form.chosen.items() if name != "before"}
    context = {
        "form": form,
        "page": page,
        "places": queue_places(jobs=page.jobs),
        "filtered": bool(kept),
        "query": urlencode(form.chosen),
        "newest_query": urlencode(kept),
        "older_query": urlencode({**kept, "before": page.older}) if page.older else "",
    }
    return render(request, "jobs/parts/list.html" if request.htmx else "jobs/list.html", context)


@login_required
@require_safe
def queue(request: PageRequest) -> HttpResponse:
    """What waits, in the order that the scheduler uses; of other teams' jobs only whose they are."""
    form = QueueForm(request.GET, user=request.user)
    vc, first = form.chosen.get("vc"), form.chosen.get("first", 0)
    ids = queue_ordered(queue_waiting().filter(vc__name=vc) if vc else queue_waiting())
    context = {
        "form": form,
        "rows": _queue_rows(request.user, ids[first : first + QUEUE_PAGE]),
        "total": len(ids),
        "first": first,
        "query": urlencode(form.chosen),
        "earlier_query": urlencode({**form.chosen, "first": max(0, first - QUEUE_PAGE)}),
        "later_query": urlencode({**form.chosen, "first": first + QUEUE_PAGE}) if first + QUEUE_PAGE < len(ids) else "",
    }
    return render(request, "jobs/parts/queue.html" if request.htmx else "jobs/queue.html", context)


def _queue_rows(user: User, ids: list[int]) -> list[dict[str, Any]]:
    sight = job_sight(user=user)
    return [
        {
            "job": row.job,
            "place": row.place,
            "start": row.start,
            "priority": PRIORITY_WORDS.get(row.job.priority, str(row.job.priority)),
            "known": sight.covers(user_id=row.job.user_id, vc_id=row.job.vc_id),
        }
        for row in queue_rows(ids=ids)
    ]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def job_stop_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Asks, then stops."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_STOP)
    if request.method != "POST":
        return render(request, "jobs/stop.html", {"job": job})
    try:
        job_stop(job=job, actor=request.user, now=timezone.now())
    except Conflict as conflict:
        messages.warning(request, conflict.detail)
    return redirect("job", job_id=job.pk)


@login_required
@require_POST
def job_pause_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Holds a waiting job back."""
    return _hold(request, job_id, job_pause)


@login_required
@require_POST
def job_resume_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Lets a paused job go on."""
    return _hold(request, job_id, job_resume)


def _hold(request: PageRequest, job_id: int, change: Callable[..., Job]) -> HttpResponse:
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_PAUSE)
    try:
        change(job=job, actor=request.user.username, now=timezone.now())
    except Conflict as conflict:
        messages.warning(request, conflict.detail)
    return redirect("job", job_id=job.pk)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def job_move_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Asks where to, then lets the job wait there."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_MOVE)
    form = MoveForm(request.POST if request.method == "POST" else None, job=job)
    problems: tuple[Problem, ...] = ()
    if form.is_valid():
        try:
            vc = form.cleaned_data["vc"]
            job_change_vc(job=job, vc=vc.name, actor=request.user.username, now=timezone.now())
        except SpecInvalid as error:
            problems = error.problems
        except Conflict as conflict:
            messages.warning(request, conflict.detail)
            return redirect("job", job_id=job.pk)
        else:
            messages.success(request, _("%(job)s waits in %(vc)s now.") % {"job": job.label, "vc": vc.name})
            seen = job_sight(user=request.user).covers(user_id=job.user_id, vc_id=vc.pk)
            return redirect("job", job_id=job.pk) if seen else redirect("jobs")
    context = {"job": job, "form": form, "problems": problems}
    return render(request, "jobs/move.html", context, status=400 if form.errors or problems else 200)
