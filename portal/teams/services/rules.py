"""Sets a virtual cluster's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Fault, Invalid, NotFound
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass, priority_name
from portal.common.wake import scheduler_wake
from portal.hardware.models import Sku
from portal.teams import wordings
from portal.teams.models import RULES, FirmRight, LoanLimit, VirtualCluster
from portal.teams.selectors.quotas import quota_lines
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.events import vc_event
from portal.teams.services.quota_checks import gpus_owned

CAPS = frozenset(name for name, rule in RULES.items() if rule.by_leads)
"""Rules that a lead may change; the others are administrators'."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of lending for one SKU, in GPUs; None: no limit."""

    sku: str
    max_borrow: int | None
    max_lend: int | None


def vc_set_all_rules(
    *, vc: VirtualCluster, changes: Mapping[str, Any], limits: Sequence[Limit] | None, now: datetime, actor: str
) -> VirtualCluster:
    """Change some of ``RULES`` and the description and, if ``limits`` are given, replace those of lending: all or
    nothing. Raises Invalid with every fault of both."""
    skus = {sku.name: sku for sku in Sku.objects.all()}
    faults = [*_rule_faults(vc, _changed(vc, changes), now), *_limit_faults(limits or (), skus)]
    if faults:
        raise Invalid(faults)
    with transaction.atomic():
        if limits is not None:
            loan_limits_set(vc=vc, limits=limits, now=now, actor=actor)
        return vc_set_rules(vc=vc, changes=changes, now=now, actor=actor)


def vc_set_rules(*, vc: VirtualCluster, changes: Mapping[str, Any], now: datetime, actor: str) -> VirtualCluster:
    """Change some of ``RULES`` and the description; values have the columns' types. Raises Invalid if they contradict
    each other."""
    changed = _changed(vc, changes)
    if not changed:
        return vc
    if faults := list(_rule_faults(vc, changed, now)):
        raise Invalid(faults)
    with transaction.atomic():
        VirtualCluster.objects.filter(pk=vc.pk).update(**changed)
        events = {"description": wordings.DESCRIPTION, **{name: rule.event for name, rule in RULES.items()}}
        rules = [wordings.RULE(rule=events[name](), value=_said(value)) for name, value in changed.items()]
        _told(vc, "rules", wordings.RULES(vc=vc.name, rules=rules), now, actor)
        before = {name: getattr(vc, name) for name in changed}
        _audit(Audited.VC_RULES, vc, vc.name, actor, now, before, changed)
    vc.refresh_from_db()
    return vc


def _said(value: object) -> object:
    return wordings.SAID[value]() if value is None or isinstance(value, bool) else value


def _changed(vc: VirtualCluster, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if getattr(vc, name) != value}


def _rule_faults(vc: VirtualCluster, changed: Mapping[str, Any], now: datetime) -> Iterable[Fault]:
    """Contradictions with other rules: a member may not submit what a lead may not, and a right to GPUs without
    preemption is worthless if one user may not hold as many."""
    member, lead = (
        cast("PriorityClass", changed.get(name, getattr(vc, name))) for name in ("member_class", "lead_class")
    )
    if {"member_class", "lead_class"} & changed.keys() and PRIORITY_CLASSES[member] > PRIORITY_CLASSES[lead]:
        message = gettext("members may not have a higher class than leads: %(member)s is above %(lead)s") % {
            "member": _class_words(member), "lead": _class_words(lead),
        }  # fmt: skip
        yield Fault("member_class" if "member_class" in changed else "lead_class", message, "too_high")
    if (most := changed.get("user_gpus")) is not None:
        rights = FirmRight.objects.filter(vc=vc, gpus__gt=most, last_day__gte=timezone.localdate(now))
        if right := rights.select_related("user").order_by("-gpus", "user__username").first():
            message = gettext(
                "%(user)s has a right to %(gpus)s GPUs without preemption until %(day)s: end that first, or allow as "
                "many"
            ) % {"user": right.user.username, "gpus": right.gpus, "day": right.last_day.isoformat()}
            yield Fault("user_gpus", message, "too_small")


def _class_words(name: PriorityClass) -> str:
    return f"{gettext(priority_name(PRIORITY_CLASSES[name]))} ({name})"


def loan_limits_set(*, vc: VirtualCluster, limits: Sequence[Limit], now: datetime, actor: str) -> None:
    """Replace all limits of lending. Raises Invalid for unknown or repeated SKUs."""
    skus = {sku.name: sku for sku in Sku.objects.all()}
    if faults := list(_limit_faults(limits, skus)):
        raise Invalid(faults)
    with transaction.atomic():
        before = _limits_of(vc)
        LoanLimit.objects.filter(vc=vc).delete()
        LoanLimit.objects.bulk_create(
            LoanLimit(vc=vc, sku=skus[limit.sku], max_borrow=limit.max_borrow, max_lend=limit.max_lend)
            for limit in limits
        )
        words = [
            wordings.LIMIT(sku=limit.sku, borrow=_most(limit.max_borrow), lend=_most(limit.max_lend))
            for limit in limits
        ]
        message = wordings.LIMITS(vc=vc.name, limits=words) if words else wordings.NO_LIMITS(vc=vc.name)
        _told(vc, "limits", message, now, actor)
        if before != (after := _limits_of(vc)):
            _audit(Audited.VC_LIMITS, vc, vc.name, actor, now, before, after)


