"""The home page, and pages that stop, pause, resume or move a job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view, page_view, post_view, sent
from portal.accounts.rights import Action
from portal.common.errors import Conflict
from portal.hardware.selectors.closed import servers_closed
from portal.job_file.problems import Problem, SpecInvalid
from portal.job_pages.forms.job import MoveForm
from portal.job_pages.selectors import JobFilter, job_counts, jobs_found
from portal.jobs.models import Job
from portal.jobs.selectors.choices import vc_choices
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.move_to_vc import job_change_vc
from portal.jobs.services.pause import job_pause, job_resume
from portal.jobs.services.stop import job_stop
from portal.jobs.states import JOB_OVER, JobState
from portal.parking.services.park import job_park, job_unpark
from portal.teams.selectors.shares import sku_totals
from portal.teams.selectors.visible import job_sight, may

RECENT = 8
LATELY = timedelta(days=7)


@page_view
def home(request: PageRequest) -> HttpResponse:
    """The user's jobs by state, team shares, free GPUs, recent jobs."""
    user, since = request.user, timezone.now() - LATELY
    counts = job_counts(user=user, since=since)
    context = {
        "tiles": [(state, state.label, counts[state], _of_state(state, since)) for state in JobState],
        "recent": jobs_found(user=user, only=JobFilter(mine=user), limit=RECENT),
        "shares": [(one.vc, one.shares) for one in vc_choices(user=user)],
        "skus": sku_totals(),
        "closed": servers_closed(),
    }
    return render(request, "job_pages/parts/home.html" if request.htmx else "job_pages/home.html", context)


def _of_state(state: JobState, since: datetime) -> str:
    """The list's filters for what a tile counts."""
    days = {"since": f"{since:%Y-%m-%d}"} if state in JOB_OVER else {}
    return urlencode({"mine": "on", "state": str(state), **days})


@form_view
def job_stop_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Asks for confirmation, then stops."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_STOP)
    if request.method != "POST":
        return render(request, "job_pages/stop.html", {"job": job})
    try:
        job_stop(job=job, actor=request.user, now=timezone.now())
    except Conflict as conflict:
        messages.warning(request, conflict.detail)
    return redirect("job", job_id=job.pk)


@post_view
def job_pause_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Pauses a waiting job."""
    return _hold(request, job_id, job_pause)


@post_view
def job_park_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Parks a running job."""
    return _hold(request, job_id, job_park)


@post_view
def job_resume_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Resumes a job that is paused or parked, or whose owner is gone."""

    def resume(*, job: Job, actor: str, now: datetime) -> object:
        return job_unpark(job=job, actor=actor, now=now) or job_resume(
            job=job, actor=actor, now=now, lead=may(user=request.user, vc=job.vc, action=Action.VC_ORDER)
        )

    return _hold(request, job_id, resume)


def _hold(request: PageRequest, job_id: int, change: Callable[..., object]) -> HttpResponse:
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_PAUSE)
    try:
        change(job=job, **by(request))
    except Conflict as conflict:
        messages.warning(request, conflict.detail)
    return redirect("job", job_id=job.pk)


@form_view
def job_move_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Asks for a virtual cluster, then moves the job there."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_MOVE)
    form = MoveForm(sent(request), job=job)
    problems: tuple[Problem, ...] = ()
    if form.is_valid():
        try:
            vc = form.cleaned_data["vc"]
            job_change_vc(job=job, vc=vc.name, **by(request))
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
    return render(request, "job_pages/move.html", context, status=400 if form.errors or problems else 200)
