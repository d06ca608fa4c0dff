"""Cell types as rows: found by their structure, created if missing."""

from __future__ import annotations

from portal.hardware.models import CellType, Sku
from portal.hardware.topology import Level


def leaf_of(cell_type: CellType) -> CellType:
    """The leaf type that a cell of this type consists of."""
    while cell_type.child is not None:
        cell_type = cell_type.child
    return cell_type


def leaf_type(*, sku: Sku) -> CellType:
    """The cell type of one GPU of this SKU."""
    return CellType.objects.get_or_create(name=sku.name, defaults={"sku": sku})[0]


def cell_type_for(*, level: Level, child: CellType) -> CellType:
    """The type with this structure; created if missing, under the next free name."""
    known = CellType.objects.filter(
        child=child, child_count=level.child_count, is_node_level=level.node_level
    ).order_by("pk")
    if (found := known.first()) is not None:
        return found
    taken = set(CellType.objects.filter(name__startswith=level.name).values_list("name", flat=True))
    names = (level.name if number == 1 else f"{level.name}-{number}" for number in range(1, len(taken) + 2))
    return CellType.objects.create(
        name=next(name for name in names if name not in taken), sku=child.sku, child=child,
        child_count=level.child_count, is_node_level=level.node_level, derived=True,
    )  # fmt: skip


def cell_types_clean() -> None:
    """Remove derived types that nothing uses and no quota names."""
    unused = {
        f"{name}__isnull": True
        for name in ("parents", "nodes", "gpus", "upper_cells", "pinned_cells", "quota", "quota_changes")
    }
    while CellType.objects.filter(derived=True, **unused).delete()[0]:
        pass
