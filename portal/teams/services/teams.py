"""Virtual clusters: creation, removal, members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict, Fault, Invalid, NotFound
from portal.common.wake import scheduler_wake
from portal.hardware.states import VcRole
from portal.teams import wordings
from portal.teams.models import Membership, VirtualCluster
from portal.teams.selectors.quotas import base_lines, quota_book
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.events import vc_event
from portal.teams.services.quotas import emptied_withdraw, told_by_vc


def vc_create(
    *, name: str, description: str = "", host_network: bool = False, now: datetime, actor: str = ""
) -> VirtualCluster:
    """Create a virtual cluster without quota. ``host_network``: it may run jobs of several tasks, which share the
    network of their nodes. Raises Conflict if the name is taken."""
    with transaction.atomic():
        vc, made = VirtualCluster.objects.get_or_create(
            name=name, defaults={"description": description, "host_network": host_network}
        )
        if not made:
            raise Conflict(gettext("There is a virtual cluster named %(name)s already.") % {"name": name})
        vc_event(vc=vc, code="created", message=wordings.CREATED(vc=name), now=now, actor=actor)
        after = {"host_network": True} if host_network else None
        audit_write(Audited.VC_CREATE, actor=actor, target=name, vc=name, now=now, after=after)
    return vc


def vc_remove(*, vc: VirtualCluster, now: datetime, actor: str) -> None:
    """Remove a virtual cluster with its quota, members and stored data; finished jobs keep its name, which may be
    reused. Raises Conflict while jobs of it wait or run, or a cell is pinned for it."""
    with cluster_change():
        # A concurrent submission holds its row: that job is counted, and the next one finds it gone.
        VirtualCluster.objects.select_for_update().get(pk=vc.pk)
        if refused := vc_remove_refusal(vc=vc):
            raise Conflict(refused)
        own = {key: count for key, count in base_lines().items() if key.vc_id == vc.pk}
        before = {"quota": told_by_vc(own, quota_book())}
        for rows in (
            vc.quota,
            vc.quota_changes,
            vc.loan_limits,
            vc.firm_rights,
            vc.memberships,
            vc.stored_secrets,
            vc.image_rules,
            vc.job_templates,
            vc.idle_exemptions,
        ):
            rows.all().delete()
        emptied_withdraw(now=now, actor=actor)
        if hasattr(vc, "idle_policy"):
            vc.idle_policy.delete()
        vc.storages.clear()
        VirtualCluster.objects.filter(pk=vc.pk).update(removed_at=now)
        vc_event(vc=vc, code="removed", message=wordings.REMOVED(vc=vc.name), now=now, actor=actor)
        audit_write(Audited.VC_REMOVE, actor=actor, target=vc.name, vc=vc.name, now=now, before=before)
        transaction.on_commit(scheduler_wake)


def vc_remove_refusal(*, vc: VirtualCluster) -> str:
    """Why it cannot be removed now, as a sentence; empty if it can."""
    reasons = "; ".join(_still_used(vc))
    return gettext("%(vc)s cannot be removed: %(reasons)s.") % {"vc": vc.name, "reasons": reasons} if reasons else ""


def _still_used(vc: VirtualCluster) -> Iterator[str]:
    states = Counter(vc.jobs.filter(ended_at__isnull=True).order_by().values_list("state", flat=True))
    if states:
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        yield gettext("it has jobs that are not over (%(told)s); stop them, or move those that wait") % {"told": told}
    if names := sorted(vc.pinned_cells.values_list("name", flat=True)):
        yield gettext("servers are reserved for it (%(names)s); import a configuration without that") % {
            "names": ", ".join(names)
        }


def member_set(*, vc: VirtualCluster, user: User, role: str, now: datetime, actor: str = "") -> None:
    """Give a user a role in the virtual cluster, replacing an earlier one."""
    _set(vc, user, user.username, role, now, actor)


def membership_set(
    *, vc: VirtualCluster, name: str, group: bool, role: str, now: datetime, actor: str, only_new: bool = False
) -> None:
    """Give a user or group of that name a role, replacing an earlier one. Raises Invalid for an unknown name and, with
    ``only_new``, for one that has a role already."""
    who: Group | User | None = (Group.objects.filter(name=name) if group else _users(name)).first()
    if who is None:
        words = gettext("there is no group %(name)s") if group else gettext("there is no user %(name)s")
        raise Invalid([Fault("name", words % {"name": name}, "unknown")])
    there = Membership.objects.filter(vc=vc, **{"group" if group else "user": who}).first() if only_new else None
    if there is not None:
        told = {"name": name, "role": there.get_role_display()}
        words = gettext("%(name)s is in it already, as %(role)s; the role is changed in the list.") % told
        raise Invalid([Fault("name", words, "known")])
    _set(vc, who, f"Group {name}" if group else name, role, now, actor)


def _set(vc: VirtualCluster, who: Group | User, name: str, role: str, now: datetime, actor: str) -> None:
    which: dict[str, Any] = {"vc": vc, "user" if isinstance(who, User) else "group": who}
    with transaction.atomic():
        before = Membership.objects.filter(**which).values("role").first()
        Membership.objects.update_or_create(**which, defaults={"role": role})
        # The new row locks the virtual cluster's: its removal has either committed by now, or waits for this.
        if not VirtualCluster.objects.filter(pk=vc.pk).exists():
            raise NotFound("virtual cluster", vc.name)
        message = wordings.MEMBER(name=_member(who), role=wordings.ROLES[VcRole(role)](), vc=vc.name)
        vc_event(vc=vc, code="member", message=message, now=now, actor=actor)
        audit_write(
            Audited.VC_MEMBER, actor=actor, target=name, vc=vc.name, now=now, before=before, after={"role": role}
        )


def _member(who: Group | User) -> str:
    return who.username if isinstance(who, User) else wordings.GROUP(group=who.name)


def membership_end(*, vc: VirtualCluster, membership_id: int, now: datetime, actor: str) -> None:
    """Remove somebody from the team; running jobs go on. Raises NotFound."""
    row = vc.memberships.select_related("user", "group").filter(pk=membership_id).first()
    if row is None:
        raise NotFound("membership", membership_id)
    name = row.user.username if row.user else f"Group {row.group}"
    with transaction.atomic():
        row.delete()
        who = row.user.username if row.user else wordings.GROUP(group=str(row.group))
        message = wordings.MEMBER_GONE(name=who, vc=vc.name)
        vc_event(vc=vc, code="member", message=message, now=now, actor=actor)
        audit_write(Audited.VC_MEMBER, actor=actor, target=name, vc=vc.name, now=now, before={"role": row.role})


def _users(name: str) -> QuerySet[User]:
    return User.objects.filter(username=name, is_active=True)
