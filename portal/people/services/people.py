"""Writes accounts with their virtual clusters, and groups with those that they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.accounts.people import group_describe, group_description, group_store, groups_named, groups_set
from portal.accounts.services import user_create, user_judged, users_taken
from portal.common.checking import faults_of
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.versions import version_check
from portal.hardware.states import VcRole
from portal.teams.models import Membership, VirtualCluster
from portal.teams.selectors.visible import vcs_named
from portal.teams.services.teams import member_set, membership_end, membership_set


def account_create(
    *, groups: Iterable[Group] = (), vcs: Iterable[VirtualCluster] = (), now: datetime, actor: str, **about: Any
) -> User:
    """Creates an account in these groups, as a member of these virtual clusters; ``about``: see ``user_create``. Raises
    django's ValidationError, NameTaken."""
    with transaction.atomic():
        user = user_create(**about, actor=actor)
        account_join(user=user, groups=groups, vcs=vcs, now=now, actor=actor)
    return user


def account_faults(*, groups: Iterable[str], virtual_clusters: Iterable[str], **about: Any) -> list[Fault]:
    """Every reason why this account cannot be created, each with its field; ``about``: see ``user_judged``."""
    user, wrong = user_judged(**about)
    faults = faults_of(wrong) if wrong else []
    faults += [Fault(one.path, one.message, "taken") for one in users_taken(users=[user])]
    for find, names in ((groups_named, groups), (vcs_named, virtual_clusters)):
        try:
            find(names)
        except Invalid as missing:
            faults += missing.faults
    return faults


def account_join(
    *, user: User, groups: Iterable[Group], vcs: Iterable[VirtualCluster], now: datetime, actor: str
) -> None:
    """Puts a new account into groups and virtual clusters, inside the caller's transaction."""
    if chosen := list(groups):
        groups_set(user=user, groups=chosen, now=now, actor=actor)
    for vc in vcs:
        member_set(vc=vc, user=user, role=VcRole.MEMBER, now=now, actor=actor)


# ---------------------------------------------------------------- groups

Roles = Mapping[str, str]
"""Roles that a group gives its members, by virtual cluster name."""


def group_told(group: Group) -> dict[str, Any]:
    """The group's state for the audit log and its version."""
    rows = Membership.objects.filter(group=group, vc__removed_at=None).order_by("vc__name")
    return {
        "description": group_description(group),
        "virtual_clusters": dict(rows.values_list("vc__name", "role")),
    }


def group_create(*, name: str, description: str, roles: Roles, now: datetime, actor: str) -> Group:
    """Creates a group without members. Raises Conflict if a group or virtual cluster has the name, Invalid for an
    unknown virtual cluster."""
    with transaction.atomic():
        if VirtualCluster.objects.filter(name=name).exists():
            raise Conflict(
                gettext("There is a virtual cluster named %(name)s, and OpenPAI's API knows both as groups.")
                % {"name": name}
            )
        group = group_store(name=name, description=description)
        _roles_set(group, roles, now, actor)
        audit_write(Audited.GROUP, actor=actor, target=name, now=now, after=group_told(group))
    return group


def group_change(
    *,
    group: Group,
    description: str | None = None,
    roles: Roles | None = None,
    seen: str | None = None,
    now: datetime,
    actor: str,
) -> Group:
    """Changes the description, or the virtual clusters that it gives; None: unchanged. Raises Conflict if ``seen``, the
    version that the change is based on, is outdated, and Invalid for an unknown virtual cluster."""
    with transaction.atomic():
        row = Group.objects.select_for_update().get(pk=group.pk)
        before = group_told(row)
        version_check(before, seen)
        if description is not None:
            group_describe(group=row, description=description)
        if roles is not None:
            _roles_set(row, roles, now, actor)
        row = Group.objects.get(pk=group.pk)
        was, became = changes_of(before, group_told(row))
        if became:
            audit_write(Audited.GROUP, actor=actor, target=row.name, now=now, before=was, after=became)
    return row


def group_remove(*, group: Group, now: datetime, actor: str) -> None:
    """Deletes a group; its members lose what it gave them."""
    with transaction.atomic():
        members = group.user_set.order_by("username").values_list("username", flat=True)
        before = {**group_told(group), "members": list(members)}
        _roles_set(group, {}, now, actor)
        group.delete()
        audit_write(Audited.GROUP, actor=actor, target=group.name, now=now, before=before)


def _roles_set(group: Group, roles: Roles, now: datetime, actor: str) -> None:
    vcs = {vc.name: vc for vc in vcs_named(roles)}
    held = {row.vc.name: row for row in Membership.objects.filter(group=group).select_related("vc")}
    for name, row in held.items():
        if name not in roles:
            membership_end(vc=row.vc, membership_id=row.pk, now=now, actor=actor)
    for name, role in sorted(roles.items()):
        if name not in held or held[name].role != role:
            membership_set(vc=vcs[name], name=group.name, group=True, role=role, now=now, actor=actor)
