"""Job submission page."""

from __future__ import annotations

import re

from django.contrib import messages
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.accounts.pages import PageRequest, form_view
from portal.code.selectors import code_limits
from portal.common.errors import RateLimited, TooManyAtOnce
from portal.hardware.selectors.closed import servers_closed
from portal.job_file.problems import Problem, SpecInvalid
from portal.job_pages.forms.job import JobFileForm
from portal.jobs.limits import SUBMITS
from portal.jobs.selectors.choices import job_choices
from portal.jobs.selectors.visible import job_get
from portal.jobs.services.submit import job_submit
from portal.teams.selectors.shares import vc_quotas
from portal.teams.selectors.visible import vcs_for_submit
from portal.templates.samples import sample_get
from portal.templates.samples.example import EXAMPLE
from portal.templates.selectors import template_get


@form_view
def submit(request: PageRequest) -> HttpResponse:
    """A job file, typed or filled in by the form; kept as typed if refused."""
    if request.method != "POST":
        return _submit_page(request, JobFileForm(initial={"config": _first_file(request)}))
    try:
        form = JobFileForm(request.POST)
    except RequestDataTooBig:
        messages.error(request, _("This job file is too large. The limit is 1 MB."))
        return _submit_page(request, JobFileForm(), status=413)
    if not form.is_valid():
        return _submit_page(request, form, status=400)
    if "look" in request.POST:
        return _submit_page(request, form)
    # Browsers send textareas with Windows line ends.
    text, now = form.cleaned_data["config"].replace("\r\n", "\n"), timezone.now()
    try:
        SUBMITS.take(f"user:{request.user.pk}", now=now)
        job = job_submit(user=request.user, text=text, now=now)
    except SpecInvalid as error:
        return _submit_page(request, form, problems=error.problems, status=400)
    except (RateLimited, TooManyAtOnce) as refusal:
        messages.error(request, refusal.detail)
        return _submit_page(request, form, status=refusal.status)
    return redirect("job", job_id=job.pk)


def _submit_page(
    request: PageRequest, form: JobFileForm, problems: tuple[Problem, ...] = (), status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "problems": problems,
        "choices": job_choices(user=request.user),
        "limits": code_limits(),
        "closed": servers_closed(),
    }
    return render(request, "job_pages/submit.html", context, status=status)


def _first_file(request: PageRequest) -> str:
    """The editor's initial file: that of a job submitted again, a template's, one of the gallery, else a small
    example."""
    if again := _number(request, "again"):
        return job_get(user=request.user, job_id=again).config
    if template := _number(request, "template"):
        return _at_home(template_get(user=request.user, template_id=template).file, request.user)
    name = request.GET.get("sample", "")
    return _at_home(sample_get(name=name).file if name else EXAMPLE, request.user)


def _number(request: PageRequest, name: str) -> int:
    """A whole number from the query string; 0 if absent."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _at_home(file: str, user: User) -> str:
    """Adds a virtual cluster to a file that names none: the user's first that owns GPUs, else the first."""
    vcs = [] if _NAMES_VC.search(file) else list(vcs_for_submit(user))
    quotas = vc_quotas(vcs=vcs)
    vc = next((vc for vc in vcs if quotas.get(vc.pk)), vcs[0] if vcs else None)
    return f"{file.rstrip()}\n\ndefaults:\n  virtualCluster: {vc.name}\n" if vc else file


_NAMES_VC = re.compile(r"^(defaults\s*:|[{\"'])", re.MULTILINE)
"""Also matches files in a style to which no line can be appended."""
