"""Accounts and groups visible to a user, with their virtual clusters (VCs)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext, gettext_noop

from portal.accounts.models import User
from portal.accounts.people import group_description
from portal.accounts.rights import ALLOWED, Action, allowed_everywhere
from portal.common.errors import Denied, NotFound
from portal.common.prepared import Among, Prepared
from portal.hardware.states import VcRole
from portal.teams.models import Membership
from portal.teams.selectors.visible import vcs_of

_REFUSALS = {
    Action.USER_MANAGE: gettext_noop("Only an administrator may make, change and remove accounts."),
    Action.GROUP_MANAGE: gettext_noop("Only an administrator may make, change and remove groups."),
}


@dataclass(frozen=True, slots=True)
class InVc:
    """Membership of a VC: its name and the role."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Person:
    """An account, its groups by name, and its role in each VC, including roles by group."""

    user: User
    groups: list[str]
    virtual_clusters: list[InVc]


def manage_right(*, user: User, action: Action) -> None:
    """Raises Denied unless the user may manage accounts, or groups."""
    if not allowed_everywhere(user, action):
        raise Denied(gettext(_REFUSALS[action]))


def user_restrict(*, user: User) -> QuerySet[User]:
    """The accounts visible to the user: all, or their own and those in VCs that they lead."""
    if allowed_everywhere(user, Action.USER_READ):
        return User.objects.all()
    led = Membership.objects.filter(vc__in=vcs_of(user=user, relations=ALLOWED[Action.USER_READ]))
    by_group = User.objects.filter(groups__in=led.values("group"))
    return User.objects.filter(Q(pk=user.pk) | Q(pk__in=led.values("user")) | Q(pk__in=by_group.values("pk")))


def user_get(*, user: User, name: str) -> User:
    """The account with that name. Raises NotFound if there is none, or the user may not see it."""
    found = user_restrict(user=user).filter(username=name).first()
    if found is None:
        raise NotFound("user", name)
    return found


def user_to_manage(*, user: User, name: str) -> User:
    """The account, for changing it. Raises NotFound if the user may not see it, Denied if they may not change it."""
    found = user_get(user=user, name=name)
    manage_right(user=user, action=Action.USER_MANAGE)
    return found


def people_described(*, users: Sequence[User]) -> list[Person]:
    """The accounts with their groups and VCs, in the given order. Two queries for any number of them."""
    named: dict[int, dict[int, str]] = defaultdict(dict)
    ids = [user.pk for user in users]
    for user, group, name in _GROUPS_OF(users=ids):
        named[user][group] = name
    roles = _roles(ids, {group for groups in named.values() for group in groups})
    return [
        Person(
            user,
            sorted(named[user.pk].values()),
            _highest([*roles["user", user.pk], *(one for group in named[user.pk] for one in roles["group", group])]),
        )
        for user in users
    ]


def _groups_of() -> QuerySet[Any, tuple[int, int, str]]:
    rows = User.groups.through.objects.filter(Among("user", "users"))
    return rows.values_list("user_id", "group_id", "group__name")


def _memberships() -> QuerySet[Membership, tuple[int | None, int, str, str]]:
    rows = Membership.objects.filter(Q(Among("user", "users")) | Q(Among("group", "groups"))).order_by()
    return rows.values_list("user", "group", "vc__name", "role")


_GROUPS_OF = Prepared(_groups_of)
_MEMBERSHIPS = Prepared(_memberships)


def _roles(users: Iterable[int], groups: Iterable[int]) -> dict[tuple[str, int], list[InVc]]:
    """VCs and roles of users and groups, by kind and id."""
    roles: dict[tuple[str, int], list[InVc]] = defaultdict(list)
    for user, group, vc, role in _MEMBERSHIPS(users=users, groups=groups):
        roles["group" if user is None else "user", group if user is None else user].append(InVc(vc, role))
    return roles


def _highest(found: Iterable[InVc]) -> list[InVc]:
    roles: dict[str, str] = {}
    for one in found:
        roles[one.name] = VcRole.LEAD if VcRole.LEAD in {one.role, roles.get(one.name)} else one.role
    return [InVc(name, str(role)) for name, role in sorted(roles.items())]


# ---------------------------------------------------------------- groups


def group_restrict(*, user: User) -> QuerySet[Group]:
    """The groups visible to the user: all, or their own and those in VCs that they lead."""
    if allowed_everywhere(user, Action.GROUP_READ):
        return Group.objects.all()
    led = Membership.objects.filter(vc__in=vcs_of(user=user, relations=ALLOWED[Action.GROUP_READ]))
    return Group.objects.filter(Q(pk__in=user.groups.values("pk")) | Q(pk__in=led.values("group")))


def group_get(*, user: User, name: str) -> Group:
    """The group with that name. Raises NotFound if there is none, or the user may not see it."""
    found = group_restrict(user=user).select_related("note").filter(name=name).first()
    if found is None:
        raise NotFound("group", name)
    return found


def group_to_manage(*, user: User, name: str) -> Group:
    """The group, for changing it. Raises NotFound if the user may not see it, Denied if they may not change it."""
    found = group_get(user=user, name=name)
    manage_right(user=user, action=Action.GROUP_MANAGE)
    return found


def groups_described(*, groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The groups with description, number of members, and the roles that they give. Two queries for any number of
    groups, which must come with their notes."""
    counted = Group.objects.filter(pk__in=[group.pk for group in groups]).order_by()
    counts = dict(counted.values_list("pk").annotate(members=Count("user")))
    roles = _roles([], [group.pk for group in groups])
    return [
        {
            "name": group.name,
            "description": group_description(group),
            "member_count": counts[group.pk],
            "virtual_clusters": _highest(roles["group", group.pk]),
        }
        for group in groups
    ]


def group_members(*, group: Group) -> list[str]:
    """User names of its members, including disabled accounts."""
    return list(User.objects.filter(groups=group).order_by("username").values_list("username", flat=True))
