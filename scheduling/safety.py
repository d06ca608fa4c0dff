"""Whether the quotas can be carved out of the physical cells.

HiveD (Zhao et al., OSDI '20) starts only when every virtual cell can be cut out of the physical ones from the top
down; that is exactly the condition under which its buddy allocation never fails. Here a type may have parents of
several types (nodes of two shapes over one SKU), so what is needed of a type is what the virtual clusters own of
it and what the needed cells above it are made of: need(t) = owned(t) + sum over its parents p of ratio(p) need(p).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduling.sites import Site, Sites, chain_of

if TYPE_CHECKING:
    from scheduling.cells import Cluster, Node

Type = tuple[str, str]
"""A chain and a cell type in it."""


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
    count = _Count(here, [here.site(here.pinned[name]) for vc in cluster.virtual_clusters for name in vc.pinned])
    owned: dict[Type, int] = {}
    for vc in cluster.virtual_clusters:
        for line in vc.quota:
            chain = line.chain or next(iter(here.chains_with(line.cell_type)), "")
            owned[chain, line.cell_type] = owned.get((chain, line.cell_type), 0) + line.count
    short = {}
    for one in {*owned, *count.available}:
        need = count.need(one, owned)
        if need > count.available.get(one, 0):
            short[one] = need
    return tuple(
        Shortage(*one, short[one], count.available.get(one, 0))
        for one in sorted(short)
        if not any(parent in short for parent in count.parents.get(one, {}))
    )


class _Count:
    """The cells of each type that pinned cells leave whole, and each type's parents with their children's number."""

    def __init__(self, here: Sites, taken: list[Site]) -> None:
        self.available: dict[Type, int] = {}
        self.parents: dict[Type, dict[Type, int]] = {}
        self._needs: dict[Type, int] = {}
        touched: dict[str, list[Site]] = {}
        for site in taken:
            for node_id in site.nodes:
                touched.setdefault(node_id, []).append(site)
        for nodes in here.alike():
            whole = sum(node.id not in touched for node in nodes)
            self._add_nodes(here, nodes[0], whole)
            for node in nodes:
                if node.id in touched:
                    self._add_rest(here, node, touched[node.id])
        for address, cell in here.upper.items():
            chain = here.chain_at(address)
            self._add((chain, cell.cell_type), not any(one in touched for one in here.below(address)))
            kind = here.types[cell.cell_type]
            self.parents.setdefault((chain, kind.child), {})[chain, cell.cell_type] = kind.child_count

    def need(self, one: Type, owned: dict[Type, int]) -> int:
        """Cells of a type that are needed, its own and those within what is needed above it."""
        if one not in self._needs:
            above = sum(ratio * self.need(parent, owned) for parent, ratio in self.parents.get(one, {}).items())
            self._needs[one] = owned.get(one, 0) + above
        return self._needs[one]

    def _add(self, one: Type, count: int) -> None:
        self.available[one] = self.available.get(one, 0) + count

    def _add_nodes(self, here: Sites, node: Node, count: int) -> None:
        levels = here.levels(node)
        chain, parent = chain_of(node), ""
        for name, size in levels.items():
            self._add((chain, name), count * (len(node.leaves) // size if size else 1))
            if parent:
                self.parents.setdefault((chain, name), {})[chain, parent] = levels[parent] // size
            parent = name

    def _add_rest(self, here: Sites, node: Node, taken: list[Site]) -> None:
        for name, size in here.levels(node).items():
            cells = (Site(frozenset((node.id,)), first, size) for first in range(0, len(node.leaves), size or 1))
            self._add((chain_of(node), name), sum(not any(cell.overlaps(site) for site in taken) for cell in cells))
