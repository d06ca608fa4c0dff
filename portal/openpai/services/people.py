"""Accounts as OpenPAI means them: signing in with its errors, and an administrator's work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import MinimumLengthValidator
from django.core.exceptions import ValidationError
from django.db import transaction

from portal.accounts.models import ClusterRole, Scope, User
from portal.accounts.people import (
    LastAdministrator,
    StillNamed,
    group_join,
    group_leave,
    groups_set,
    user_change,
    user_remove,
)
from portal.accounts.rights import Action, allowed_everywhere
from portal.accounts.services import (
    NameTaken,
    NewToken,
    WrongPassword,
    password_prove,
    sign_in,
    token_create,
    user_set_password,
)
from portal.hardware.states import VcRole
from portal.openpai.errors import PaiError, forbidden, invalid, no_group, no_user, no_vc
from portal.openpai.models import UserNote
from portal.people.services.people import account_create
from portal.teams.models import Membership, VirtualCluster
from portal.teams.services.teams import member_set, membership_end

Made = TypeVar("Made")
LEAST = [MinimumLengthValidator(min_length=6)]
"""OpenPAI's rule for a password that an administrator gives."""
DEFAULT_VC = "default"
"""In OpenPAI everybody is in it; so is whoever gets an account by its API, where there is such a virtual cluster."""


def login(*, username: str, password: str, address: str, lifetime: timedelta, now: datetime) -> NewToken:
    """A token that may do what its user may. Unlike Berth's own sign-in it tells an unknown name from a wrong password,
    which OpenPAI's clients ask for; tries are counted all the same. Raises RateLimited."""
    try:
        user = sign_in(username=username, password=password, address=address, now=now)
    except WrongPassword as error:
        if User.objects.filter(username=username, is_active=True).exists():
            raise PaiError(400, "IncorrectPasswordError", "Password is incorrect.") from error
        raise no_user(username, 400) from error
    return token_create(user=user, name="OpenPAI login", scope=Scope.ADMIN, now=now, expires_at=now + lifetime)


