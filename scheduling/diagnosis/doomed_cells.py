"""Doomed cells: quota that would have to sit on bad hardware if it were wanted now."""

from collections import Counter
from typing import NamedTuple

from scheduling.cells.allocator import Allocator
from scheduling.cells.node_bits import bits
from scheduling.model.description import NodeState


class Doomed(NamedTuple):
    """Of a virtual cluster's free cells of one type, `cells` of them cannot be had on good hardware."""

    vc: str
    chain: str
    cell_type: str
    cells: int


def doomed(allocator: Allocator) -> tuple[Doomed, ...]:
    """The doomed cells of every virtual cluster, by HiveD's rule.

    For each virtual cluster by itself: free quota cells of a type beyond those that could be cut out of what no
    quota is bound to and that have no bad leaf. So none is doomed while each virtual cluster alone could still be
    served, even if all together could not. Pinned cells are where they are: a bad one shows its own health.
    """
    found = (
        Doomed(vc, chain, cell_type, cells)
        for vc, chain in allocator.layout.quotas_of
        for cell_type, cells in doomed_in(allocator, vc, chain).items()
    )
    return tuple(sorted(found))


def doomed_in(allocator: Allocator, vc: str, chain: str) -> dict[str, int]:
    """The doomed cells of a virtual cluster in one chain by their type; types without any are left out."""
    layout = allocator.layout
    free: Counter[str] = Counter()
    for quota in (layout.quotas[number] for number in layout.quotas_of.get((vc, chain), ())):
        used = allocator.used[quota.first].bit_count()
        free[quota.cell_type] += quota.leaves - used if quota.loose else allocator.place[quota.number] is None
    good = {cell_type: _good(allocator, chain, cell_type) for cell_type in free}
    return {cell_type: count - good[cell_type] for cell_type, count in free.items() if count > good[cell_type]}


def _good(allocator: Allocator, chain: str, cell_type: str) -> int:
    """Cells of a type that no quota cell is bound to and that have no bad leaf."""
    layout, found = allocator.layout, 0
    good = {number: _sound(allocator, number) for number in bits(layout.nodes_of_chain.get(chain, 0))}
    for number, leaves in good.items():
        shape = layout.shapes[number]
        if cell_type in shape.names:
            size = shape.sizes[shape.names.index(cell_type)]
            block = (1 << size) - 1
            found += sum(leaves >> base & block == block for base in range(0, shape.width, size))
    for upper in layout.uppers:
        inside = [good.get(number, 0) == allocator.full[number] for number in bits(upper.nodes)]
        found += upper.cell_type == cell_type and bool(inside) and all(inside)
    return found


def _sound(allocator: Allocator, number: int) -> int:
    """Leaves of a node that no quota cell is bound to and that are in order. A cordoned or draining node is spared by
    choice, not by a fault."""
    node = allocator.layout.nodes[number]
    return 0 if node.state is NodeState.DOWN else allocator.healthy[number] & ~allocator.bound[number]
