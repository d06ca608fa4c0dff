"""Where the cells of a cluster lie: the levels of a node, what is below a cell, which chains have a type."""

from itertools import pairwise
from typing import NamedTuple

from scheduling.model.description import CellType, Description, Node, PinnedCell

Type = tuple[str, str]
"""A chain, and the name of a cell type in it."""


class CellExtent(NamedTuple):
    """The place of a cell: the nodes it covers; of a cell in one node its `size` leaves from position `first`."""

    nodes: frozenset[str]
    first: int
    size: int

    def overlaps(self, other: "CellExtent") -> bool:
        """Whether the two have a leaf in common."""
        if not self.nodes & other.nodes:
            return False
        if len(self.nodes) > 1 or len(other.nodes) > 1:
            return True
        return self.first < other.first + other.size and other.first < self.first + self.size


class CellTree:
    """The cells of a cluster by id. It is read from a description whose ids are unique, sound or not."""

    def __init__(self, cluster: Description) -> None:
        self.types: dict[str, CellType] = {one.name: one for one in cluster.cell_types}
        self.nodes: dict[str, Node] = {one.id: one for one in cluster.nodes}
        self.upper = {one.address: one for one in cluster.upper_cells}
        self.pinned: dict[str, PinnedCell] = {one.id: one for one in cluster.pinned_cells}
        self._kinds: dict[tuple[str, str, str, int], list[Node]] = {}
        for node in cluster.nodes:
            kind = (chain_of(node), node.shape, node.cell_type, len(node.leaves))
            self._kinds.setdefault(kind, []).append(node)

    def alike(self) -> list[list[Node]]:
        """The nodes, those of one chain and make together."""
        return list(self._kinds.values())

    def levels(self, node: Node) -> dict[str, int]:
        """The cell types of a node, its own first and its leaves' last, each with the leaves of such a cell."""
        found: dict[str, int] = {}
        name, size = node.shape, len(node.leaves)
        while name in self.types and name not in found and self.types[name].child_count > 0:
            found[name] = size
            size //= self.types[name].child_count
            name = self.types[name].child
        if node.shape and not found:
            found[node.shape] = len(node.leaves)
        if node.leaves:
            found[node.cell_type] = 1
        return found

    def parents(self) -> dict[Type, dict[Type, int]]:
        """The types that cells of each type lie in directly, with how many of them such a cell has."""
        found: dict[Type, dict[Type, int]] = {}
        for nodes in self.alike():
            chain, levels = chain_of(nodes[0]), self.levels(nodes[0])
            for (above, size), (name, part) in pairwise(levels.items()):
                found.setdefault((chain, name), {})[chain, above] = size // part
        for address, cell in self.upper.items():
            chain, kind = self.chain_at(address), self.types[cell.cell_type]
            found.setdefault((chain, kind.child), {})[chain, cell.cell_type] = kind.child_count
        return found

    def below(self, address: str) -> frozenset[str]:
        """Ids of the nodes under an upper cell; a node is under itself."""
        found: set[str] = set()
        look, seen = [address], set()
        while look:
            one = look.pop()
            if one in self.nodes:
                found.add(one)
            elif one in self.upper and one not in seen:
                seen.add(one)
                look.extend(self.upper[one].children)
        return frozenset(found)

    def site(self, pinned: PinnedCell) -> CellExtent:
        """The place of a pinned cell."""
        nodes = self.below(pinned.at)
        if len(nodes) != 1:
            return CellExtent(nodes, 0, 0)
        node = self.nodes[min(nodes)]
        whole = pinned.at in self.upper
        return CellExtent(
            nodes, pinned.first, len(node.leaves) if whole else self.levels(node).get(pinned.cell_type, 0)
        )

    def chain_at(self, address: str) -> str:
        """The chain of the nodes under a cell."""
        return chain_of(self.nodes[min(self.below(address))])

    def chains_with(self, cell_type: str) -> list[str]:
        """The chains that have cells of this type, in order."""
        found = {chain_of(nodes[0]) for nodes in self.alike() if cell_type in self.levels(nodes[0])}
        upper = (address for address, cell in self.upper.items() if cell.cell_type == cell_type and self.below(address))
        return sorted(found | {self.chain_at(address) for address in upper})


def chain_of(node: Node) -> str:
    """The chain that a node belongs to."""
    return node.chain or node.cell_type
