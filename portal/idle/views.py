"""Pages of the idle policy, of the cluster and of a virtual cluster, its exceptions, and extensions for a job."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.pages import PageRequest, by, form_view, post_view, refusals_told
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import Conflict
from portal.common.forms import refusals_shown
from portal.common.versions import version_of
from portal.idle.forms import IdleExemptionForm, IdlePolicyForm
from portal.idle.models import IdlePolicy
from portal.idle.selectors import (
    IdlePolicies,
    idle_exempted,
    idle_exemption_to_remove,
    idle_exemptions,
    idle_policy_of,
    idle_policy_told,
    idle_set_right,
    idle_vcs,
    idle_warnings,
    idle_would_warn,
)
from portal.idle.services.policy import idle_exemption_add, idle_exemption_remove, idle_policy_remove, idle_policy_set
from portal.idle.services.warnings import idle_extend
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_with_right
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import may, vc_with_right

LISTED = 200


@form_view
def idle_page(request: PageRequest, name: str = "") -> HttpResponse:
    """The policy, open warnings and exceptions. Posting first previews whom a policy would warn; with ``apply`` it sets
    it."""
    vc = vc_with_right(user=request.user, name=name, action=Action.IDLE_READ) if name else None
    policy = idle_policy_of(vc.pk if vc else None)
    if request.method != "POST":
        return _page(request, vc, policy, _policy_form(policy))
    idle_set_right(user=request.user)
    form = IdlePolicyForm(request.POST)
    if not form.is_valid():
        return _page(request, vc, policy, form, status=400)
    now = timezone.now()
    if "apply" not in request.POST:
        would = idle_would_warn(policy=IdlePolicy(vc=vc, **form.terms), now=now)
        return _page(request, vc, policy, form, look=would)
    try:
        seen = form.cleaned_data["seen"] or None
        idle_policy_set(vc=vc, terms=form.terms, seen=seen, now=now, actor=request.user.username)
    except Conflict:
        form.add_error(None, _("Somebody else has changed it meanwhile: what holds now stands beside. Set it again."))
        again = IdlePolicyForm({**request.POST.dict(), "seen": _version(policy)})
        again.is_valid()
        again.add_error(None, form.non_field_errors()[0])
        return _page(request, vc, policy, again, status=409)
    messages.success(request, _("The policy is set."))
    return _back(vc)


def _policy_form(policy: IdlePolicy) -> IdlePolicyForm:
    return IdlePolicyForm(initial={**idle_policy_told(policy), "seen": _version(policy)})


def _version(policy: IdlePolicy) -> str:
    return version_of(idle_policy_told(policy))


def _page(
    request: PageRequest,
    vc: VirtualCluster | None,
    policy: IdlePolicy,
    form: IdlePolicyForm,
    *,
    look: list[Job] | None = None,
    exemption: IdleExemptionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    user = request.user
    everywhere = allowed_everywhere(user, Action.IDLE_EXEMPT)
    warned = idle_warnings(vcs=idle_vcs(user=user) if vc is None else idle_vcs(user=user).filter(pk=vc.pk))
    exemptions = idle_exemptions(user=user)
    context: dict[str, Any] = {
        "vc": vc,
        "policy": policy,
        "form": form,
        "look": look,
        "warned": list(warned[:LISTED]),
        "exemptions": list((exemptions.filter(vc=vc) if vc else exemptions)[:LISTED]),
        "exemption_form": exemption or _exemption_form(request),
        "now": timezone.now(),
        "others": [] if vc else [one for one in IdlePolicies().own.values() if user.is_cluster_admin],
        "start_minutes": settings.IDLE_START_MINUTES,
        "may_set": allowed_everywhere(user, Action.IDLE_SET),
        "may_except": everywhere or (vc is not None and may(user=user, vc=vc, action=Action.IDLE_EXEMPT)),
    }
    return render(request, "idle/idle.html", context, status=status)


def _exemption_form(request: PageRequest) -> IdleExemptionForm:
    """The form, prefilled with the job that the reader comes from."""
    job = request.GET.get("job", "")
    return IdleExemptionForm(initial={"job": job if job.isascii() and job.isdigit() else None}, auto_id="except-%s")


def _back(vc: VirtualCluster | None) -> HttpResponse:
    return redirect("vc-idle", name=vc.name) if vc else redirect("idle")


@post_view
def idle_policy_end(request: PageRequest, name: str) -> HttpResponse:
    """Removes the virtual cluster's own policy."""
    vc = vc_with_right(user=request.user, name=name, action=Action.IDLE_SET)
    idle_policy_remove(vc=vc, **by(request))
    messages.success(request, _("The cluster's policy holds in %(vc)s again.") % {"vc": vc.name})
    return _back(vc)


@post_view
def idle_exemption_new(request: PageRequest, name: str = "") -> HttpResponse:
    """Adds an exception."""
    vc = vc_with_right(user=request.user, name=name, action=Action.IDLE_READ) if name else None
    form = IdleExemptionForm(request.POST, auto_id="except-%s")
    if form.is_valid():
        typed = dict(form.cleaned_data)
        with refusals_shown(form, say=str):
            whom = idle_exempted(
                user=request.user, vc=vc.name if vc else None, username=typed.pop("user"), job_id=typed.pop("job")
            )
            idle_exemption_add(vc=whom.vc, user=whom.user, job=whom.job, **typed, **by(request))
            messages.success(request, _("The exception is added."))
            return _back(vc)
    policy = idle_policy_of(vc.pk if vc else None)
    return _page(request, vc, policy, _policy_form(policy), exemption=form, status=400)


@post_view
def idle_exemption_end(request: PageRequest, exemption_id: int) -> HttpResponse:
    """Removes an exception."""
    row = idle_exemption_to_remove(user=request.user, exemption_id=exemption_id)
    idle_exemption_remove(exemption=row, **by(request))
    messages.success(request, _("The policy holds for these jobs again."))
    return _back(row.vc if row.vc and "team" in request.POST else None)


@post_view
def job_idle_extend_page(request: PageRequest, job_id: int) -> HttpResponse:
    """Postpones the announced action for a job."""
    job = job_with_right(user=request.user, job_id=job_id, action=Action.IDLE_EXTEND)
    with refusals_told(request, messages.WARNING):
        idle_extend(job=job, **by(request))
        messages.success(request, _("It has been put off."))
    return redirect("job", job_id=job.pk)
