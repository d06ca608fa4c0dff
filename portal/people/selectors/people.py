"""Accounts and groups as somebody may see them, with the virtual clusters (VCs) that they are in."""

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
    """A role in a VC."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Person:
    """An account, its groups by name, and its role in each VC, by groups too."""

    user: User
    groups: list[str]
    virtual_clusters: list[InVc]


def manage_right(*, user: User, action: Action) -> None:
    """Raises Denied unless the user may manage accounts, or groups."""
    if not allowed_everywhere(user, action):
        raise Denied(gettext(_REFUSALS[action]))


def user_restrict(*, user: User) -> QuerySet[User]:
    """The accounts that the user may see: all, or one's own and those of the VCs that one leads."""
    if allowed_everywhere(user, Action.USER_READ):
        return User.objects.all()
    led = Membership.objects.filter(vc__in=vcs_of(user=user, relations=ALLOWED[Action.USER_READ]))
    by_group = User.objects.filter(groups__in=led.values("group"))
    return User.objects.filter(Q(pk=user.pk) | Q(pk__in=led.values("user")) | Q(pk__in=by_group.values("pk")))


def user_get(*, user: User, name: str) -> User:
    """The account of that name; NotFound when there is none that the user may see."""
    found = user_restrict(user=user).filter(username=name).first()
    if found is None:
        raise NotFound("user", name)
    return found


def user_to_manage(*, user: User, name: str) -> User:
    """The account, to change it. NotFound when the user may not even see it, Denied when not more than that."""
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
    """Of users and groups, by kind and id."""
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
    """The groups that the user may see: all, or one's own and those in the VCs that one leads."""
    if allowed_everywhere(user, Action.GROUP_READ):
        return Group.objects.all()
    led = Membership.objects.filter(vc__in=vcs_of(user=user, relations=ALLOWED[Action.GROUP_READ]))
    return Group.objects.filter(Q(pk__in=user.groups.values("pk")) | Q(pk__in=led.values("group")))


def group_get(*, user: User, name: str) -> Group:
    """The group of that name; NotFound when there is none that the user may see."""
    found = group_restrict(user=user).select_related("note").filter(name=name).first()
    if found is None:
        raise NotFound("group", name)
    return found


def group_to_manage(*, user: User, name: str) -> Group:
    """The group, to change it. NotFound when the user may not even see it, Denied when not more than that."""
    found = group_get(user=user, name=name)
    manage_right(user=user, action=Action.GROUP_MANAGE)
    return found


def groups_described(*, groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The groups, what they are for, how many are in each, and the roles that they give. Two queries for any number
    of them, which come with their notes."""
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
    """The user names of those who are in it; of disabled accounts too."""
    return list(User.objects.filter(groups=group).order_by("username").values_list("username", flat=True))
