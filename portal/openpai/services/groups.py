"""Groups as OpenPAI means them. The group of a virtual cluster comes and goes with it and is not changed here, but for
its description."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from portal.accounts.audit import audit_write, changes_of
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict
from portal.hardware.states import VcRole
from portal.openpai.errors import PaiError, invalid, no_group, no_vc, reserved
from portal.openpai.models import GroupNote
from portal.people.services.people import group_change, group_create, group_remove
from portal.teams.models import Membership, VirtualCluster
from portal.teams.services.rules import vc_set_rules


def pai_group_create(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """A group without members. Raises ConflictGroupError where the name is taken, also by a virtual cluster."""
    name, roles = body["groupname"], _wanted_roles(body, {})
    with transaction.atomic():
        try:
            row = group_create(
                name=name, description=body.get("description", ""), roles=roles or {}, now=now, actor=actor.username
            )
        except Conflict as error:
            raise PaiError(409, "ConflictGroupError", f"Group name {name} already exists.") from error
        _note(row, body, actor, now)


def pai_group_change(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """What the body names of a group becomes different."""
    name = body["groupname"]
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is not None:
        if body.get("externalName") or body.get("extension"):
            raise reserved(name)
        vc_set_rules(
            vc=vc, changes={"description": body.get("description", vc.description)}, now=now, actor=actor.username
        )
        return
    row = _found(name)
    with transaction.atomic():
        held = Membership.objects.filter(group=row).values_list("vc__name", "role")
        group_change(
            group=row, description=body.get("description"), roles=_wanted_roles(body, dict(held)), now=now,
            actor=actor.username,
        )  # fmt: skip
        _note(row, body, actor, now)


def pai_group_remove(*, name: str, actor: User, now: datetime) -> None:
    """End a group; its members lose what it gave them."""
    if VirtualCluster.objects.filter(name=name).exists():
        raise reserved(name)
    group_remove(group=_found(name), now=now, actor=actor.username)


def _found(name: str) -> Group:
    row = Group.objects.filter(name=name).first()
    if row is None:
        raise no_group(name)
    return row


def _note(row: Group, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """OpenPAI's own words about a group."""
    note, _ = GroupNote.objects.get_or_create(group=row)
    before = _told(note)
    note.external_name = body.get("externalName", note.external_name)
    note.extension = {key: value for key, value in body.get("extension", note.extension).items() if key != "acls"}
    was, became = changes_of(before, _told(note))
    if became:
        note.save()
        audit_write(Audited.GROUP, actor=actor.username, target=row.name, now=now, before=was, after=became)


def _told(note: GroupNote) -> dict[str, Any]:
    return {"external_name": note.external_name, "extension": note.extension}


def _wanted_roles(body: Mapping[str, Any], held: Mapping[str, str]) -> dict[str, str] | None:
    """The roles that the group shall give, or None where the body says nothing of them. A role that it gives already
    stays. Storages follow from them, and no group makes administrators."""
    acls = body.get("extension", {}).get("acls")
    if acls is None:
        return None
    if not isinstance(acls, Mapping):
        raise invalid("extension.acls: must be an object.")
    if acls.get("admin"):
        raise invalid("extension.acls.admin: no group makes administrators here; give each user the role.")
    vcs = acls.get("virtualClusters", [])
    if not isinstance(vcs, list) or not all(isinstance(vc, str) for vc in vcs):
        raise invalid("extension.acls.virtualClusters: must be a list of names.")
    there = set(VirtualCluster.objects.values_list("name", flat=True))
    if missing := sorted({*vcs} - there):
        raise no_vc(missing[0], there, 400)
    return {vc: held.get(vc, VcRole.MEMBER) for vc in vcs}
