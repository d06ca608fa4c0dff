"""Doomed cells: quota that would have to sit on bad hardware if it were wanted now."""

from collections import Counter
from typing import NamedTuple

from scheduling.cells.allocator import Allocator
from scheduling.cells.binding import SICK, Bindings, Grid
from scheduling.cells.node_bits import bits
from scheduling.model.snapshot import Snapshot


class Doomed(NamedTuple):
    """Of a virtual cluster's free cells of one type, `cells` of them cannot be had on good hardware."""

    vc: str
    chain: str
    cell_type: str
    cells: int


def doomed(snapshot: Snapshot) -> tuple[Doomed, ...]:
    """The doomed cells of every virtual cluster, by HiveD's rule.

    For each virtual cluster by itself: free quota cells of a type beyond those that could be cut out of what no
    quota is bound to and that have no bad leaf. So none is doomed while each single team could still be served,
    even if all together could not. Pinned cells are where they are: a bad one shows its own health.
    """
    return doomed_among(Bindings.of(snapshot, Grid(snapshot.cluster)))


def doomed_among(bindings: Bindings) -> tuple[Doomed, ...]:
    """The doomed cells where these bindings hold."""
    bad = bindings.grid.bad
    good = {kind: sum(bad.isdisjoint(one) for one in cells) for kind, cells in bindings.whole().items()}
    found = []
    for vc in bindings.grid.quota:
        free = Counter((cell.chain, cell.cell_type) for cell in bindings.free(vc))
        short = ((kind, count - good.get(kind, 0)) for kind, count in free.items())
        found += [Doomed(vc, *kind, count) for kind, count in short if count > 0]
    return tuple(sorted(found))


def doomed_in(allocator: Allocator, vc: str, chain: str) -> dict[str, int]:
    """The doomed cells of a virtual cluster in one chain by their type, by the allocator; types without any are
    left out."""
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
    """Leaves of a node that nobody's quota is bound to and that are in order."""
    node = allocator.layout.nodes[number]
    return 0 if node.state in SICK else allocator.healthy[number] & ~allocator.bound[number]
