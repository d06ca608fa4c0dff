"""Racks: nodes with one label become a cell if all are alike."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext

from portal.cluster import wordings
from portal.common.errors import Conflict
from portal.hardware.models import RACK, Node, UpperCell
from portal.hardware.services.cells import cell_type_for
from portal.hardware.services.nodes import node_event
from portal.hardware.topology import Level
from portal.teams.models import QuotaChangeLine, QuotaLine


def rack_address(label: str) -> str:
    """A rack cell's address."""
    return RACK + label


def rack_form(*, node: Node, now: datetime) -> None:
    """Rebuild the cell of the node's rack from all nodes with its label. A rack that a quota or a pinned cell needs
    stays as it is. Inside the caller's transaction."""
    if not node.rack:
        return
    nodes = list(Node.objects.filter(rack=node.rack, chain="", shape__isnull=False).select_related("shape"))
    cell = UpperCell.objects.filter(address=rack_address(node.rack)).select_related("cell_type").first()
    if cell is not None:
        if _needed(cell):
            message = wordings.RACK_KEPT(rack=node.rack, node=node.name)
            node_event(node=node, code="rack_kept", message=message, now=now)
            return
        cell.delete()
    shapes = {one.shape for one in nodes}
    shape = shapes.pop()
    if shapes or shape is None or len(nodes) < 2:
        return
    level = Level(f"{shape.sku.name}-rack{len(nodes)}", len(nodes), node_level=False)
    cell_type = cell_type_for(level=level, child=shape)
    cell = UpperCell.objects.create(address=rack_address(node.rack), cell_type=cell_type)
    Node.objects.filter(pk__in=[one.pk for one in nodes]).update(upper=cell)
    message = wordings.RACK(rack=node.rack, number=len(nodes), type=cell_type.name)
    node_event(node=node, code="rack", message=message, now=now)


def rack_leave(*, node: Node) -> None:
    """Dissolve the cell of the node's rack. Raises Conflict if quotas are made of it."""
    node.refresh_from_db(fields=["upper"])
    cell = node.upper
    if cell is None:
        return
    if _needed(cell):
        raise Conflict(
            gettext("Quotas are made of %(name)s: change them first, then take %(node)s anew.")
            % {"name": cell.cell_type.name, "node": node.name}
        )
    cell.delete()
    node.refresh_from_db(fields=["upper"])


def _needed(cell: UpperCell) -> bool:
    lines = QuotaLine.objects.filter(cell_type=cell.cell_type_id, count__gt=0)
    changes = QuotaChangeLine.objects.filter(cell_type=cell.cell_type_id, change__over_at__isnull=True)
    return cell.pinned_cells.exists() or lines.exists() or changes.exists()