def _limits_of(vc: VirtualCluster) -> dict[str, Any]:
    """The limits as logged in the audit log."""
    rows = LoanLimit.objects.filter(vc=vc).order_by("sku__name")
    return {sku: {"max_borrow": borrow, "max_lend": lend} for sku, borrow, lend in rows.values_list(
        "sku__name", "max_borrow", "max_lend"
    )}  # fmt: skip


def _limit_faults(limits: Sequence[Limit], skus: Mapping[str, Sku]) -> Iterable[Fault]:
    seen: set[str] = set()
    for place, limit in enumerate(limits):
        if limit.sku not in skus:
            known = ", ".join(skus) or gettext("none")
            message = gettext("there is no SKU %(sku)s; known: %(known)s") % {"sku": limit.sku, "known": known}
            yield Fault(f"loan_limits[{place}].sku", message, "unknown")
        elif limit.sku in seen:
            yield Fault(f"loan_limits[{place}].sku", gettext("%(sku)s is named twice") % {"sku": limit.sku}, "twice")
        seen.add(limit.sku)


def _most(limit: int | None) -> str:
    return wordings.WITHOUT() if limit is None else wordings.AT_MOST(number=limit)


def firm_right_set(
    *, vc: VirtualCluster, username: str, gpus: int, last_day: date, now: datetime, actor: str
) -> FirmRight:
    """Give a user the right to non-preemptible jobs of ``gpus`` GPUs together, up to and including that day.

    Raises NotFound for an unknown user, Invalid if all such rights would exceed the quota or the day is over.
    """
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound("user", username)
    with cluster_change():
        if faults := list(_right_faults(vc, user, gpus, last_day, timezone.localdate(now))):
            raise Invalid(faults)
        before = _right_of(vc, username)
        right, _ = FirmRight.objects.update_or_create(vc=vc, user=user, defaults={"gpus": gpus, "last_day": last_day})
        message = wordings.FIRM_RIGHT(user=username, gpus=gpus, vc=vc.name, day=last_day)
        _told(vc, "firm_right", message, now, actor)
        _audit(Audited.FIRM_RIGHT, vc, username, actor, now, before, _right_of(vc, username))
    return right


def _right_faults(vc: VirtualCluster, user: User, gpus: int, last_day: date, today: date) -> Iterable[Fault]:
    others = FirmRight.objects.filter(vc=vc, last_day__gte=today).exclude(user=user)
    given, owned = others.aggregate(all=Sum("gpus"))["all"] or 0, gpus_owned(vc=vc.pk, lines=quota_lines())
    if last_day < today:
        yield Fault("last_day", gettext("%(last_day)s is over") % {"last_day": last_day}, "past")
    if vc.user_gpus is not None and gpus > vc.user_gpus:
        message = gettext("one user may hold %(most)s GPUs in %(vc)s") % {"most": vc.user_gpus, "vc": vc.name}
        yield Fault("gpus", message, "too_large")
    if given + gpus > owned:
        message = gettext(
            "%(gpus)s GPUs asked for; of %(owned)s of %(vc)s's quota %(given)s are promised to others"
        ) % {"gpus": gpus, "owned": owned, "vc": vc.name, "given": given}
        yield Fault("gpus", message, "too_large")


def firm_right_end(*, vc: VirtualCluster, username: str, now: datetime, actor: str) -> None:
    """Revoke the right: jobs that run by it can be preempted from now on. Raises NotFound if there is none."""
    with transaction.atomic():
        before = _right_of(vc, username)
        if not FirmRight.objects.filter(vc=vc, user__username=username).delete()[0]:
            raise NotFound("right of", username)
        _audit(Audited.FIRM_RIGHT, vc, username, actor, now, before, None)
        _told(vc, "firm_right", wordings.FIRM_RIGHT_OVER(user=username, vc=vc.name), now, actor)


def _right_of(vc: VirtualCluster, username: str) -> dict[str, Any] | None:
    """The right as logged in the audit log."""
    right = FirmRight.objects.filter(vc=vc, user__username=username).first()
    return {"gpus": right.gpus, "last_day": right.last_day.isoformat()} if right else None


def _audit(
    what: Audited,
    vc: VirtualCluster,
    target: str,
    actor: str,
    now: datetime,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    audit_write(what, actor=actor, target=target, vc=vc.name, now=now, before=before, after=after)


def _told(vc: VirtualCluster, code: str, message: str, now: datetime, actor: str) -> None:
    vc_event(vc=vc, code=code, message=message, now=now, actor=actor)
    transaction.on_commit(scheduler_wake)
