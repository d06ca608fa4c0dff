"""Pages of virtual clusters: list, creation, removal."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view, page_view, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Refused
from portal.common.forms import refusals_shown
from portal.teams.forms.vcs import NewVcForm
from portal.teams.selectors.vc_pages import vc_cards
from portal.teams.selectors.visible import vc_make_right, vc_with_right
from portal.teams.services.teams import vc_create, vc_remove, vc_remove_refusal

MOST_JOBS = 20
"""How many of the jobs that block a virtual cluster's removal are named."""


@page_view
def vcs(request: PageRequest) -> HttpResponse:
    """Lists virtual clusters, one's own first, with what each owns, uses, borrows and lends."""
    context = {
        "cards": vc_cards(user=request.user),
        "may_make": allowed_everywhere(request.user, Action.VC_MAKE),
    }
    return render(request, "teams/parts/vcs.html" if request.htmx else "teams/vcs.html", context)


@form_view
def vc_new(request: PageRequest) -> HttpResponse:
    """Creates a virtual cluster; its quota is set on the page that follows."""
    vc_make_right(user=request.user)
    form = NewVcForm(sent(request))
    if form.is_valid():
        with refusals_shown(form, at="name"):
            made = vc_create(**form.cleaned_data, **by(request))
            messages.success(request, _("%(vc)s is made. Give it a quota, and members.") % {"vc": made.name})
            return redirect("vc", name=made.name)
    return render(request, "teams/vc_new.html", {"form": form}, status=400 if form.errors else 200)


@form_view
def vc_end(request: PageRequest, name: str) -> HttpResponse:
    """Asks, then removes a virtual cluster that has no live jobs."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_MAKE)
    refused = vc_remove_refusal(vc=vc)
    if request.method == "POST":
        try:
            vc_remove(vc=vc, **by(request))
        except Refused as refusal:
            refused = refusal.detail
        else:
            messages.success(request, _("%(vc)s is removed.") % {"vc": name})
            return redirect("vcs")
    context = {
        "vc": vc,
        "refused": refused,
        "jobs": vc.jobs.filter(ended_at=None).select_related("user").order_by("id")[:MOST_JOBS],
    }
    status = 409 if request.method == "POST" else 200
    return render(request, "teams/vc_remove.html", context, status=status)
