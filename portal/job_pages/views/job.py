"""The page of one job: a frame (state, cause, actions) and one of its sections, each at its own address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from portal.accounts.pages import PageRequest, page_view
from portal.accounts.rights import Action
from portal.common.sentences import worded
from portal.files.views import files_shown
from portal.idle.hangs import hangs_of
from portal.idle.selectors import idle_warning_of
from portal.idle.services.warnings import idle_left
from portal.job_pages.forms.job import PriorityForm, TagForm
from portal.job_pages.views.causes import cause_of
from portal.jobs.models import Job
from portal.jobs.selectors.choices import classes_offered
from portal.jobs.selectors.details import job_attempts, job_events, job_loan
from portal.jobs.selectors.preemptions import preemptions_leaving, preemptions_shown
from portal.jobs.selectors.runs import code_awaited
from portal.jobs.selectors.visible import job_get, job_with_right
from portal.jobs.states import OWNER_GONE, JobState
from portal.jobs.views.frame import Frame
from portal.logs.views import log_section
from portal.metrics.advice import job_advice
from portal.metrics.views import charts_shown
from portal.parking.models import ParkState
from portal.parking.selectors import parking_told
from portal.parking.services.park import park_refusal
from portal.queue.selectors.queue import job_forecast, queue_places
from portal.queue.services.order import job_movable
from portal.queue.views.placing import counted_words
from portal.queue.wait_translations import no_start_words
from portal.teams.selectors.visible import job_sights
from portal.terminal.views.terminal import terminal_shown

ATTEMPTS_LISTED = 20
EVENTS_LISTED = 500
MAY = {
    "may_stop": Action.JOB_STOP,
    "may_pause": Action.JOB_PAUSE,
    "may_move": Action.JOB_MOVE,
    "may_files": Action.JOB_FILES,
    "may_shell": Action.JOB_SHELL,
    "may_extend": Action.IDLE_EXTEND,
    "may_tag": Action.JOB_TAG,
    "may_priority": Action.JOB_PRIORITY,
    "may_order": Action.JOB_ORDER,
    "leads": Action.VC_ORDER,
}


@dataclass(frozen=True, slots=True)
class Section:
    """A tab of the page. ``name`` ends its address; ``context`` makes what ``template`` shows, with ``chosen`` as the
    query that keeps a refreshed page where the reader is. ``offered``: whether the tab is shown; the address itself
    checks rights."""

    name: str
    label: str | Promise
    template: str
    context: Callable[[Frame], dict[str, Any]]
    offered: Callable[[Frame], bool] = lambda frame: True

    def address(self, job: Job) -> str:
        return reverse(f"job-{self.name}" if self.name else "job", args=[job.pk])


@page_view
def job_page(request: PageRequest, job_id: int, section: str = "") -> HttpResponse:
    """One job: its state, the cause in words, and one section."""
    return job_shown(request, job_get(user=request.user, job_id=job_id), section)


def job_shown(
    request: PageRequest, job: Job, section: str = "", *, status: int = 200, **refused: forms.Form
) -> HttpResponse:
    """The job's page; ``refused``: the frame's forms that were filled in and refused, by name."""
    frame, shown = _frame(request, job), SECTIONS[section]
    context = {**_frame_context(frame, shown), **shown.context(frame), **_changing(frame), **refused}
    return render(request, "job_pages/parts/job.html" if request.htmx else "job_pages/job.html", context, status=status)


def _frame(request: PageRequest, job: Job) -> Frame:
    sights = zip(MAY, job_sights(user=request.user, actions=list(MAY.values())), strict=True)
    may = {name: sight.covers(user_id=job.user_id, vc_id=job.vc_id) for name, sight in sights}
    return Frame(request, job, list(job_attempts(job=job)[:ATTEMPTS_LISTED]), may)


def _frame_context(frame: Frame, shown: Section) -> dict[str, Any]:
    job, waits = frame.job, frame.job.state == JobState.WAITING
    return {
        "job": job,
        "live": frame.live,
        "may_stop": frame.live and frame.may["may_stop"],
        "may_pause": waits and frame.may["may_pause"],
        "held": (held := waits and job.waiting_code == OWNER_GONE and not job.kept),
        "may_keep": held and frame.may["leads"],
        "may_move": waits and frame.may["may_move"],
        "may_order": waits and frame.may["may_order"] and job_movable(job=job, lead=frame.may["leads"]),
        "cause": cause_of(job),
        "place": (place := queue_places(jobs=[job]).get(job.pk)),
        "counted": counted_words(job) if place else "",
        "forecast": (expected := job_forecast(job=job)),
        "no_start": no_start_words(forecast=expected, vc=job.vc.name, code=job.waiting_code) if expected else "",
        "attempts": frame.attempts,
        "newest_attempt": frame.attempts[0] if frame.attempts else None,
        "leaving": preemptions_shown(rows=preemptions_leaving(job=job), job=job, user=frame.request.user),
        "code_wait": code_awaited(job=job) if frame.live and job.code_id else None,
        "loan": job_loan(job=job) if job.state == JobState.RUNNING else 0,
        **_parking(frame),
        **_idle(frame),
        **({} if frame.live or shown.name == "charts" else {"advice": job_advice(job=job)}),
        "section": shown,
        "address": shown.address(job),
        "tabs": [(one, one.address(job)) for one in SECTIONS.values() if one is shown or one.offered(frame)],
    }


def _parking(frame: Frame) -> dict[str, Any]:
    """How parking stands with it, and whether the reader may park it now."""
    known = parking_told(frame.job)
    off = known is not None and known.state != ParkState.HELD
    asks = frame.may["may_pause"] and frame.job.state == JobState.RUNNING and frame.job.vc.parking and not off
    return {
        "parking": known,
        "off_gpu": off,
        "may_park": asks and not park_refusal(frame.job),
        "may_unpark": off and frame.may["may_pause"],
    }


def _changing(frame: Frame) -> dict[str, Any]:
    """Tags, class, and the forms that change them."""
    classes = classes_offered(job=frame.job, user=frame.request.user) if frame.may["may_priority"] else []
    return {
        "tags": list(frame.job.tags.order_by("id").values_list("name", flat=True)),
        "tag_form": TagForm() if frame.may["may_tag"] else None,
        "priority_form": PriorityForm(classes=classes, initial=frame.job.priority) if classes else None,
    }


def _idle(frame: Frame) -> dict[str, Any]:
    """The warning about idle GPUs, the extensions left, and tasks that seem to hang."""
    running = frame.job.state == JobState.RUNNING
    warning = idle_warning_of(job=frame.job) if running else None
    follows = warning is not None and warning.due_at is not None and warning.acted_at is None
    left = idle_left(warning=warning, vc_id=frame.job.vc_id) if warning and follows else None
    return {
        "idle": warning,
        "hangs": list(map(worded, hangs_of(job=frame.job, now=timezone.now()))) if running else [],
        "idle_left": left,
        "idle_start_minutes": settings.IDLE_START_MINUTES,
        "may_extend": frame.may["may_extend"],
    }


# ------------------------------------------------------------ the sections


def _charts(frame: Frame) -> dict[str, Any]:
    """The tasks' usage charts. A refreshed frame leaves them alone: they update by themselves."""
    return {} if frame.request.htmx else charts_shown(frame.request, frame.job, frame.attempt)


