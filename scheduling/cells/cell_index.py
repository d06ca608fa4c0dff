"""What of a cluster does not change while jobs come and go: nodes, cells and virtual cells by number."""

from dataclasses import dataclass, field
from typing import NamedTuple

from scheduling.cells.node_bits import Sizes, bits
from scheduling.model.cluster import Cluster
from scheduling.model.description import CellType, Node, NodeState, VirtualCluster

LeafAt = tuple[int, int]
"""A physical leaf: the number of its node, and its bit there. A virtual leaf: the number of its cell node, its bit."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node is made of: block sizes in leaves and the names of the cell types, from a leaf up.

    `width` is the number of leaves, `full` has them all; none for a node without GPUs, which has a shape all the same.
    """

    sizes: Sizes
    names: tuple[str, ...]
    width: int = field(init=False, compare=False)
    full: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        width = self.sizes[-1]
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "full", (1 << width) - 1 if self.names[0] else 0)


@dataclass(slots=True)
class Upper:
    """A cell above the nodes: its type, its parent (a number, or None), all nodes in it (a mask)."""

    address: str
    cell_type: str
    parent: int | None
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota cell of a virtual cluster (HiveD: a preassigned cell), made of cell nodes from `first` on.

    A cell node is the part of it that lies on one node. `loose`: all single leaves of a line together, which
    are tied to no place. `upper`: it lies above the nodes, were it made of one node alone. `pinned_at`: the physical
    cell it is bound to for ever.
    """

    number: int
    vc: str
    chain: str
    cell_type: str
    address: str
    shape: NodeShape
    first: int
    count: int
    leaves: int
    loose: bool = False
    pinned_at: "PhysicalCell | None" = None
    pinned: str = ""
    upper: bool = False


class PhysicalCell(NamedTuple):
    """A physical cell: an upper one (its number, node -1), or the block of a node that begins at `base`."""

    node: int
    base: int
    upper: int = -1


class CellIndex:
    """Nodes are numbered in the order of their ids, uppers and quota cells in the order of the description."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.policy = cluster.policy
        self.types = {one.name: one for one in cluster.cell_types}
        for node in cluster.nodes:
            if node.shape and node.shape not in self.types:
                self.types[node.shape] = CellType(node.shape, node.cell_type, len(node.leaves), node_level=True)
        self.nodes: list[Node] = sorted(cluster.nodes, key=lambda node: node.id)
        self._shape_of: dict[str, NodeShape] = {}
        self._types_of: dict[str, set[str]] = {}
        self.position = {node.id: number for number, node in enumerate(self.nodes)}
        self.shapes: list[NodeShape] = []
        self.chains: list[str] = []
        self.leaf_ids: list[list[str]] = []
        self.leaf_at: dict[str, LeafAt] = {}
        self.leaf_type: dict[str, str] = {}
        self.nodes_of_chain: dict[str, int] = {}
        self.nodes_of_type: dict[str, int] = {}
        self.nodes_of_sku: dict[str, int] = {}
        self.shares: list[tuple[int, int]] = []
        self.reserves: list[tuple[int, int]] = []
        self.healthy: list[int] = []
        self.open_nodes = 0
        self.cpu_nodes = 0
        for number, node in enumerate(self.nodes):
            self._add_node(number, node)
        kept = [reserve for reserve, ids in zip(self.reserves, self.leaf_ids, strict=True) if ids] or [(0, 0)]
        self.least_reserve = min(cpu for cpu, _ in kept), min(memory for _, memory in kept)
        self.uppers: list[Upper] = []
        self.upper_at: dict[str, int] = {}
        self.above: list[tuple[int, ...]] = [()] * len(self.nodes)
        self._add_uppers()
        self.virtual_clusters = {vc.id: vc for vc in cluster.virtual_clusters}
        self.quotas: list[Quota] = []
        self.cell_quota: list[int] = []
        self.cell_pool: list[str] = []
        self.loose_cells = 0
        self.loose_owners: set[tuple[str, str]] = set()
        self._chains_of: dict[str, list[str]] = {}
        self.virtual_at: dict[str, LeafAt] = {}
        self.virtual_addresses: list[list[str]] = []
        self.quotas_of: dict[tuple[str, str], list[int]] = {}
        self.placed_quotas: dict[str, list[Quota]] = {}
        self.pins: dict[tuple[str, str], list[int]] = {}
        self.owned: dict[tuple[str, str], int] = {}
        for vc in sorted(cluster.virtual_clusters, key=lambda one: one.id):
            self._add_share(vc)

    def mask_of(self, node_ids: frozenset[str]) -> int:
        """These nodes as a bit mask; unknown ids are left out."""
        return sum(1 << self.position[one] for one in node_ids if one in self.position)

    def all_nodes(self) -> int:
        """Every node as a bit mask."""
        return (1 << len(self.nodes)) - 1

    def leaf_types(self) -> list[str]:
        """Leaf cell types of the cluster, in the order of their names."""
        return sorted(name for name in self.nodes_of_type if name)

    def chains_of(self, leaf_type: str) -> list[str]:
        """Chains whose leaves are of this type; the last name first, as HiveD's own tests order them."""
        if leaf_type not in self._chains_of:
            found = (one for one, kind in self.leaf_type.items() if kind == leaf_type)
            self._chains_of[leaf_type] = sorted(found, reverse=True)
        return self._chains_of[leaf_type]

    def owned_gpus(self, vc: str, leaf_type: str) -> int:
        """Leaves of this type in the quota of the virtual cluster, over all chains."""
        return sum(self.owned.get((vc, chain), 0) for chain in self.chains_of(leaf_type))

    def team(self, vc: str) -> VirtualCluster:
        """The virtual cluster; one with nothing where only jobs are left of it."""
        return self.virtual_clusters.get(vc) or VirtualCluster(vc)

    def chain_of_pin(self, vc: str, pin: str) -> str:
        """The chain of a pinned cell of the virtual cluster; empty when it has none of this name."""
        return next((self.quotas[one].chain for one in self.pins.get((vc, pin), ())), "")

    def virtual_leaf(self, address: str) -> LeafAt | None:
        """The cell node and the bit of a virtual leaf; None when there is no such cell (any more)."""
        return self.virtual_at.get(address)

    def virtual_address(self, cell: int, bit: int) -> str:
        """The address of a virtual leaf."""
        return self.virtual_addresses[cell][bit]

    # Nodes and the cells above them

    def _add_node(self, number: int, node: Node) -> None:
        leaves = node.leaves
        shape = self._shape(node)
        chain = node.chain or node.cell_type
        self.shapes.append(shape)
        self.chains.append(chain)
        self.leaf_ids.append([leaf.id for leaf in leaves])
        self.leaf_at.update((leaf.id, (number, bit)) for bit, leaf in enumerate(leaves))
        self.leaf_type[chain] = node.cell_type
        self.nodes_of_chain[chain] = self.nodes_of_chain.get(chain, 0) | 1 << number
        self.nodes_of_type[node.cell_type] = self.nodes_of_type.get(node.cell_type, 0) | 1 << number
        self.nodes_of_sku[node.sku] = self.nodes_of_sku.get(node.sku, 0) | 1 << number
        share = node.cpu_milli // max(1, len(leaves)), node.memory_mb // max(1, len(leaves))
        cpu, memory = node.reserve_cpu_milli, node.reserve_memory_mb
        self.shares.append(share)
        self.reserves.append((share[0] if cpu is None else cpu, share[1] if memory is None else memory))
        self.healthy.append(sum(1 << bit for bit, leaf in enumerate(leaves) if leaf.healthy))
        if node.state == NodeState.OPEN:
            self.open_nodes |= 1 << number
        if node.takes_cpu_tasks:
            self.cpu_nodes |= 1 << number

    def _shape(self, node: Node) -> NodeShape:
        if node.shape:
            shape = self.shape_of(node.shape)
            if shape.width == len(node.leaves):
                return shape
        width = max(1, len(node.leaves))
        return NodeShape((1, width) if width > 1 else (1,), (node.cell_type, "") if width > 1 else (node.cell_type,))

    def shape_of(self, cell_type: str) -> NodeShape:
        """The levels of a cell of this type, from a leaf up."""
        if cell_type in self._shape_of:
            return self._shape_of[cell_type]
        names = [cell_type]
        counts = []
        while (kind := self.types.get(names[-1])) is not None:
            counts.append(kind.child_count)
            names.append(kind.child)
        sizes = [1]
        for count in reversed(counts):
            sizes.append(sizes[-1] * count)
        shape = self._shape_of[cell_type] = NodeShape(tuple(sizes), tuple(reversed(names)))
        return shape

    def _add_uppers(self) -> None:
        for upper in self.cluster.upper_cells:
            self.upper_at[upper.address] = len(self.uppers)
            self.uppers.append(Upper(upper.address, upper.cell_type, None))
        lowest: dict[int, int] = {}
        for upper in self.cluster.upper_cells:
            own = self.upper_at[upper.address]
            for child in upper.children:
                if child in self.upper_at:
                    self.uppers[self.upper_at[child]].parent = own
                elif child in self.position:
                    lowest[self.position[child]] = own
        for number, upper_number in lowest.items():
            path = []
            at: int | None = upper_number
            while at is not None:
                path.append(at)
                self.uppers[at].nodes |= 1 << number
                at = self.uppers[at].parent
            self.above[number] = tuple(path)

    # Virtual cells

    def _add_share(self, vc: VirtualCluster) -> None:
        for line in vc.quota:
            chain = line.chain or self.chain_with(line.cell_type)
            self._add_line(vc.id, chain, line.cell_type, line.count)
        pinned = {one.id: one for one in self.cluster.pinned_cells}
        for name in vc.pinned:
            cell = pinned[name]
            spot, chain = self.spot_of(cell.at, cell.first)
            address = f"{vc.id}/pinned:{name}/0"
            self._add_quota(vc.id, chain, cell.cell_type, address, spot, name)
            self.pins.setdefault((vc.id, name), []).append(len(self.quotas) - 1)

    def spot_of(self, at: str, first: int) -> tuple[PhysicalCell, str]:
        """The physical cell that a pinned cell names, and its chain."""
        if at in self.upper_at:
            upper = self.upper_at[at]
            node = next(bits(self.uppers[upper].nodes))
            return PhysicalCell(-1, 0, upper), self.chains[node]
        node = self.position[at]
        return PhysicalCell(node, first), self.chains[node]

    def chain_with(self, cell_type: str) -> str:
        """The first chain, by name, that has cells of this type; the type's own name when none has."""
        return next((chain for chain in sorted(self.leaf_type) if cell_type in self.types_of(chain)), cell_type)

    def types_of(self, chain: str) -> set[str]:
        """Names of the cell types in a chain."""
        if chain not in self._types_of:
            numbers = list(bits(self.nodes_of_chain.get(chain, 0)))
            names = {name for shape in {self.shapes[one] for one in numbers} for name in shape.names if name}
            uppers = {upper for one in numbers for upper in self.above[one]}
            self._types_of[chain] = names | {self.uppers[upper].cell_type for upper in uppers}
        return self._types_of[chain]

    def _add_line(self, vc: str, chain: str, cell_type: str, count: int) -> None:
        name = cell_type if self.chain_with(cell_type) == chain else f"{chain}:{cell_type}"
        if cell_type not in self.types:
            self._add_loose(vc, chain, cell_type, f"{vc}/{name}", count)
            return
        for number in range(count):
            self._add_quota(vc, chain, cell_type, f"{vc}/{name}/{number}", None)

    def _add_loose(self, vc: str, chain: str, cell_type: str, address: str, count: int) -> None:
        if not count:
            return
        number = len(self.quotas)
        shape = NodeShape((1, count) if count > 1 else (1,), (cell_type, ""))
        self._enter(Quota(number, vc, chain, cell_type, address, shape, len(self.cell_quota), 1, count, loose=True))

    def _add_quota(
        self, vc: str, chain: str, cell_type: str, address: str, pinned_at: PhysicalCell | None, pinned: str = ""
    ) -> None:
        shape, cells = self._parts(cell_type)
        kind = self.types.get(cell_type)
        self._enter(
            Quota(
                len(self.quotas), vc, chain, cell_type, address, shape, len(self.cell_quota), cells,
                cells * shape.width, pinned_at=pinned_at, pinned=pinned,
                upper=kind is not None and self._above_nodes(kind),
            )
        )  # fmt: skip

    def _enter(self, quota: Quota) -> None:
        self.quotas.append(quota)
        width = quota.shape.width
        for cell in range(quota.first, quota.first + quota.count):
            first = (cell - quota.first) * width
            addresses = [f"{quota.address}/{number}" for number in range(first, first + width)]
            self.virtual_addresses.append(addresses)
            self.virtual_at.update([(address, (cell, bit)) for bit, address in enumerate(addresses)])
        self.cell_quota.extend([quota.number] * quota.count)
        self.cell_pool.extend([quota.pinned or quota.chain] * quota.count)
        key = (quota.vc, quota.chain)
        if quota.loose:
            self.loose_cells |= 1 << quota.first
            self.loose_owners.add(key)
        if not quota.pinned:
            self.quotas_of.setdefault(key, []).append(quota.number)
            if not quota.loose:
                self.placed_quotas.setdefault(quota.vc, []).append(quota)
        self.owned[key] = self.owned.get(key, 0) + quota.leaves

    def _parts(self, cell_type: str) -> tuple[NodeShape, int]:
        """The shape of the nodes that a cell of this type is made of (or its own), and how many there are."""
        cells = 1
        kind = self.types.get(cell_type)
        while kind is not None and not kind.node_level and self._above_nodes(kind):
            cells *= kind.child_count
            cell_type = kind.child
            kind = self.types.get(cell_type)
        return self.shape_of(cell_type), cells

    def _above_nodes(self, kind: CellType) -> bool:
        """Whether the node level is below this type."""
        child = self.types.get(kind.child)
        while child is not None:
            if child.node_level:
                return True
            child = self.types.get(child.child)
        return False
