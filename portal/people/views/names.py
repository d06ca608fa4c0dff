"""Autocompletion for name fields."""

from __future__ import annotations

import re

from django.http import Http404, HttpResponse
from django.utils.html import format_html_join

from portal.accounts.pages import PageRequest, page_view
from portal.people.selectors.names import KINDS, names_offered

LONGEST = 200
LONGEST_LIST = 10_000
"""Characters; a longer list of names gets no suggestions."""
BETWEEN = re.compile(r"[,;\s]")


@page_view
def names(request: PageRequest, kind: str) -> HttpResponse:
    """Options of a field's datalist. The typed text comes under the field's own name; with ``several`` it is a list, of
    which the last name is completed."""
    if kind not in KINDS:
        raise Http404
    typed = request.GET.get(next((name for name in request.GET if name != "several"), ""), "").replace("\0", "")
    before, wanted = "", typed.strip()
    if "several" in request.GET:
        wanted = BETWEEN.split(typed)[-1] if len(typed) <= LONGEST_LIST else typed
        before = typed[: len(typed) - len(wanted)]
    found = names_offered(user=request.user, kind=kind, text=wanted) if len(wanted) <= LONGEST else []
    return HttpResponse(format_html_join("", '<option value="{}">', ((f"{before}{name}",) for name in found)))
