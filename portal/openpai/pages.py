"""Pages that OpenPAI had under another address."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from portal.accounts.pages import PageRequest
from portal.openpai.errors import PaiError
from portal.openpai.selectors.jobs import job_found


@login_required
@require_safe
def job_detail(request: PageRequest) -> HttpResponse:
    """OpenPAI's address of a job's page, which clients build by themselves, leads to ours."""
    framework = f"{request.GET.get('username', '')}~{request.GET.get('jobName', '')}"
    try:
        return redirect("job", job_found(user=request.user, framework=framework).pk)
    except PaiError as error:
        raise Http404 from error
