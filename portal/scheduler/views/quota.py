"""The page that changes a quota: it previews the effect first."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.accounts.pages import PageRequest, by, form_view, post_view, refusals_told, sent
from portal.common.errors import ChangedMeanwhile, Conflict, Invalid, NotFound
from portal.hardware.selectors.changed import quotas_changed_last
from portal.scheduler.changes import quota_change_plan, quotas_change
from portal.scheduler.quota_dry_run import Effect
from portal.teams.forms.quota import QuotaForm
from portal.teams.models import VirtualCluster
from portal.teams.selectors.details import Line, cell_types, quota_changes
from portal.teams.selectors.quotas import quota_lines
from portal.teams.selectors.shares import sku_totals
from portal.teams.selectors.visible import cluster_right, vc_get
from portal.teams.services.cluster_version import cluster_version
from portal.teams.services.quotas import quota_change_faults, quota_change_withdraw, quotas_set_faults


@dataclass(frozen=True, slots=True)
class Look:
    """A change's effect on running jobs, and the quotas that return at its end."""

    effect: Effect
    returns: list[Line] = field(default_factory=list)

    @property
    def gpus(self) -> int:
        """GPUs of jobs it would demote."""
        return sum(one.gpus for one in self.effect.demoted)

    @property
    def gpus_taken(self) -> int:
        """GPUs that would be taken back."""
        return sum(one.gpus for one in self.effect.preempted)

    @property
    def teams(self) -> list[tuple[str, int, int]]:
        """Teams whose jobs it would demote: virtual cluster, jobs, GPUs."""
        found: dict[str, tuple[int, int]] = {}
        for one in self.effect.demoted:
            jobs, gpus = found.get(one.job.vc.name, (0, 0))
            found[one.job.vc.name] = jobs + 1, gpus + one.gpus
        return [(name, *counts) for name, counts in sorted(found.items())]

    @property
    def said(self) -> str:
        """Once done: whether anybody loses GPUs by it."""
        if not (number := len(self.effect.preempted)):
            return _("No job was stopped.")
        return ngettext(
            "%(number)s job is warned and stopped now: its GPUs are wanted back.",
            "%(number)s jobs are warned and stopped now: their GPUs are wanted back.",
            number,
        ) % {"number": number}


@form_view
def quota(request: PageRequest, name: str) -> HttpResponse:
    """Numbers of cells; a first submit previews them, a second applies them."""
    vc = vc_get(user=request.user, name=name)
    cluster_right(user=request.user)
    data = sent(request)
    there = {one.sku: one.gpus for one in sku_totals()}
    form = QuotaForm(data, vc=vc, kinds=cell_types(), now=quota_lines(), there=there, version=cluster_version())
    look = None
    if not form.is_valid() or not form.lines:
        _faults_show(form)
    if form.is_valid() and not form.lines and form.version in (None, cluster_version()):
        messages.info(request, _("These are the current numbers: nothing would change."))
    elif form.is_valid():
        try:
            look = _change(request, form, dry_run="apply" not in request.POST)
        except ChangedMeanwhile:
            form.take_present(quotas_changed_last())
        except (Invalid, Conflict) as refusal:
            form.refuse(refusal)
        else:
            if "apply" in request.POST:
                messages.success(request, _("Done. %(said)s") % {"said": look.said})
                return redirect("vc", name=vc.name)
    context = {"vc": vc, "form": form, "look": look}
    status = 409 if form.overtaken else 400 if form.errors else 200
    return render(request, "scheduler/quota.html", context, status=status)


def _faults_show(form: QuotaForm) -> None:
    """Shows what else is wrong with a submitted form that cannot be applied as it is."""
    if not form.is_bound:
        return
    now, typed = timezone.now(), form.cleaned_data
    starts_at, ends_at = typed.get("starts_at"), typed.get("ends_at")
    if starts_at is None and ends_at is None:
        faults = quotas_set_faults(lines=form.lines, now=now)
    else:
        faults = quota_change_faults(lines=form.lines, starts_at=starts_at or now, ends_at=ends_at, now=now)
    form.refuse(Invalid(fault for fault in faults if fault.code != "empty"))


def _change(request: PageRequest, form: QuotaForm, *, dry_run: bool) -> Look:
    now, actor, typed = timezone.now(), request.user.username, form.cleaned_data
    seen = form.version
    if typed["starts_at"] is None and typed["ends_at"] is None:
        effect = quotas_change(
            lines=form.lines, now=now, actor=actor, dry_run=dry_run, reason=typed["reason"], version=seen
        )
        return Look(effect)
    if seen is not None and seen != cluster_version():
        raise ChangedMeanwhile(_("The quotas were changed meanwhile."))
    planned = quota_change_plan(
        lines=form.lines, starts_at=typed["starts_at"] or now, ends_at=typed["ends_at"], reason=typed["reason"],
        now=now, actor=actor, dry_run=dry_run,
    )  # fmt: skip
    return Look(planned.effect, planned.returns)


@post_view
def quota_change_end(request: PageRequest, change_id: int) -> HttpResponse:
    """Withdraws a quota change."""
    cluster_right(user=request.user)
    change = quota_changes(over=True).filter(pk=change_id).first()
    if change is None:
        raise NotFound("change of quotas", change_id)
    vc = VirtualCluster.objects.filter(quota_changes__change=change).first()
    with refusals_told(request):
        quota_change_withdraw(change=change, **by(request))
        messages.success(request, _("The change is withdrawn."))
    return redirect("vc", name=vc.name) if vc else redirect("cluster")
