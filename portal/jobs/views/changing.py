"""What is changed of a job on its own page, beside its course: its tags, and its priority class."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action
from portal.common.errors import Conflict, Invalid
from portal.common.priorities import PRIORITY_CLASSES
from portal.jobs.forms import PriorityForm, TagForm
from portal.jobs.models import Job
from portal.jobs.problem_words import problem_words
from portal.jobs.selectors import job_with_right
from portal.jobs.services import job_change_priority, job_tag
from portal.jobs.spec import SpecInvalid
from portal.jobs.views.job import SECTIONS, job_shown


@login_required
@require_POST
def job_tags_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Gives the job the tags that were typed, or takes off the one whose button was pressed."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_TAG)
    if "remove" in request.POST:
        job_tag(job=job, remove=[request.POST["remove"]], actor=request.user, now=timezone.now())
        return _back(request, job)
    form = TagForm(request.POST)
    if form.is_valid():
        try:
            job_tag(job=job, add=form.names, actor=request.user, now=timezone.now())
        except Invalid as error:
            for fault in error.faults:
                form.add_error("tags", fault.message)
        except Conflict as conflict:
            form.add_error("tags", conflict.detail)
        else:
            return _back(request, job)
    return job_shown(request, job, _section(request), status=400, tag_form=form)


@login_required
@require_POST
def job_priority_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Gives the job the chosen class. What the page did not offer is refused by the service, with its reason."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_PRIORITY)
    form = PriorityForm(request.POST, classes=list(PRIORITY_CLASSES), initial=job.priority)
    if form.is_valid():
        try:
            job_change_priority(job=job, to=form.chosen, actor=request.user, now=timezone.now())
        except SpecInvalid as error:
            for problem in error.problems:
                form.add_error("priority", problem_words(problem.message))
        except Conflict as conflict:
            form.add_error("priority", conflict.detail)
        else:
            return _back(request, job)
    return job_shown(request, job, _section(request), status=400, priority_form=form)


def _section(request: PageRequest) -> str:
    """The section of the page that the reader was at."""
    name = request.POST.get("section", "")
    return name if name in SECTIONS else ""


def _back(request: PageRequest, job: Job) -> HttpResponse:
    return redirect(SECTIONS[_section(request)].address(job))
