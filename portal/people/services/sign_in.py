"""Sign-in by a provider: the account, and the rights granted by its groups there.

What a group granted goes with the group, at the next sign-in. What was given by hand stays, and in a virtual cluster
where the person is a member by hand the groups grant nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.identities import NoAccount, grants_of, identity_of
from portal.accounts.models import Audited, ClusterRole, Identity, User
from portal.accounts.oidc.flow import Person
from portal.accounts.people import LastAdministrator, group_join, group_leave, user_change
from portal.env.grants import Grant
from portal.hardware.states import VcRole
from portal.teams.models import Membership, VirtualCluster
from portal.teams.services.teams import member_set, membership_end

log = logging.getLogger(__name__)

_RANK = [ClusterRole.USER, ClusterRole.AUDITOR, ClusterRole.ADMIN]


def provider_sign_in(*, person: Person, now: datetime) -> User:
    """The person's account, with the rights of their present groups. Raises NoAccount, also for a disabled account."""
    try:
        with transaction.atomic():
            identity = identity_of(person=person, now=now)
            if not identity.user.is_active:
                raise NoAccount(gettext("Your account %(name)s is disabled.") % {"name": identity.user.username})
            if person.groups is not None:
                _rights_set(identity, grants_of(person.groups), now)
            user = User.objects.get(pk=identity.user_id)
            after = {"by": person.issuer}
            audit_write(Audited.SIGN_IN, actor=user.username, target=user.username, now=now, after=after)
    except NoAccount:
        after = {"by": person.issuer, "subject": person.subject}
        audit_write(Audited.SIGN_IN_REFUSED, actor="", target=person.username, now=now, after=after)
        raise
    return user


def _rights_set(identity: Identity, grants: Iterable[Grant], now: datetime) -> None:
    user, given = identity.user, identity.given
    wanted = list(grants)
    identity.given = {
        "role": _role_set(user, given.get("role"), wanted, now),
        "groups": _groups_set(user, given.get("groups", []), wanted, now),
        "memberships": _memberships_set(user, given.get("memberships", {}), wanted, now),
    }
    if identity.given != given:
        identity.save(update_fields=["given"])


def _role_set(user: User, came: dict[str, str] | None, wanted: list[Grant], now: datetime) -> dict[str, str] | None:
    """Sets the cluster role, and returns it with the one below it that was set by hand; None if the groups grant no
    higher one."""
    by_hand = ClusterRole(came["below"] if came and came["role"] == user.role else user.role)
    role = max([by_hand, *(ClusterRole(grant.kind) for grant in wanted if not grant.name)], key=_RANK.index)
    if role != user.role:
        try:
            user_change(user=user, changes={"role": role}, now=now, actor="")
        except LastAdministrator as refusal:
            log.warning("%s keeps a role that no group gives any more: %s", user.username, refusal.detail)
            return came
    return {"role": role, "below": by_hand} if role != by_hand else None


def _groups_set(user: User, came: list[int], wanted: list[Grant], now: datetime) -> list[int]:
    """Updates the account's groups; returns the ids of those granted by the provider's."""
    names = {grant.name for grant in wanted if grant.kind == "group"}
    groups = {group.name: group for group in Group.objects.filter(name__in=names)}
    _tell_missing("group", names - groups.keys())
    held = {group.pk: group for group in user.groups.all()}
    keep = {group.pk for group in groups.values()}
    for key in came:
        if key in held and key not in keep:
            group_leave(group=held[key], user=user, now=now, actor="")
    for group in groups.values():
        if group.pk not in held:
            group_join(group=group, user=user, now=now, actor="")
    return sorted(key for key in keep if key in came or key not in held)


def _memberships_set(user: User, came: dict[str, str], wanted: list[Grant], now: datetime) -> dict[str, str]:
    """Updates the account's memberships; returns the ids of those granted by the provider's groups, with their
    roles."""
    roles: dict[str, str] = {}
    for grant in wanted:
        if grant.kind in VcRole.values and roles.get(grant.name) != VcRole.LEAD:
            roles[grant.name] = grant.kind
    vcs = {vc.name: vc for vc in VirtualCluster.objects.filter(name__in=roles)}
    _tell_missing("virtual cluster", roles.keys() - vcs.keys())
    held = {row.vc.name: row for row in Membership.objects.filter(user=user).select_related("vc")}
    theirs = {name for name, row in held.items() if came.get(str(row.pk)) == row.role}
    for name in theirs - vcs.keys():
        membership_end(vc=held[name].vc, membership_id=held[name].pk, now=now, actor="")
    for name, vc in vcs.items():
        if name not in held or (name in theirs and held[name].role != roles[name]):
            member_set(vc=vc, user=user, role=roles[name], now=now)
    ours = [name for name in vcs if name not in held or name in theirs]
    return {str(row.pk): row.role for row in Membership.objects.filter(user=user, vc__name__in=ours)}


def _tell_missing(kind: str, names: Iterable[Any]) -> None:
    for name in sorted(names):
        log.warning("BERTH_OIDC_ROLES names the %s %s, which is not there", kind, name)
