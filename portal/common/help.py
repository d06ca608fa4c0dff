"""The user guide in the portal."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from portal.common.guide import DOCUMENTS, guide_read


@login_required
@require_safe
def help_page(request: HttpRequest, name: str = DOCUMENTS[0].name) -> HttpResponse:
    """A document of the guide, with a list of all of them."""
    context = {"guide": guide_read(name=name), "pages": DOCUMENTS, "name": name}
    return render(request, "help.html", context)
