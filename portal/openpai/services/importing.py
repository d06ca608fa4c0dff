"""An import from OpenPAI: everything that its plan names, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.contrib.auth.models import Group as GroupRow
from django.db import transaction

from portal.accounts.models import User
from portal.accounts.people import group_join
from portal.accounts.services import user_create
from portal.hardware.states import VcRole
from portal.openpai.importing.plan import Plan, Row, What, place_about, role_of
from portal.openpai.importing.source import Group, Person, Place
from portal.openpai.models import GroupNote, UserNote
from portal.people.services.people import group_create
from portal.storages.services.storages import storage_create
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, membership_set, vc_create


def import_apply(*, plan: Plan, administer: set[str], now: datetime, actor: str) -> list[User]:
    """Store what the plan makes and adds; rows that are wrong are left out. The accounts that were made, which nobody
    opens by a password yet. ``administer``: the groups whose members become administrators. Raises Refused where
    something has come meanwhile that stands against it; then nothing is stored."""
    rows = [row for row in plan.rows if row.what in {What.MAKE, What.ADD}]
    with transaction.atomic():
        for row in rows:
            if row.kind == "virtual cluster":
                description = row.thing.description if isinstance(row.thing, Group) else ""
                vc_create(name=row.name, description=description, now=now, actor=actor)
        vcs = {vc.name: vc for vc in VirtualCluster.objects.all()}
        for row in rows:
            if isinstance(row.thing, Group) and row.kind == "group":
                _group(row, row.thing, vcs, now, actor)
        people = [_person(row, row.thing, vcs, administer, now, actor) for row in rows if isinstance(row.thing, Person)]
        for row in rows:
            if isinstance(row.thing, Place):
                mine = [vcs[name] for name in row.vcs]
                storage_create(
                    name=row.name, vcs=mine, servers=None, now=now, actor=actor, **place_about(row.thing, plan.root)
                )
    return [user for user in people if user is not None]


def _group(row: Row, group: Group, vcs: Mapping[str, VirtualCluster], now: datetime, actor: str) -> None:
    if row.what == What.MAKE:
        roles = dict.fromkeys(row.vcs, str(VcRole.MEMBER))
        made = group_create(name=row.name, description=group.description, roles=roles, now=now, actor=actor)
        if group.external_name or group.extension:
            GroupNote.objects.create(group=made, external_name=group.external_name, extension=group.extension)
        return
    for name in row.vcs:
        membership_set(vc=vcs[name], name=row.name, group=True, role=VcRole.MEMBER, now=now, actor=actor)


def _person(
    row: Row, person: Person, vcs: Mapping[str, VirtualCluster], administer: set[str], now: datetime, actor: str
) -> User | None:
    if row.what == What.MAKE:
        role = role_of(person, administer)
        user = user_create(username=row.name, password=None, email=person.email, role=role, actor=actor)
        if person.extension:
            UserNote.objects.create(user=user, extension=person.extension)
    else:
        user = User.objects.get(username=row.name)
    for group in GroupRow.objects.filter(name__in=row.groups).order_by("name"):
        group_join(group=group, user=user, now=now, actor=actor)
    for name in row.vcs:
        member_set(vc=vcs[name], user=user, role=VcRole.MEMBER, now=now, actor=actor)
    return user if row.what == What.MAKE else None
