"""Whether the quotas can be carved out of the physical cells.

HiveD (Zhao et al., OSDI '20) starts only when every virtual cell can be cut out of the physical ones from the top
down; that is exactly the condition under which its buddy allocation never fails. Here a type may have parents of
several types (nodes of two shapes over one SKU), so what is needed of a type is what the virtual clusters own of
it and what the needed cells above it are made of: need(t) = owned(t) + sum over its parents p of ratio(p) need(p).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from scheduling.sites import Site, Sites, Type, chain_of

if TYPE_CHECKING:
    from scheduling.cells import Cluster, Node


class Shortage(NamedTuple):
    """The quotas need more cells of one type in a chain than can be cut out of it."""

    chain: str
    cell_type: str
    needed: int
    available: int


def shortages(cluster: Cluster) -> tuple[Shortage, ...]:
    """The types that are too few, in order of chain and type; what is short only because its parent is, is left out.

    The cluster's description is sound (`contradictions`). A pinned cell that a virtual cluster owns, what lies in
    it and what it lies in count as gone for the quotas.
    """
    here = Sites(cluster)
    available = _Whole(here, [here.site(here.pinned[name]) for vc in cluster.virtual_clusters for name in vc.pinned])
    owned: dict[Type, int] = {}
    for vc in cluster.virtual_clusters:
        for line in vc.quota:
            chain = line.chain or next(iter(here.chains_with(line.cell_type)), "")
            owned[chain, line.cell_type] = owned.get((chain, line.cell_type), 0) + line.count
    return short_of(owned, available.count, here.parents())


def short_of(
    owned: Mapping[Type, int], available: Mapping[Type, int], parents: Mapping[Type, Mapping[Type, int]]
) -> tuple[Shortage, ...]:
    """The types of which more is needed than available; `parents` as of `Sites.parents`."""
    needs: dict[Type, int] = {}

    def need(one: Type) -> int:
        if one not in needs:
            above = sum(ratio * need(parent) for parent, ratio in parents.get(one, {}).items())
            needs[one] = owned.get(one, 0) + above
        return needs[one]

    short = {one for one in {*owned, *available} if need(one) > available.get(one, 0)}
    return tuple(
        Shortage(*one, needs[one], available.get(one, 0))
        for one in sorted(short)
        if not any(parent in short for parent in parents.get(one, {}))
    )


class _Whole:
    """How many cells of each type the taken sites leave whole (`count`)."""

    def __init__(self, here: Sites, taken: list[Site]) -> None:
        self.count: dict[Type, int] = {}
        touched: dict[str, list[Site]] = {}
        for site in taken:
            for node_id in site.nodes:
                touched.setdefault(node_id, []).append(site)
        for nodes in here.alike():
            self._add_nodes(here, nodes[0], sum(node.id not in touched for node in nodes))
            for node in nodes:
                if node.id in touched:
                    self._add_rest(here, node, touched[node.id])
        for address, cell in here.upper.items():
            whole = not any(one in touched for one in here.below(address))
            self._add((here.chain_at(address), cell.cell_type), whole)

    def _add(self, one: Type, count: int) -> None:
        self.count[one] = self.count.get(one, 0) + count

    def _add_nodes(self, here: Sites, node: Node, count: int) -> None:
        for name, size in here.levels(node).items():
            self._add((chain_of(node), name), count * (len(node.leaves) // size if size else 1))

    def _add_rest(self, here: Sites, node: Node, taken: list[Site]) -> None:
        for name, size in here.levels(node).items():
            cells = (Site(frozenset((node.id,)), first, size) for first in range(0, len(node.leaves), size or 1))
            self._add((chain_of(node), name), sum(not any(cell.overlaps(site) for site in taken) for cell in cells))
