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
from portal.clusters.models import Membership, VirtualCluster
from portal.clusters.services import membership_end, membership_set, vc_set_rules
from portal.clusters.states import VcRole
from portal.openpai.errors import PaiError, invalid, no_group, no_vc, reserved
from portal.openpai.models import GroupNote


def group_create(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """A group without members. Raises ConflictGroupError where the name is taken, also by a virtual cluster."""
    name = body["groupname"]
    with transaction.atomic():
        taken = VirtualCluster.objects.filter(name=name).exists()
        row, made = (None, False) if taken else Group.objects.get_or_create(name=name)
        if row is None or not made:
            raise PaiError(409, "ConflictGroupError", f"Group name {name} already exists.")
        _set(row, body, actor, now)
        audit_write(Audited.GROUP, actor=actor.username, target=name, now=now, after=_told(row))


def group_change(*, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    """What the body names of a group becomes different."""
    name = body["groupname"]
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is not None:
        if body.get("externalName") or body.get("extension"):
            raise reserved(name)
        vc_set_rules(
            vc=vc, changes={"description": body.get("description", vc.description)}, now=now, actor=actor.username
        )  # fmt: skip
        return
    row = Group.objects.filter(name=name).first()
    if row is None:
        raise no_group(name)
    with transaction.atomic():
        before = _told(row)
        _set(row, body, actor, now)
        was, became = changes_of(before, _told(row))
        if became:
            audit_write(Audited.GROUP, actor=actor.username, target=name, now=now, before=was, after=became)


def _told(row: Group) -> dict[str, Any]:
    note = GroupNote.objects.filter(group=row).first() or GroupNote(group=row)
    return {"description": note.description, "external_name": note.external_name, "extension": note.extension}


def group_remove(*, name: str, actor: User, now: datetime) -> None:
    """End a group; its members lose what it gave them."""
    if VirtualCluster.objects.filter(name=name).exists():
        raise reserved(name)
    row = Group.objects.filter(name=name).first()
    if row is None:
        raise no_group(name)
    with transaction.atomic():
        before = _told(row)
        for membership in Membership.objects.filter(group=row).select_related("vc"):
            membership_end(vc=membership.vc, membership_id=membership.pk, now=now, actor=actor.username)
        row.delete()
        audit_write(Audited.GROUP, actor=actor.username, target=name, now=now, before=before)


def _set(row: Group, body: Mapping[str, Any], actor: User, now: datetime) -> None:
    note, _ = GroupNote.objects.get_or_create(group=row)
    note.description = body.get("description", note.description)
    note.external_name = body.get("externalName", note.external_name)
    if "extension" in body:
        extension = dict(body["extension"])
        acls = extension.pop("acls", None)
        note.extension = extension
        if acls is not None:
            _set_vcs(row, _vcs_of(acls), actor, now)
    note.save()


def _vcs_of(acls: object) -> list[str]:
    """The virtual clusters that the group shall give. Storages follow from them, and no group makes administrators."""
    if not isinstance(acls, Mapping):
        raise invalid("extension.acls: must be an object.")
    if acls.get("admin"):
        raise invalid("extension.acls.admin: no group makes administrators here; give each user the role.")
    vcs = acls.get("virtualClusters", [])
    if not isinstance(vcs, list) or not all(isinstance(vc, str) for vc in vcs):
        raise invalid("extension.acls.virtualClusters: must be a list of names.")
    return vcs


def _set_vcs(row: Group, names: list[str], actor: User, now: datetime) -> None:
    wanted = set(names)
    vcs = {vc.name: vc for vc in VirtualCluster.objects.filter(name__in=wanted)}
    if missing := sorted(wanted - vcs.keys()):
        raise no_vc(missing[0], 400)
    held = {one.vc.name: one for one in Membership.objects.filter(group=row).select_related("vc")}
    for name, membership in held.items():
        if name not in wanted:
            membership_end(vc=membership.vc, membership_id=membership.pk, now=now, actor=actor.username)
    for name in sorted(wanted - held.keys()):
        membership_set(vc=vcs[name], name=row.name, group=True, role=VcRole.MEMBER, now=now, actor=actor.username)
