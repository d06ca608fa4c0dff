"""Who holds what, in integers: bit masks of GPUs per node, of virtual cells per quota, of nodes per hole size.

A ledger is changed by `hold` and `release`; what-ifs work on a `copy`.
"""

from collections.abc import Iterator
from itertools import islice

from scheduling.cells import Cluster, Node, NodeState, virtual_cell
from scheduling.jobs import LeafUse, TaskPlacement
from scheduling.resources import Room


class PlacementConflict(RuntimeError):
    """A placement asks for what is taken: `cell` is a leaf's id, a virtual cell, or a task that has its place."""

    def __init__(self, cell: str) -> None:
        super().__init__(f"{cell} is taken")
        self.cell = cell


def bits(mask: int) -> Iterator[int]:
    """Positions of the bits that are set, from the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Layout:
    """What of a cluster does not change while jobs come and go; nodes are numbered in the order of their ids."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: list[Node] = sorted(cluster.nodes, key=lambda node: node.id)
        self.position = {node.id: number for number, node in enumerate(self.nodes)}
        self.leaf_ids: list[list[str]] = []
        self.leaf_at: dict[str, tuple[int, int]] = {}
        self.nodes_of_type: dict[str, int] = {}
        self.nodes_of_sku: dict[str, int] = {}
        self.reserves: list[tuple[int, int]] = []
        self.open_nodes = 0
        self.healthy: list[int] = []
        for number, node in enumerate(self.nodes):
            self._add(number, node)
        self.widest = max((len(ids) for ids in self.leaf_ids), default=0)
        self.virtual_clusters = {vc.id for vc in cluster.virtual_clusters}
        self.owned = {(vc.id, line.cell_type): line.count for vc in cluster.virtual_clusters for line in vc.quota}

    def _add(self, number: int, node: Node) -> None:
        leaves = sorted(node.leaves, key=lambda leaf: leaf.index)
        self.leaf_ids.append([leaf.id for leaf in leaves])
        self.leaf_at.update((leaf.id, (number, bit)) for bit, leaf in enumerate(leaves))
        self.nodes_of_type[node.cell_type] = self.nodes_of_type.get(node.cell_type, 0) | 1 << number
        self.nodes_of_sku[node.sku] = self.nodes_of_sku.get(node.sku, 0) | 1 << number
        share = max(1, len(leaves))
        cpu, memory = node.reserve_cpu_milli, node.reserve_memory_mb
        self.reserves.append(
            (node.cpu_milli // share if cpu is None else cpu, node.memory_mb // share if memory is None else memory)
        )
        self.healthy.append(sum(1 << bit for bit, leaf in enumerate(leaves) if leaf.healthy))
        if node.state == NodeState.OPEN:
            self.open_nodes |= 1 << number

    def mask_of(self, node_ids: frozenset[str]) -> int:
        """These nodes as a bit mask; unknown ids are left out."""
        return sum(1 << self.position[one] for one in node_ids if one in self.position)

    def all_nodes(self) -> int:
        """Every node as a bit mask."""
        return (1 << len(self.nodes)) - 1

    def cell_types(self) -> list[str]:
        """Leaf cell types of the cluster, in the order of their names."""
        return sorted(name for name in self.nodes_of_type if name)


class Ledger:
    """What is free on each node and in each quota.

    `holes[n]` is the mask of nodes with n GPUs that are healthy, idle and unclaimed.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.idle = [(1 << len(ids)) - 1 for ids in layout.leaf_ids]
        self.healthy = layout.healthy
        self.open_nodes = layout.open_nodes
        self.claimed = [0] * len(layout.nodes)
        self.cpu = [node.cpu_milli for node in layout.nodes]
        self.memory = [node.memory_mb for node in layout.nodes]
        self.virtual: dict[tuple[str, str], int] = {}
        self.holes = [0] * (layout.widest + 1)
        for number in range(len(layout.nodes)):
            self.holes[self.free_mask(number).bit_count()] |= 1 << number

    def copy(self) -> "Ledger":
        """An independent ledger with the same contents."""
        twin = object.__new__(Ledger)
        twin.layout = self.layout
        twin.idle = self.idle.copy()
        twin.healthy = self.healthy
        twin.open_nodes = self.open_nodes
        twin.claimed = self.claimed.copy()
        twin.cpu = self.cpu.copy()
        twin.memory = self.memory.copy()
        twin.virtual = self.virtual.copy()
        twin.holes = self.holes.copy()
        return twin

    def all_in_service(self) -> "Ledger":
        """What would be free if every node were open and every GPU healthy."""
        twin = self.copy()
        twin.open_nodes = self.layout.all_nodes()
        twin.healthy = [(1 << len(ids)) - 1 for ids in self.layout.leaf_ids]
        twin._count_holes()
        return twin

    def without_limits(self) -> "Ledger":
        """What would be free if CPU and memory were no matter."""
        twin = self.copy()
        twin.cpu = [1 << 60] * len(self.cpu)
        twin.memory = [1 << 60] * len(self.memory)
        return twin

    def _count_holes(self) -> None:
        self.holes = [0] * len(self.holes)
        for number in range(len(self.idle)):
            self.holes[self.free_mask(number).bit_count()] |= 1 << number

    def free_mask(self, number: int) -> int:
        """GPUs of a node that a new task may take."""
        return self.idle[number] & self.healthy[number] & ~self.claimed[number]

    def room(self, number: int) -> Room:
        """What the node has left."""
        reserve_cpu, reserve_memory = self.layout.reserves[number]
        free = self.free_mask(number).bit_count()
        return Room(free, self.cpu[number], self.memory[number], reserve_cpu, reserve_memory)

    def free_gpus(self, nodes: int) -> int:
        """Free GPUs on these nodes."""
        return sum(size * (mask & nodes).bit_count() for size, mask in enumerate(self.holes))

    def owned(self, vc: str, cell_type: str) -> int:
        """Cells of this type in the virtual cluster's quota."""
        return self.layout.owned.get((vc, cell_type), 0)

    def held(self, vc: str, cell_type: str) -> int:
        """Virtual cells of this type that the virtual cluster's jobs hold."""
        return self.virtual.get((vc, cell_type), 0).bit_count()

    def quota_left(self, vc: str, cell_type: str) -> int:
        """Cells of its quota that the virtual cluster may still fill."""
        return max(0, self.owned(vc, cell_type) - self.held(vc, cell_type))

    def owed(self, cell_type: str) -> int:
        """Unused quota of this type, over all virtual clusters."""
        return sum(self.quota_left(vc, kind) for vc, kind in self.layout.owned if kind == cell_type)

    def take_virtual(self, vc: str, cell_type: str, count: int) -> list[str]:
        """Addresses of the lowest `count` free virtual cells, fewer when the quota has fewer."""
        free = bits(~self.virtual.get((vc, cell_type), 0) & (1 << self.owned(vc, cell_type)) - 1)
        return [virtual_cell(vc, cell_type, number) for number in islice(free, count)]

    def hold(self, placement: TaskPlacement) -> None:
        """Enter a task; cells that the cluster no longer has are passed over. Raises PlacementConflict."""
        for use in placement.leaves:
            self._check_free(use)
        self._move(placement, 1)

    def release(self, placement: TaskPlacement) -> None:
        """Take a task out again."""
        self._move(placement, -1)

    def claim(self, leaf: str) -> None:
        """Keep a leaf cell from everybody; without effect on one that the cluster no longer has."""
        self._set_claimed(leaf, True)

    def unclaim(self, leaf: str) -> None:
        """Let a claimed leaf cell go."""
        self._set_claimed(leaf, False)

    def _check_free(self, use: LeafUse) -> None:
        if use.leaf in self.layout.leaf_at:
            number, bit = self.layout.leaf_at[use.leaf]
            if not self.idle[number] >> bit & 1:
                raise PlacementConflict(use.leaf)
        if use.virtual_cell is not None:
            key, bit = _parse(use.virtual_cell)
            if self.virtual.get(key, 0) >> bit & 1:
                raise PlacementConflict(use.virtual_cell)

    def _move(self, placement: TaskPlacement, sign: int) -> None:
        for use in placement.leaves:
            if use.virtual_cell is not None:
                key, bit = _parse(use.virtual_cell)
                self.virtual[key] = self.virtual.get(key, 0) ^ 1 << bit
        number = self.layout.position.get(placement.node)
        if number is not None:
            self.cpu[number] -= sign * placement.cpu_milli
            self.memory[number] -= sign * placement.memory_mb
        for number, mask in self._masks(placement).items():
            before = self.free_mask(number).bit_count()
            self.idle[number] ^= mask
            self._moved_hole(number, before)

    def _masks(self, placement: TaskPlacement) -> dict[int, int]:
        masks: dict[int, int] = {}
        for use in placement.leaves:
            if use.leaf in self.layout.leaf_at:
                number, bit = self.layout.leaf_at[use.leaf]
                masks[number] = masks.get(number, 0) | 1 << bit
        return masks

    def _set_claimed(self, leaf: str, claimed: bool) -> None:
        if leaf in self.layout.leaf_at:
            number, bit = self.layout.leaf_at[leaf]
            before = self.free_mask(number).bit_count()
            self.claimed[number] = self.claimed[number] & ~(1 << bit) | claimed << bit
            self._moved_hole(number, before)

    def _moved_hole(self, number: int, before: int) -> None:
        after = self.free_mask(number).bit_count()
        if after != before:
            self.holes[before] ^= 1 << number
            self.holes[after] ^= 1 << number


def _parse(address: str) -> tuple[tuple[str, str], int]:
    vc, cell_type, number = address.rsplit("/", 2)
    return (vc, cell_type), int(number)
