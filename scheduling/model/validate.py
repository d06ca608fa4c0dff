"""What makes a cluster's description unsound: contradictions, and quotas that cannot be carved out of its cells.

HiveD (Zhao et al., OSDI '20) starts only when every virtual cell can be cut out of the physical ones from the top
down; that is exactly the condition under which its buddy allocation never fails. Here a type may have parents of
several types (nodes of two shapes over one SKU), so what is needed of a type is what the virtual clusters own of
it and what the needed cells above it are made of: need(t) = owned(t) + sum over its parents p of ratio(p) need(p).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduling.model.cell_tree import CellExtent, CellTree, Type, chain_of
from scheduling.model.description import Description, Node, PinnedCell, UpperCell, VirtualCluster

Problem = tuple[str, str]
"""The id that a contradiction is about, and what is wrong."""


def contradictions(cluster: Description) -> Iterator[Problem]:
    """All of them, most basic first: of ids, types, nodes, upper cells, quota lines, pinned cells.

    Later ones are looked for only where what they rest on is sound.
    """
    doubles = list(_double_ids(cluster))
    yield from doubles
    if doubles:
        return
    here = CellTree(cluster)
    basic = [*_bad_types(here), *(problem for node in cluster.nodes for problem in _bad_node(here, node))]
    yield from basic
    if not basic:
        upper = list(_bad_upper_cells(here))
        yield from upper
        for vc in cluster.virtual_clusters:
            yield from _bad_quota(here, vc)
        if not upper:
            yield from _bad_pinned_cells(here, cluster)


def _double_ids(cluster: Description) -> Iterator[Problem]:
    yield from _doubles((one.id for one in cluster.nodes), "two nodes have this id")
    yield from _doubles((one.id for one in cluster.virtual_clusters), "two virtual clusters have this id")
    yield from _doubles((leaf.id for node in cluster.nodes for leaf in node.leaves), "two leaf cells have this id")
    yield from _doubles((one.name for one in cluster.cell_types), "two cell types have this name")
    yield from _doubles((one.id for one in cluster.pinned_cells), "two pinned cells have this id")
    addresses = [*(one.address for one in cluster.upper_cells), *(one.id for one in cluster.nodes)]
    yield from _doubles(addresses, "two cells have this address")


def _doubles(ids: Iterable[str], problem: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            yield one, problem
        seen.add(one)


def _bad_types(here: CellTree) -> Iterator[Problem]:
    for one in here.types.values():
        if one.child_count < 1:
            yield one.name, f"a cell of this type has {one.child_count} children"
        seen, name = {one.name}, one.child
        while name in here.types and name not in seen:
            seen.add(name)
            name = here.types[name].child
        if name in seen:
            yield one.name, f"is made of itself, by way of {name}"


def _bad_node(here: CellTree, node: Node) -> Iterator[Problem]:
    if any(leaf.node != node.id for leaf in node.leaves):
        yield node.id, "has a leaf cell that names another node"
    if len({leaf.cell_type for leaf in node.leaves}) > 1:
        yield node.id, "has leaf cells of several types"
    if len({leaf.index for leaf in node.leaves}) < len(node.leaves):
        yield node.id, "has two leaf cells with one index"
    if node.shape in here.types and node.leaves:
        name, size, steps = node.shape, 1, 0
        while name in here.types and steps <= len(here.types):
            size, name, steps = size * here.types[name].child_count, here.types[name].child, steps + 1
        if (size, name) != (len(node.leaves), node.cell_type):
            there = f"has {len(node.leaves)} leaf cells of type {node.cell_type}"
            yield node.id, f"{there}; a {node.shape} has {size} of type {name}"


def _bad_upper_cells(here: CellTree) -> Iterator[Problem]:
    for cell in here.upper.values():
        yield from _bad_upper_cell(here, cell)
    parents = Counter(child for cell in here.upper.values() for child in cell.children)
    for child, count in parents.items():
        if count > 1:
            yield child, f"lies in {count} cells"


def _bad_upper_cell(here: CellTree, cell: UpperCell) -> Iterator[Problem]:
    kind = here.types.get(cell.cell_type)
    if kind is None:
        yield cell.address, f"its cell type {cell.cell_type} is not described"
        return
    types = {_type_at(here, child) for child in cell.children}
    if types != {kind.child} or len(cell.children) != kind.child_count:
        yield cell.address, f"a {cell.cell_type} has {kind.child_count} children of type {kind.child}"
    elif len({chain_of(here.nodes[one]) for one in here.below(cell.address)}) != 1:
        yield cell.address, "the nodes below it are not of one chain"


def _type_at(here: CellTree, address: str) -> str:
    if address in here.nodes:
        return here.nodes[address].shape
    return here.upper[address].cell_type if address in here.upper else ""


def _bad_quota(here: CellTree, vc: VirtualCluster) -> Iterator[Problem]:
    lines = [f"{line.chain}:{line.cell_type}" if line.chain else line.cell_type for line in vc.quota]
    for name, _ in _doubles(lines, ""):
        yield name, f"two quota lines of {vc.id} name this type"
    for line in vc.quota:
        if line.count < 0 or "/" in line.cell_type:
            yield vc.id, "a quota line has a negative count or a slash in its cell type"
        elif not line.chain and len(chains := here.chains_with(line.cell_type)) > 1:
            yield vc.id, f"has a quota of {line.cell_type} without a chain; {' and '.join(chains)} have such cells"


def _bad_pinned_cells(here: CellTree, cluster: Description) -> Iterator[Problem]:
    bad = [problem for pinned in here.pinned.values() for problem in _bad_pinned_cell(here, pinned)]
    yield from bad
    owner: dict[str, str] = {}
    for vc in cluster.virtual_clusters:
        for name in vc.pinned:
            if name not in here.pinned:
                yield vc.id, f"lists the pinned cell {name}, which is not there"
            elif name in owner:
                yield vc.id, f"lists the pinned cell {name}, which belongs to {owner[name]}"
            else:
                owner[name] = vc.id
    if not bad:
        yield from _overlaps(here, sorted(owner))


def _overlaps(here: CellTree, names: list[str]) -> Iterator[Problem]:
    sites = {name: here.site(here.pinned[name]) for name in names}
    for number, name in enumerate(names):
        for other in names[number + 1 :]:
            if sites[name].overlaps(sites[other]):
                yield name, f"has leaf cells in common with the pinned cell {other}"


def _bad_pinned_cell(here: CellTree, pinned: PinnedCell) -> Iterator[Problem]:
    node, upper = here.nodes.get(pinned.at), here.upper.get(pinned.at)
    if node is None and upper is None:
        yield pinned.id, f"lies at {pinned.at}, which is neither a node nor a cell"
    elif upper is not None and upper.cell_type != pinned.cell_type:
        yield pinned.id, f"is of type {pinned.cell_type}; {upper.address} is of type {upper.cell_type}"
    elif node is not None:
        size = here.levels(node).get(pinned.cell_type)
        if size is None:
            yield pinned.id, f"the node {node.id} has no cell of type {pinned.cell_type}"
        elif pinned.first % size or not 0 <= pinned.first < len(node.leaves):
            yield pinned.id, f"no {pinned.cell_type} of {node.id} begins at leaf {pinned.first}"


class Shortage(NamedTuple):
    """The quotas need more cells of one type in a chain than can be cut out of it."""

    chain: str
    cell_type: str
    needed: int
    available: int


def shortages(cluster: Description) -> tuple[Shortage, ...]:
    """The types that are too few, in order of chain and type; what is short only because its parent is, is left out.

    The cluster's description is sound (`contradictions`). A pinned cell that a virtual cluster owns, what lies in
    it and what it lies in count as gone for the quotas.
    """
    here = CellTree(cluster)
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
    """The types of which more is needed than available; `parents` as of `CellTree.parents`."""
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

    def __init__(self, here: CellTree, taken: list[CellExtent]) -> None:
        self.count: dict[Type, int] = {}
        touched: dict[str, list[CellExtent]] = {}
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

    def _add_nodes(self, here: CellTree, node: Node, count: int) -> None:
        for name, size in here.levels(node).items():
            self._add((chain_of(node), name), count * (len(node.leaves) // size if size else 1))

    def _add_rest(self, here: CellTree, node: Node, taken: list[CellExtent]) -> None:
        for name, size in here.levels(node).items():
            cells = (CellExtent(frozenset((node.id,)), first, size) for first in range(0, len(node.leaves), size or 1))
            self._add((chain_of(node), name), sum(not any(cell.overlaps(site) for site in taken) for cell in cells))