def person_create(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """An account in the virtual clusters that the body names."""
    names = {
        *body.get("virtualCluster", []),
        *VirtualCluster.objects.filter(name=DEFAULT_VC).values_list("name", flat=True),
    }
    about = {name: body[name] for name in ("username", "password", "email") if name in body}
    role = ClusterRole.ADMIN if body.get("admin") else ClusterRole.USER
    try:
        with transaction.atomic():
            user = _checked(
                lambda: account_create(
                    **about, role=role, vcs=_vcs_named(names), rules=LEAST, now=now, actor=actor.username
                )
            )
            _set_extension(user, body.get("extension"))
    except NameTaken as error:
        raise PaiError(409, "ConflictUserError", f"User name {body['username']} already exists.") from error


def person_change(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """What the body names of an account becomes different."""
    user = _found(body["username"])
    given = _given_otherwise(user)
    changes = {"email": body["email"]} if "email" in body else {}
    if body.get("admin") is not None:
        changes["role"] = ClusterRole.ADMIN if body["admin"] else _without_admin(user)
    with transaction.atomic():
        _change(user, changes, now, actor)
        if "password" in body:
            _checked(lambda: user_set_password(user=user, password=body["password"], actor=actor.username, rules=LEAST))
        if "virtualCluster" in body:
            _set_vcs(user, body["virtualCluster"], actor, now, given)
        _set_extension(user, body.get("extension"))


def _change(user: User, changes: Mapping[str, Any], now: datetime, actor: User) -> None:
    """OpenPAI's document knows no conflict here."""
    try:
        _checked(lambda: user_change(user=user, changes=changes, now=now, actor=actor.username))
    except LastAdministrator as error:
        raise forbidden(error.detail) from error


def _without_admin(user: User) -> ClusterRole:
    return ClusterRole.USER if user.role == ClusterRole.ADMIN else ClusterRole(user.role)


def person_change_own(*, user: User, body: Mapping[str, Any], now: datetime) -> None:
    """One's own address and password, both with the old password as proof, and extension. Raises RateLimited."""
    if body["username"] != user.username:
        raise forbidden(f"User {user.username} is not allowed to change user {body['username']}.")
    # Who has the address can have a new password sent there. An administrator gives either to anybody without proof.
    moves = "email" in body and body["email"] != user.email
    proves = user.has_usable_password() and user.role != ClusterRole.ADMIN
    if (moves and proves) or "newPassword" in body:
        try:
            password_prove(user=user, password=body.get("oldPassword", ""), now=now)
        except WrongPassword as error:
            raise PaiError(400, "IncorrectPasswordError", "Password is incorrect.") from error
    with transaction.atomic():
        if "newPassword" in body:
            _checked(lambda: user_set_password(user=user, password=body["newPassword"]))
        _change(user, {"email": body["email"]} if "email" in body else {}, now, user)
        _set_extension(user, body.get("extension"))


def person_remove(*, name: str, actor: User, now: datetime) -> None:
    """End an account, or disable it where jobs name it. Raises RemoveAdminError for an administrator's, as OpenPAI
    does."""
    user = _found(name)
    if user.role == ClusterRole.ADMIN:
        raise PaiError(403, "RemoveAdminError", f"Admin {name} is not allowed to remove.")
    try:
        user_remove(user=user, now=now, actor=actor.username)
    except StillNamed:
        user_change(user=user, changes={"active": False}, now=now, actor=actor.username)


def person_join(*, name: str, group: str, actor: User, now: datetime) -> None:
    """Put an account into a group: a virtual cluster as a member, or a group of the portal."""
    user = _found(name)
    vc, row = _group(group)
    if vc is not None:
        _join(user, vc, actor, now)
    elif row is not None:
        group_join(group=row, user=user, now=now, actor=actor.username)


def person_leave(*, name: str, group: str, actor: User, now: datetime) -> None:
    """Take an account out of a group; out already: no change."""
    user = _found(name)
    vc, row = _group(group)
    if vc is not None:
        _leave(user, vc, actor, now)
    elif row is not None:
        group_leave(group=row, user=user, now=now, actor=actor.username)


def person_set_groups(*, name: str, groups: Iterable[str], actor: User, now: datetime) -> None:
    """Let the account be in these groups and in no others."""
    user, found = _found(name), [_group(group) for group in dict.fromkeys(groups)]
    with transaction.atomic():
        _set_vcs(user, [vc.name for vc, _ in found if vc is not None], actor, now)
        rows = [row for _, row in found if row is not None]
        groups_set(user=user, groups=rows, now=now, actor=actor.username)


def _found(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise no_user(name)
    return user


def _group(name: str) -> tuple[VirtualCluster | None, Group | None]:
    vc = VirtualCluster.objects.filter(name=name).first()
    row = None if vc else Group.objects.filter(name=name).first()
    if vc is None and row is None:
        raise no_group(name)
    return vc, row


def _given_otherwise(user: User) -> set[int]:
    """The virtual clusters that an account is told to be in without being in them directly: whoever reads an account
    and writes it back does not mean to make these rights its own."""
    if allowed_everywhere(user, Action.JOB_SUBMIT):
        return set(VirtualCluster.objects.values_list("pk", flat=True))
    return set(VirtualCluster.objects.filter(memberships__group__user=user).values_list("pk", flat=True))


def _set_vcs(
    user: User, names: Iterable[str], actor: User, now: datetime, given: Collection[int] = frozenset()
) -> None:
    """Let the account be in these virtual clusters directly, and in no others; who leads one goes on leading it. Into
    those that are ``given`` otherwise nobody is put."""
    vcs = _vcs_named(names)
    for vc in VirtualCluster.objects.filter(memberships__user=user).exclude(pk__in=[vc.pk for vc in vcs]):
        _leave(user, vc, actor, now)
    for vc in vcs:
        if vc.pk not in given:
            _join(user, vc, actor, now)


def _vcs_named(names: Iterable[str]) -> list[VirtualCluster]:
    wanted = set(names)
    vcs = {vc.name: vc for vc in VirtualCluster.objects.all()}
    if missing := sorted(wanted - vcs.keys()):
        raise no_vc(missing[0], vcs, 400)
    return [vcs[name] for name in wanted]


def _join(user: User, vc: VirtualCluster, actor: User, now: datetime) -> None:
    if not Membership.objects.filter(vc=vc, user=user).exists():
        member_set(vc=vc, user=user, role=VcRole.MEMBER, now=now, actor=actor.username)


def _leave(user: User, vc: VirtualCluster, actor: User, now: datetime) -> None:
    row = Membership.objects.filter(vc=vc, user=user).first()
    if row is not None:
        membership_end(vc=vc, membership_id=row.pk, now=now, actor=actor.username)


def _set_extension(user: User, extension: Mapping[str, Any] | None) -> None:
    if extension is not None:
        UserNote.objects.update_or_create(user=user, defaults={"extension": dict(extension)})


def _checked(write: Callable[[], Made]) -> Made:
    try:
        return write()
    except ValidationError as error:
        raise invalid(" ".join(error.messages)) from error
