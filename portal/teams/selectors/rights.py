"""Rights of users in a virtual cluster (VC)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass
from portal.hardware.states import VcRole
from portal.teams.models import FirmRight, VirtualCluster
from portal.teams.selectors.visible import vc_roles


def highest_class(*, user: User, vc: VirtualCluster) -> PriorityClass:
    """The highest priority class that the user may give a job in the VC: by the user's role; administrators count as
    leads."""
    return highest_classes(user=user, vcs=[vc])[vc.pk]


def highest_classes(*, user: User, vcs: Iterable[VirtualCluster]) -> dict[int, PriorityClass]:
    """Highest class per VC, by the VC's id. One query."""
    roles, everywhere = vc_roles(user=user), allowed_everywhere(user, Action.JOB_SUBMIT)
    names = {vc.pk: vc.lead_class if everywhere or roles.get(vc.pk) == VcRole.LEAD else vc.member_class for vc in vcs}
    return {key: next(one for one in PRIORITY_CLASSES if one == name) for key, name in names.items()}


def firm_rights(*, now: datetime) -> dict[tuple[int, int], int]:
    """GPUs that users may hold without preemption now, by the ids of VC and user. One query."""
    rows = FirmRight.objects.filter(last_day__gte=timezone.localdate(now))
    return {(row.vc_id, row.user_id): row.gpus for row in rows}
