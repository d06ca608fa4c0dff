"""Changes a job's tags and priority class from its page."""

from __future__ import annotations

from collections.abc import Callable

from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from portal.accounts.pages import PageRequest, post_view
from portal.accounts.rights import Action
from portal.common.errors import Conflict, Invalid
from portal.common.priorities import PRIORITY_CLASSES
from portal.job_file.problems import SpecInvalid
from portal.job_pages.forms.job import PriorityForm, TagForm
from portal.job_pages.views.job import SECTIONS, job_shown
from portal.jobs.models import Job
from portal.jobs.problem_words import problem_words
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.priority import job_change_priority
from portal.jobs.services.tags import job_tag

FORMS = {"tags": "tag_form", "priority": "priority_form"}
"""Each field's form, by its name on the job's page."""


@post_view
def job_tags_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Adds the typed tags, or removes the one whose button was pressed."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_TAG)
    if "remove" in request.POST:
        job_tag(job=job, remove=[request.POST["remove"]], actor=request.user, now=timezone.now())
        return _back(request, job)
    form = TagForm(request.POST)
    now = timezone.now()
    return _changed(request, job, "tags", form, lambda: job_tag(job=job, add=form.names, actor=request.user, now=now))


@post_view
def job_priority_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Changes the job's class. A class that the page did not offer is refused by the service, with its reason."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.JOB_PRIORITY)
    form = PriorityForm(request.POST, classes=list(PRIORITY_CLASSES), initial=job.priority)
    now = timezone.now()
    return _changed(
        request, job, "priority", form,
        lambda: job_change_priority(job=job, to=form.chosen, actor=request.user, now=now),
    )  # fmt: skip


def _changed(request: PageRequest, job: Job, field: str, form: Form, change: Callable[[], object]) -> HttpResponse:
    """Applies the change and goes back to where the reader was; else shows the errors beside the field."""
    if form.is_valid():
        try:
            change()
        except (Invalid, SpecInvalid, Conflict) as refused:
            for words in _words(refused):
                form.add_error(field, words)
        else:
            return _back(request, job)
    return job_shown(request, job, _section(request), status=400, **{FORMS[field]: form})


def _words(refused: Invalid | SpecInvalid | Conflict) -> list[str]:
    if isinstance(refused, SpecInvalid):
        return [problem_words(problem.message) for problem in refused.problems]
    return [fault.message for fault in refused.faults] if isinstance(refused, Invalid) else [refused.detail]


def _section(request: PageRequest) -> str:
    """The section of the page where the reader was."""
    name = request.POST.get("section", "")
    return name if name in SECTIONS else ""


def _back(request: PageRequest, job: Job) -> HttpResponse:
    return redirect(SECTIONS[_section(request)].address(job))
