"""A virtual cluster's page: what it owns, its rules and members; and changing the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.accounts.pages import PageRequest, by, form_view, page_view, post_view, sent
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.forms import refusals_shown
from portal.hardware.states import VcRole
from portal.teams.forms.vcs import FirmRightForm, LoanForm, MemberForm, RulesForm
from portal.teams.models import VirtualCluster
from portal.teams.selectors.details import (
    change_lines,
    quota_changes,
    rule_rows,
    vc_detail,
    vc_events,
    vc_members,
)
from portal.teams.selectors.fairness import UserShare, user_shares
from portal.teams.selectors.kept_logs import log_limit, vc_log_room
from portal.teams.selectors.shares import vc_shares
from portal.teams.selectors.visible import jobs_seen, may, vc_get, vc_with_right
from portal.teams.services.rules import firm_right_end, firm_right_set, vc_set_all_rules
from portal.teams.services.teams import membership_end, membership_set

JOINED = {
    VcRole.MEMBER: gettext_lazy("%(name)s is a member of %(vc)s now."),
    VcRole.LEAD: gettext_lazy("%(name)s leads %(vc)s now."),
}


@page_view
def virtual_cluster(request: PageRequest, name: str) -> HttpResponse:
    """Shows its page."""
    return _page(request, vc_get(user=request.user, name=name))


def _page(
    request: PageRequest,
    vc: VirtualCluster,
    *,
    right: FirmRightForm | None = None,
    member: MemberForm | None = None,
    status: int = 200,
) -> HttpResponse:
    user = request.user
    known = jobs_seen(user=user, vc=vc)
    users = user_shares(vc=vc) if known else None
    changes = [(row, change_lines(row)) for row in quota_changes().filter(lines__vc=vc).distinct()]
    context: dict[str, Any] = {
        "vc": vc,
        "shares": vc_shares(vcs=[vc])[vc.pk],
        "members": vc_members(vc=vc) if known else None,
        "users": users,
        "logs": vc_log_room(vc=vc) if known else None,
        "log_limit": log_limit(vc),
        "log_days": settings.LOG_RETENTION_DAYS,
        "mine": _mine(users or [], user.username),
        "changes": changes,
        "events": vc_events(vc=vc),
        "right_form": right or FirmRightForm(auto_id="right-%s"),
        "member_form": member or MemberForm(auto_id="member-%s"),
        "roles": VcRole.choices,
        "may_members": may(user=user, vc=vc, action=Action.VC_MEMBERS),
        "may_cap": may(user=user, vc=vc, action=Action.VC_CAP),
        "may_configure": allowed_everywhere(user, Action.VC_CONFIGURE),
        "may_make": allowed_everywhere(user, Action.VC_MAKE),
        "may_secrets": may(user=user, vc=vc, action=Action.VC_SECRETS_LIST),
        "me": user.username,
        "rules": rule_rows(vc),
        **vc_detail(vc=vc),
    }
    return render(request, "teams/vc.html", context, status=status)


def _mine(users: Sequence[UserShare], me: str) -> dict[str, Any] | None:
    """The reader's own share in percent, how many others had less, and the half-life of usage in hours; None for who
    has no share there."""
    own = next((one for one in users if one.user == me), None)
    if own is None:
        return None
    ahead = sum((one.share or 0) < (own.share or 0) for one in users)
    return {"share": own.percent, "ahead": ahead, "half_life": settings.FAIR_SHARE_HALF_LIFE_H}


@form_view
def virtual_cluster_rules(request: PageRequest, name: str) -> HttpResponse:
    """Changes the rules: a lead the limits per user, an administrator all of them and the limits of lending."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CAP)
    every = allowed_everywhere(request.user, Action.VC_CONFIGURE)
    data = sent(request)
    form, loans = RulesForm(data, vc=vc, every=every), LoanForm(data, vc=vc) if every else None
    if form.is_valid() and (loans is None or loans.is_valid()):
        limits = loans.limits if loans is not None and loans.changed else None
        with refusals_shown(form):
            vc_set_all_rules(vc=vc, changes=form.cleaned_data, limits=limits, **by(request))
            messages.success(request, _("The rules of %(vc)s are changed.") % {"vc": vc.name})
            return redirect("vc", name=vc.name)
    wrong = form.errors or (loans and loans.errors)
    context = {"vc": vc, "form": form, "loans": loans}
    return render(request, "teams/rules.html", context, status=400 if wrong else 200)


@post_view
def member_add(request: PageRequest, name: str) -> HttpResponse:
    """Gives somebody a role, replacing an earlier one only if that was asked for."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_MEMBERS)
    form = MemberForm(request.POST, auto_id="member-%s")
    if form.is_valid():
        typed = form.cleaned_data
        with refusals_shown(form, say=str):
            membership_set(
                vc=vc,
                name=typed["name"],
                group=typed["kind"] == "group",
                role=typed["role"],
                only_new="change" not in request.POST,
                **by(request),
            )
            messages.success(request, JOINED[VcRole(typed["role"])] % {"name": typed["name"], "vc": vc.name})
            return redirect("vc", name=vc.name)
    return _page(request, vc, member=form, status=400)


@post_view
def member_remove(request: PageRequest, name: str, membership_id: int) -> HttpResponse:
    """Removes a member."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_MEMBERS)
    membership_end(vc=vc, membership_id=membership_id, **by(request))
    return redirect("vc", name=vc.name)


@post_view
def firm_right_give(request: PageRequest, name: str) -> HttpResponse:
    """Grants a user the right to non-preemptible jobs."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CONFIGURE)
    form = FirmRightForm(request.POST, auto_id="right-%s")
    if form.is_valid():
        with refusals_shown(form, at="username", say=str):
            firm_right_set(vc=vc, **form.cleaned_data, **by(request))
            return redirect("vc", name=vc.name)
    return _page(request, vc, right=form, status=400)


@post_view
def firm_right_take(request: PageRequest, name: str, user: str) -> HttpResponse:
    """Revokes it."""
    vc = vc_with_right(user=request.user, name=name, action=Action.VC_CONFIGURE)
    firm_right_end(vc=vc, username=user, **by(request))
    messages.success(request, _("%(user)s's jobs can be preempted again.") % {"user": user})
    return redirect("vc", name=vc.name)
