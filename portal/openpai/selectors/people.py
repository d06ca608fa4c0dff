"""Users and groups as OpenPAI knows them. A virtual cluster (VC) is a group of its own name, whose members are those
who are in it directly; beside these stand the groups of the portal. A fixed number of queries for any number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q

from portal.accounts.models import User
from portal.accounts.people import group_description
from portal.accounts.rights import Action, Relation, allowed_everywhere, cluster_relation
from portal.openpai.errors import no_group, no_user
from portal.openpai.models import GroupNote, UserNote
from portal.storages.models import Storage
from portal.teams.models import Membership, VirtualCluster

READS_ALL = {Relation.ADMIN, Relation.AUDITOR}


@dataclass(frozen=True, slots=True)
class UserSeen:
    """An account, its groups, and what it may use."""

    user: User
    groups: list[str]
    vcs: list[str]
    storages: list[str]
    extension: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group; ``vc`` where it is one, else ``row``."""

    name: str
    vc: VirtualCluster | None
    row: Group | None
    description: str
    external_name: str
    extension: dict[str, Any]
    vcs: list[str]
    storages: list[str]


class _Grants:
    """Which VCs there are, who is in which, and which storages they bring."""

    def __init__(self, users: Sequence[User] = ()) -> None:
        self.vcs = list(VirtualCluster.objects.order_by("name"))
        self.names = {vc.pk: vc.name for vc in self.vcs}
        self.of_user: dict[int, set[int]] = defaultdict(set)
        self.of_group: dict[int, set[int]] = defaultdict(set)
        present = Membership.objects.filter(vc__removed_at=None)
        rows = present.filter(Q(user__in=users) | Q(group__isnull=False)).order_by()
        for vc, user, group in rows.values_list("vc", "user", "group"):
            if user is not None:
                self.of_user[user].add(vc)
            if group is not None:
                self.of_group[group].add(vc)
        self.everyone: set[str] = set()
        self.of_vc: dict[int, set[str]] = defaultdict(set)
        for storage in Storage.objects.prefetch_related("vcs"):
            if storage.everyone:
                self.everyone.add(storage.name)
            for granted in storage.vcs.all():
                self.of_vc[granted.pk].add(storage.name)

    def named(self, vcs: Iterable[int]) -> list[str]:
        return sorted(self.names[vc] for vc in vcs)

    def storages(self, vcs: Iterable[int]) -> list[str]:
        return sorted(self.everyone.union(*(self.of_vc[vc] for vc in vcs)))


def may_read_all(user: User) -> bool:
    """Whether the user may read everybody's account."""
    return user.is_active and cluster_relation(user) in READS_ALL


def users_found(*, names: Sequence[str] | None = None) -> list[UserSeen]:
    """The accounts that are not disabled, by name; those of ``names`` where given."""
    active = User.objects.filter(is_active=True) if names is None else _active(names)
    users = list(active.prefetch_related("groups").order_by("username"))
    grants = _Grants(users)
    notes = dict(UserNote.objects.filter(user__in=users).values_list("user", "extension"))
    return [_user(user, grants, notes.get(user.pk, {})) for user in users]


def _active(names: Sequence[str]) -> Any:
    return User.objects.filter(is_active=True, username__in=names)


def _user(user: User, grants: _Grants, extension: dict[str, Any]) -> UserSeen:
    groups = list(user.groups.all())
    own = grants.of_user[user.pk]
    vcs = own.union(*(grants.of_group[group.pk] for group in groups))
    if allowed_everywhere(user, Action.JOB_SUBMIT):
        vcs = set(grants.names)
    names = sorted({*grants.named(own), *(group.name for group in groups)})
    return UserSeen(user, names, grants.named(vcs), grants.storages(vcs), extension)


def user_found(*, name: str, asker: User) -> UserSeen:
    """One account, one's own or, for administrators and auditors, any; NoUserError otherwise."""
    found = users_found(names=[name]) if name == asker.username or may_read_all(asker) else []
    if not found:
        raise no_user(name)
    return found[0]


def groups_found() -> list[GroupSeen]:
    """All groups: the VCs, and the portal's groups whose names no VC has."""
    grants = _Grants()
    notes = {note.group_id: note for note in GroupNote.objects.all()}
    taken = set(grants.names.values())
    rows = [row for row in Group.objects.select_related("note").order_by("name") if row.name not in taken]
    return [*(_vc(vc, grants) for vc in grants.vcs), *(_group(row, notes.get(row.pk), grants) for row in rows)]


def _vc(vc: VirtualCluster, grants: _Grants) -> GroupSeen:
    return GroupSeen(vc.name, vc, None, vc.description, "", {}, [vc.name], grants.storages([vc.pk]))


def _group(row: Group, note: GroupNote | None, grants: _Grants) -> GroupSeen:
    vcs = grants.of_group[row.pk]
    told = note or GroupNote(group=row)
    return GroupSeen(
        row.name, None, row, group_description(row), told.external_name, told.extension, grants.named(vcs),
        grants.storages(vcs),
    )  # fmt: skip


def group_found(*, name: str) -> GroupSeen:
    """The group of that name; NoGroupError when there is none."""
    found = next((group for group in groups_found() if group.name == name), None)
    if found is None:
        raise no_group(name)
    return found


def members_found(*, name: str) -> list[User]:
    """Who is in a group, by name; nobody in one that is not there."""
    active = User.objects.filter(is_active=True).order_by("username")
    if VirtualCluster.objects.filter(name=name).exists():
        return list(active.filter(memberships__vc__name=name))
    return list(active.filter(groups__name=name))
