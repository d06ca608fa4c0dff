"""Removal of a node."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.cluster import wordings
from portal.cluster.services.racks import rack_form, rack_leave
from portal.common.errors import Conflict
from portal.common.live import announce
from portal.hardware.models import Gpu, Node
from portal.hardware.services.cells import cell_types_clean
from portal.hardware.services.nodes import node_event
from portal.hardware.services.redis_accounts import redis_accounts_soon
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.quota_checks import shortages_now


def node_retire(*, node: Node, now: datetime, actor: str) -> list[str]:
    """Remove a node on which nothing runs: its key opens nothing, its cells are gone, its row stays for the jobs that
    ran on it, and its name is free. Returns sentences on quotas that can no longer be covered. Raises Conflict if cells
    of a configuration, pinned cells or a quota of racks need it."""
    with cluster_change():
        if names := sorted(node.pinned_cells.values_list("name", flat=True)):
            raise Conflict(
                gettext("Cells of %(node)s are reserved (%(names)s); import a configuration without.")
                % {"node": node.name, "names": ", ".join(names)}
            )
        if node.chain and node.upper_id is not None:
            raise Conflict(
                gettext("%(node)s is part of a cell of a configuration; import one that does not name it.")
                % {"node": node.name}
            )
        before, told = shortages_now(), _told(node)
        rack_leave(node=node)
        Gpu.objects.filter(node=node).update(present=False, slot=None, fault="")
        Node.objects.filter(pk=node.pk).update(
            shape=None, slots=[], rack="", upper=None, chain="", storages=[], removed_at=now
        )
        node_event(node=node, code="removed", message=wordings.REMOVED(node=node.name), now=now, actor=actor)
        transaction.on_commit(lambda: announce("queue", {}))
        redis_accounts_soon()
        for other in Node.objects.filter(rack=node.rack, chain="", shape__isnull=False)[:1] if node.rack else ():
            rack_form(node=other, now=now)
        cell_types_clean()
        audit_write(Audited.NODE_REMOVE, actor=actor, target=node.name, now=now, before=told)
        return [one for one in shortages_now() if one not in before]


def _told(node: Node) -> dict[str, object]:
    """The node as logged in the audit log."""
    return {
        "public_key": node.public_key,
        "sku": node.sku.name if node.sku else None,
        "gpus": Gpu.objects.filter(node=node, present=True).count(),
        "shape": node.shape.name if node.shape else None,
    }
