"""Virtual clusters: their rules, and who is in them."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from portal.accounts.models import User
from portal.clusters.models import Membership, VcEvent, VirtualCluster
from portal.common.errors import Conflict


def vc_create(*, name: str, description: str = "", now: datetime, actor: str = "") -> VirtualCluster:
    """A new virtual cluster without quota. Raises Conflict when the name is taken."""
    with transaction.atomic():
        vc, made = VirtualCluster.objects.get_or_create(name=name, defaults={"description": description})
        if not made:
            raise Conflict(f"There is a virtual cluster named {name} already.")
        VcEvent.objects.create(vc=vc, at=now, code="created", message=f"Virtual cluster {name}.", actor=actor)
    return vc


def member_set(*, vc: VirtualCluster, user: User, role: str, now: datetime, actor: str = "") -> None:
    """Give a user a role in the virtual cluster, in place of an earlier one."""
    with transaction.atomic():
        Membership.objects.update_or_create(vc=vc, user=user, defaults={"role": role})
        message = f"{user.username} is {role} of {vc.name}."
        VcEvent.objects.create(vc=vc, at=now, code="member", message=message, actor=actor)
