"""Administration of accounts and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, ClusterRole, GroupNote, User
from portal.accounts.services import NameTaken
from portal.common.errors import Conflict, Fault, Invalid
from portal.common.versions import version_check

_COLUMNS = {"email": "email", "role": "role", "active": "is_active", "uid": "uid", "gid": "gid",
            "extra_gids": "extra_gids"}  # fmt: skip
"""The changeable fields of an account, and their columns."""
CHANGEABLE = frozenset(_COLUMNS)


class LastAdministrator(Conflict):
    """The change would leave no administrator."""

    def __init__(self, username: str) -> None:
        super().__init__(
            gettext("%(username)s is the last administrator whose account is not disabled; make another one first.")
            % {"username": username}
        )


class StillNamed(Conflict):
    """The account still owns jobs."""

    def __init__(self, username: str) -> None:
        super().__init__(
            gettext("%(username)s has jobs, whose record stays; disable the account instead of removing it.")
            % {"username": username}
        )


def user_told(user: User) -> dict[str, Any]:
    """The account's state for the audit log and its version; needs its groups."""
    columns = {name: getattr(user, column) for name, column in _COLUMNS.items()}
    return {**columns, "role": str(user.role), "groups": sorted(group.name for group in user.groups.all())}


def user_change(
    *,
    user: User,
    changes: Mapping[str, Any],
    groups: Iterable[Group] | None = None,
    seen: str | None = None,
    now: datetime,
    actor: str,
) -> User:
    """Changes some of ``CHANGEABLE`` and, if given, the account's ``groups``. A disabled account is signed out
    everywhere within seconds; its jobs go on.

    Raises Conflict if ``seen``, the version that the change is based on, is outdated, NameTaken for another account's
    uid, LastAdministrator, django's ValidationError.
    """
    with transaction.atomic():
        if _ends_administrator(changes):
            _keep_an_administrator(user)
        row = User.objects.select_for_update().get(pk=user.pk)
        before = user_told(row)
        version_check(before, seen)
        for name, value in changes.items():
            setattr(row, _COLUMNS[name], value)
        row.is_staff = row.is_superuser = row.role == ClusterRole.ADMIN
        row.clean_fields(exclude={"password"})
        if row.uid is not None and (other := User.objects.filter(uid=row.uid).exclude(pk=row.pk).first()):
            raise NameTaken(gettext("%(username)s has the uid %(uid)s.") % {"username": other.username, "uid": row.uid})
        _save(row, before, now, actor)
        if groups is not None:
            groups_set(user=row, groups=groups, now=now, actor=actor)
    return row


def _save(row: User, before: Mapping[str, Any], now: datetime, actor: str) -> None:
    was, became = changes_of(before, user_told(row))
    if became:
        row.save(update_fields=[*_COLUMNS.values(), "is_staff", "is_superuser"])
        audit_write(Audited.USER_CHANGE, actor=actor, target=row.username, now=now, before=was, after=became)


def _ends_administrator(changes: Mapping[str, Any]) -> bool:
    return changes.get("active") is False or changes.get("role", ClusterRole.ADMIN) != ClusterRole.ADMIN


def _keep_an_administrator(user: User) -> None:
    """Locks the active administrators, so that two changes cannot each remove the other's last one. Raises
    LastAdministrator if ``user`` is the only one."""
    active = User.objects.filter(role=ClusterRole.ADMIN, is_active=True).order_by("pk")
    left = [row.pk for row in active.select_for_update().only("pk")]
    if left == [user.pk]:
        raise LastAdministrator(user.username)


def user_remove(*, user: User, now: datetime, actor: str) -> None:
    """Deletes an account with its tokens, memberships and stored secrets. Raises StillNamed, LastAdministrator."""
    name = user.username
    try:
        with transaction.atomic():
            _keep_an_administrator(user)
            before = user_told(user)
            User.objects.select_for_update().get(pk=user.pk).delete()
            audit_write(Audited.USER_REMOVE, actor=actor, target=name, now=now, before=before)
    except (ProtectedError, IntegrityError) as error:  # the latter: a job was submitted at the same moment
        raise StillNamed(name) from error


def groups_set(*, user: User, groups: Iterable[Group], now: datetime, actor: str) -> None:
    """Puts the account into exactly these groups."""
    with transaction.atomic():
        before = sorted(user.groups.values_list("name", flat=True))
        user.groups.set(groups)
        after = sorted(group.name for group in groups)
        if before != after:
            audit_write(
                Audited.GROUP, actor=actor, target=user.username, now=now, before={"groups": before},
                after={"groups": after},
            )  # fmt: skip


def group_join(*, group: Group, user: User, now: datetime, actor: str) -> None:
    """Adds the account to the group; idempotent."""
    with transaction.atomic():
        if not user.groups.filter(pk=group.pk).exists():
            user.groups.add(group)
            audit_write(Audited.GROUP, actor=actor, target=user.username, now=now, after={"group": group.name})


def group_leave(*, group: Group, user: User, now: datetime, actor: str) -> None:
    """Removes the account from the group; idempotent."""
    with transaction.atomic():
        if user.groups.filter(pk=group.pk).exists():
            user.groups.remove(group)
            audit_write(Audited.GROUP, actor=actor, target=user.username, now=now, before={"group": group.name})


def groups_named(names: Iterable[str], *, path: str = "groups") -> list[Group]:
    """The groups with these names. Raises Invalid for unknown ones."""
    wanted = list(dict.fromkeys(names))
    found = {group.name: group for group in Group.objects.filter(name__in=wanted)}
    missing = [
        Fault(path, gettext("there is no group %(name)s") % {"name": name}, "unknown")
        for name in wanted
        if name not in found
    ]
    if missing:
        raise Invalid(missing)
    return [found[name] for name in wanted]


# ---------------------------------------------------------------- groups


def group_store(*, name: str, description: str = "") -> Group:
    """Creates a group without members; the caller writes the audit entry. Raises Conflict if the name is taken."""
    row, made = Group.objects.get_or_create(name=name)
    if not made:
        raise Conflict(gettext("There is a group named %(name)s already.") % {"name": name})
    GroupNote.objects.create(group=row, description=description)
    return row


def group_describe(*, group: Group, description: str) -> None:
    """Sets the group's description; the caller writes the audit entry."""
    GroupNote.objects.update_or_create(group=group, defaults={"description": description})


def group_description(group: Group) -> str:
    """The group's description; may be empty."""
    note: GroupNote | None = getattr(group, "note", None)
    return note.description if note else ""
