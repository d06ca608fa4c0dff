"""Job templates: people's own, teams', everybody's, and the gallery of samples."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.accounts.pages import PageRequest, by, form_view, page_view
from portal.common.errors import ChangedMeanwhile, Conflict, Fault, Invalid
from portal.job_file.problems import Problem
from portal.job_file.secrets import MASK
from portal.jobs.selectors.visible import job_get
from portal.templates.forms import TemplateChangeForm, TemplateFilterForm, TemplateForm
from portal.templates.models import JobTemplate
from portal.templates.samples import samples
from portal.templates.samples.example import EXAMPLE
from portal.templates.selectors import template_get, template_home, template_homes, template_restrict, template_to_write
from portal.templates.services import template_change, template_create, template_remove

LISTED = 200
GROUP_WORDS = {
    "start": gettext_lazy("To begin with"),
    "training": gettext_lazy("Training"),
    "several servers": gettext_lazy("Over several servers"),
    "serving": gettext_lazy("Serving"),
    "AMD": gettext_lazy("On AMD GPUs"),
    "older": gettext_lazy("Older frameworks"),
}
_MASKED = re.compile(rf'^secrets: "{re.escape(MASK)}"[^\n]*\n?', re.MULTILINE)


@page_view
def templates(request: PageRequest) -> HttpResponse:
    """What one may start from."""
    form = TemplateFilterForm(request.GET)
    rows = template_restrict(user=request.user).select_related("user", "vc").defer("file").order_by("name", "id")
    if form.wanted:
        rows = rows.filter(name__icontains=form.wanted)
    found = list(rows[: LISTED + 1])
    writers = template_homes(user=request.user)
    context = {
        "form": form,
        "rows": [(row, writers.covers(row)) for row in found[:LISTED]],
        "more": len(found) > LISTED,
        "gallery": _gallery(form.wanted),
    }
    return render(request, "templates/templates.html", context)


def _gallery(text: str) -> list[tuple[Any, list[Any]]]:
    words = {one.name: f"{one.name} {one.spec.description} {_(one.spec.description)}".lower() for one in samples()}
    shown = [one for one in samples() if text.lower() in words[one.name]]
    groups = {group: [one for one in shown if one.group == group] for group in GROUP_WORDS}
    return [(GROUP_WORDS[group], found) for group, found in groups.items() if found]


@form_view
def template_new(request: PageRequest) -> HttpResponse:
    """A new one: from an example, from a job, or from what stands on the submit page (``fill``)."""
    user = request.user
    if request.method != "POST" or "fill" in request.POST:
        file = request.POST.get("config", "").replace("\r\n", "\n") or _file_of_job(request)
        return _form_page(request, TemplateForm(user=user, initial={"config": file, "home": "private"}))
    form = TemplateForm(request.POST, user=user)
    problems = _tried(form, lambda: _create(request, form)) if form.is_valid() else []
    if form.errors or problems:
        return _form_page(request, form, problems=problems, status=400)
    messages.success(request, _("The template is saved."))
    return redirect("templates")


def _create(request: PageRequest, form: TemplateForm) -> None:
    home = template_home(user=request.user, vc=form.vc, public=form.public)
    template_create(home=home, **form.values, **by(request))


def _file_of_job(request: PageRequest) -> str:
    """Without its masked secrets, which no template may hold."""
    job = request.GET.get("job", "")
    if not (job.isascii() and job.isdigit() and len(job) < 19):
        return EXAMPLE
    return _MASKED.sub("", job_get(user=request.user, job_id=int(job)).config)


@form_view
def template_page(request: PageRequest, template_id: int) -> HttpResponse:
    """One template: to read, and for those who may to change."""
    template = template_get(user=request.user, template_id=template_id)
    may_write = template_homes(user=request.user).covers(template)
    if request.method != "POST":
        return _template_page(request, template, TemplateChangeForm(template=template), may_write=may_write)
    template = template_to_write(user=request.user, template_id=template_id)
    form = TemplateChangeForm(request.POST, template=template)
    problems = _tried(form, lambda: _change(request, template, form)) if form.is_valid() else []
    if form.errors or problems:
        return _template_page(request, template, form, problems=problems, status=400)
    messages.success(request, _("The template is changed."))
    return redirect("templates")


def _change(request: PageRequest, template: JobTemplate, form: TemplateChangeForm) -> None:
    try:
        template_change(template=template, changes=form.values, seen=form.cleaned_data["seen"], **by(request))
    except ChangedMeanwhile:
        template.refresh_from_db()
        form.renew(template)
        raise


def _tried(form: TemplateForm | TemplateChangeForm, change: Callable[[], None]) -> list[Problem]:
    """Does it; what is wrong with the file comes back, what is wrong with the rest is put beside its field."""
    try:
        change()
    except Invalid as error:
        return [
            Problem(one.path.removeprefix("file").lstrip("."), one.message, one.code, one.line) for one in error.faults
        ]
    except ChangedMeanwhile:
        form.add_error(
            None, _("Somebody changed it meanwhile. What is there now stands below; save again to replace it.")
        )
    except Conflict as conflict:
        form.add_error("name", conflict.detail)
    return []


def _of_file(fault: Fault) -> Problem:
    return Problem(fault.path.removeprefix("file").lstrip("."), fault.message, fault.code, fault.line)


def _template_page(
    request: PageRequest, template: JobTemplate, form: TemplateChangeForm, may_write: bool = True, **more: Any
) -> HttpResponse:
    if not may_write:
        return render(request, "templates/template.html", {"template": template})
    return _form_page(request, form, template=template, **more)


def _form_page(
    request: PageRequest, form: TemplateForm | TemplateChangeForm, status: int = 200, **more: Any
) -> HttpResponse:
    return render(request, "templates/template_form.html", {"form": form, **more}, status=status)


@form_view
def template_remove_page(request: PageRequest, template_id: int) -> HttpResponse:
    """Asks, then forgets it."""
    template = template_to_write(user=request.user, template_id=template_id)
    if request.method != "POST":
        return render(request, "templates/template_remove.html", {"template": template})
    template_remove(template=template, **by(request))
    messages.success(request, _("The template is removed. Jobs that were made from it stay."))
    return redirect("templates")