def _files(frame: Frame) -> dict[str, Any]:
    """The job's folder. Not on a refresh of the frame, so that a node is asked only once."""
    job_with_right(user=frame.request.user, job_id=frame.job.pk, action=Action.JOB_FILES)
    return {} if frame.request.htmx else files_shown(frame.request, frame.job)


def _terminal(frame: Frame) -> dict[str, Any]:
    """The terminal; a refreshed frame leaves an open one alone."""
    job_with_right(user=frame.request.user, job_id=frame.job.pk, action=Action.JOB_SHELL)
    return {} if frame.request.htmx else terminal_shown(frame.request, frame.job)


def _terminal_offered(frame: Frame) -> bool:
    return frame.live and frame.may["may_shell"]


def _events(frame: Frame) -> dict[str, Any]:
    return {"events": list(job_events(job=frame.job).order_by("-id")[:EVENTS_LISTED]), "listed": EVENTS_LISTED}


def _file(frame: Frame) -> dict[str, Any]:
    return {}


SECTIONS = {
    one.name: one
    for one in (
        Section("", _("Log"), "logs/parts/section_log.html", log_section),
        Section("charts", _("Charts"), "metrics/parts/section_charts.html", _charts),
        Section("files", _("Files"), "files/parts/section_files.html", _files, lambda frame: frame.may["may_files"]),
        Section("terminal", _("Terminal"), "terminal/parts/section_terminal.html", _terminal, _terminal_offered),
        Section("events", _("Events"), "job_pages/parts/section_events.html", _events),
        Section("file", _("Job file"), "job_pages/parts/section_file.html", _file),
    )
}
"""The tabs, in order. To add one, add a row here with its template and context."""
