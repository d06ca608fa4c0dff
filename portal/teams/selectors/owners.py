"""Who may still run jobs in a virtual cluster, and who leads it and decides about the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from django.db.models import QuerySet

from portal.accounts.models import ClusterRole, User
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.prepared import Among, Prepared
from portal.hardware.states import VcRole
from portal.teams.models import Membership

Owner = tuple[int, int]
"""Row ids of virtual cluster and user."""


def owners_gone(*, owners: Collection[Owner]) -> frozenset[Owner]:
    """Job owners who may no longer run jobs there: their account is disabled, or they are neither in the virtual
    cluster, directly or by a group, nor allowed to administer the cluster. Two queries, whatever their number; none
    without owners."""
    users = {user for _, user in owners}
    if not users:
        return frozenset()
    active, rows = dict(_ACTIVE(users=users)), _MEMBERSHIPS(users=users)
    members, everywhere = {(vc, user) for vc, user, _ in rows}, _everywhere()
    may = {owner for owner in owners if owner in members or active.get(owner[1]) in everywhere}
    return frozenset(owner for owner in owners if owner not in may or owner[1] not in active)


_ACTIVE = Prepared(
    lambda: User.objects.filter(Among("id", "users"), is_active=True).order_by().values_list("pk", "role")
)
_MEMBERSHIPS = Prepared(
    lambda: _people(
        Membership.objects.filter(Among("user", "users")), Membership.objects.filter(Among("group__user", "users"))
    )
)


def leads_of(*, vcs: Collection[int]) -> Mapping[int, set[int]]:
    """Active leads of these virtual clusters, direct or by a group, by the virtual cluster's id. One query."""
    lead = Membership.objects.filter(vc__in=vcs, role=VcRole.LEAD)
    found = defaultdict(set)
    for vc, user, active in _people(lead.filter(user__isnull=False), lead.filter(group__user__isnull=False)):
        if active:
            found[vc].add(user)
    return found


def _people(
    direct: QuerySet[Membership], by_group: QuerySet[Membership]
) -> QuerySet[Membership, tuple[int, int, bool]]:
    """Virtual cluster, user, and whether active."""
    one = direct.order_by().values_list("vc", "user", "user__is_active")
    return one.union(by_group.order_by().values_list("vc", "group__user", "group__user__is_active"))


def _everywhere() -> frozenset[str]:
    """Cluster roles that may run jobs in every virtual cluster."""
    return frozenset(role for role in ClusterRole.values if allowed_everywhere(User(role=role), Action.JOB_SUBMIT))
