"""A virtual cluster's page: what it owns, what it allows its users, who is in it; and changing the rules."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.accounts.pages import PageRequest
from portal.accounts.rights import Action, allowed_everywhere
from portal.clusters.forms import FirmRightForm, RulesForm
from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import (
    change_lines,
    may,
    quota_changes,
    vc_detail,
    vc_events,
    vc_get,
    vc_members,
    vc_roles,
    vc_shares,
    vc_with_right,
)
from portal.clusters.services import firm_right_end, firm_right_set, vc_set_rules
from portal.common.errors import Invalid, NotFound


@login_required
@require_safe
def virtual_cluster(request: PageRequest, name: str) -> HttpResponse:
    """One virtual cluster."""
    vc = vc_get(user=request.user, name=name)
    return _page(request, vc, FirmRightForm())


def _page(request: PageRequest, vc: VirtualCluster, form: FirmRightForm, status: int = 200) -> HttpResponse:
    user = request.user
    known = vc_roles(user=user).get(vc.pk) or allowed_everywhere(user, Action.JOB_READ)
    changes = [(row, change_lines(row)) for row in quota_changes().filter(lines__vc=vc).distinct()]
    context: dict[str, Any] = {
        "vc": vc,
        "shares": vc_shares(vcs=[vc])[vc.pk],
        "members": vc_members(vc=vc) if known else None,
        "changes": changes,
        "events": vc_events(vc=vc),
        "form": form,
        "may_cap": may(user=user, vc=vc, action=Action.VC_CAP),
        "may_configure": allowed_everywhere(user, Action.VC_CONFIGURE),
        **vc_detail(vc=vc),
    }
    return render(request, "clusters/vc.html", context, status=status)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def virtual_cluster_rules(request: PageRequest, name: str) -> HttpResponse:
    """Changes the rules: a lead what one user may hold, an administrator all of them."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CAP)
    every = allowed_everywhere(request.user, Action.VC_CONFIGURE)
    form = RulesForm(request.POST if request.method == "POST" else None, vc=vc, every=every)
    if form.is_valid():
        vc_set_rules(vc=vc, changes=form.cleaned_data, now=timezone.now(), actor=request.user.username)
        messages.success(request, _("The rules of %(vc)s are changed.") % {"vc": vc.name})
        return redirect("vc", name=vc.name)
    return render(request, "clusters/rules.html", {"vc": vc, "form": form}, status=400 if form.errors else 200)


@login_required
@require_POST
def firm_right_give(request: PageRequest, name: str) -> HttpResponse:
    """Gives a user the right to jobs that are never preempted."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CONFIGURE)
    form = FirmRightForm(request.POST)
    if form.is_valid():
        try:
            firm_right_set(vc=vc, **form.cleaned_data, now=timezone.now(), actor=request.user.username)
        except Invalid as error:
            for fault in error.faults:
                form.add_error(fault.path, fault.message)
        except NotFound as error:
            form.add_error("username", error.detail)
        else:
            return redirect("vc", name=vc.name)
    return _page(request, vc, form, status=400)


@login_required
@require_POST
def firm_right_take(request: PageRequest, name: str, user: str) -> HttpResponse:
    """Takes it back."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CONFIGURE)
    firm_right_end(vc=vc, username=user, now=timezone.now(), actor=request.user.username)
    messages.success(request, _("%(user)s's jobs can be preempted again.") % {"user": user})
    return redirect("vc", name=vc.name)
