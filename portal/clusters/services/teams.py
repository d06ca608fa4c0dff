"""Virtual clusters: their rules, and who is in them."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Sum

from portal.accounts.models import User
from portal.clusters.models import CellType, Gpu, Membership, QuotaLine, VcEvent, VirtualCluster
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.wake import scheduler_wake


def vc_create(*, name: str, description: str = "", now: datetime, actor: str = "") -> VirtualCluster:
    """A new virtual cluster without quota. Raises Conflict when the name is taken."""
    with transaction.atomic():
        vc, made = VirtualCluster.objects.get_or_create(name=name, defaults={"description": description})
        if not made:
            raise Conflict(f"There is a virtual cluster named {name} already.")
        VcEvent.objects.create(vc=vc, at=now, code="created", message=f"Virtual cluster {name}.", actor=actor)
    return vc


def quota_set(*, vc: VirtualCluster, cell_type: CellType, count: int, now: datetime, actor: str = "") -> None:
    """Guarantee ``count`` cells of a type. Raises Invalid when the cluster has not that many left to give."""
    with transaction.atomic():
        others = QuotaLine.objects.filter(cell_type=cell_type).exclude(vc=vc).aggregate(all=Sum("count"))["all"] or 0
        there = Gpu.objects.filter(cell_type=cell_type).count()
        if others + count > there:
            raise Invalid(
                [
                    Fault(
                        path=f"quota.{cell_type.name}",
                        message=f"{count} {cell_type.name} asked for; of {there} in the cluster {others} are given.",
                        code="too_large",
                    )
                ]
            )
        QuotaLine.objects.update_or_create(vc=vc, cell_type=cell_type, defaults={"count": count})
        message = f"Quota of {vc.name}: {count} {cell_type.name}."
        VcEvent.objects.create(vc=vc, at=now, code="quota", message=message, actor=actor)
        transaction.on_commit(scheduler_wake)


def member_set(*, vc: VirtualCluster, user: User, role: str, now: datetime, actor: str = "") -> None:
    """Give a user a role in the virtual cluster, in place of an earlier one."""
    with transaction.atomic():
        Membership.objects.update_or_create(vc=vc, user=user, defaults={"role": role})
        message = f"{user.username} is {role} of {vc.name}."
        VcEvent.objects.create(vc=vc, at=now, code="member", message=message, actor=actor)
