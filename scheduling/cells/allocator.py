"""The allocator: who has which physical and virtual leaves, which is bound to which, and what may be split.

Buddy allocation without lists of its own: a physical cell is free when none of its leaves is bound, so what is
released merges by itself. `slack` of a cell type is what HiveD's safety rests on: the wholly free cells of the
type less those reserved for quota cells that are not bound yet. A free cell may be split only while its type has slack.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from scheduling.cells.cell_index import CellIndex, LeafAt, PhysicalCell, Quota
from scheduling.cells.cell_state import KEY_MASK, KEY_SHIFT, Amount, CellState, lies_straight, masks_of
from scheduling.cells.node_bits import agrees, bits, whole_around
from scheduling.cells.resources import UNLIMITED
from scheduling.cells.slack import CellKind, first_slack
from scheduling.model.job import LeafUse, TaskPlacement


class PlacementConflict(ValueError):
    """A placement asks for what is taken: `cell` is a leaf's id, a virtual cell, or a task that has its place."""

    def __init__(self, cell: str) -> None:
        super().__init__(f"{cell} is taken")
        self.cell = cell


class Allocator(CellState):
    """`CellState` with its rules. Tasks come by `allocate` and go by `release`, claims by `claim` and `unclaim`."""

    def __init__(self, layout: CellIndex) -> None:
        super().__init__(layout)
        self.slack = first_slack(layout, self.full)
        self.cell_chains = {quota.chain for quota in layout.quotas if not quota.loose}
        for quota in layout.quotas:
            if quota.pinned_at is not None:
                self._bind_cell(quota, quota.pinned_at, at_any_cost=True)

    def all_in_service(self) -> "Allocator":
        """Makes every node open and every leaf healthy; returns itself."""
        self.open_nodes = self.layout.all_nodes()
        self.healthy = list(self.full)
        self._group_all()
        return self

    @contextmanager
    def as_if(self, *, served: bool) -> Iterator[None]:
        """What-if: unlimited CPU and memory and, when `served`, every node open and every leaf healthy."""
        before = self.open_nodes, self.healthy, self.cpu, self.memory
        self.cpu, self.memory = ([UNLIMITED] * len(self.cpu) for _ in range(2))
        if served:
            self.all_in_service()
        try:
            yield
        finally:
            self.open_nodes, self.healthy, self.cpu, self.memory = before
            if served:
                self._group_all()

    # What is free

    def idle(self, number: int) -> int:
        """Leaves of a node that a borrower may take: healthy, not busy, not claimed."""
        return self.healthy[number] & ~self.busy[number] & ~self.claimed[number]

    def quota_free(self, vc: str, chain: str) -> int:
        """Free virtual leaves of the virtual cluster in a chain."""
        return self.free_leaves.get((vc, chain), 0)

    def mask_of(self, placement: TaskPlacement) -> int:
        """The leaves of a task on its node."""
        at, mask = self.layout.leaf_at, 0
        for leaf, _, _ in placement.leaves:
            if leaf in at:
                mask |= 1 << at[leaf][1]
        return mask

    def borrows(self, number: int, placement: TaskPlacement) -> bool:
        """Whether a task is on loan on this node now, however it started."""
        return bool(self.lent[number] & self.mask_of(placement))

    def holder(self, leaf: str) -> str | None:
        """The job that runs on this leaf."""
        number, bit = self.layout.leaf_at[leaf]
        return next((job for job, own in self.leaves_by_job[number].items() if own >> bit & 1), None)

    def holders(self, number: int, mask: int) -> list[str]:
        """Jobs that run on some of these leaves."""
        return [job for job, own in self.leaves_by_job[number].items() if own & mask]

    def split_by(self, spot: PhysicalCell, size: int) -> list[CellKind]:
        """The wholly free larger cells around a free cell: binding it splits them."""
        layout = self.layout
        if spot.upper >= 0:
            node = next(bits(layout.uppers[spot.upper].nodes))
            path = layout.above[node]
            above = path[path.index(spot.upper) + 1 :]
            kinds = []
        else:
            node = spot.node
            shape, chain = layout.shapes[node], layout.chains[node]
            free = self.full[node] & ~self.bound[node]
            kinds = [(chain, shape.names[level]) for level in whole_around(shape.sizes, free, spot.base, size)]
            above = () if self.bound[node] else layout.above[node]
        for upper in above:
            if self.bound_nodes[upper]:
                break
            kinds.append((layout.chains[node], layout.uppers[upper].cell_type))
        return kinds

    def safe(self, spot: PhysicalCell, size: int) -> bool:
        """Whether this free cell may be bound: every larger cell that it splits may be split."""
        return self.spared(self.split_by(spot, size))

    def spared(self, kinds: Iterable[CellKind]) -> bool:
        """Whether one cell of each of these types may be split."""
        return all(self.slack.get(kind, 1) >= 1 for kind in kinds)

    def is_free(self, spot: PhysicalCell, size: int) -> bool:
        """Whether nothing of this physical cell is bound."""
        if spot.upper >= 0:
            return self.bound_nodes[spot.upper] == 0
        return not self.bound[spot.node] >> spot.base & (1 << size) - 1

    def spot_around(self, quota: Quota, number: int, bit: int) -> PhysicalCell | None:
        """The physical cell of the quota cell's type that this leaf lies in; None when there is none."""
        layout = self.layout
        if layout.chains[number] != quota.chain:
            return None
        if quota.upper:
            found = [one for one in layout.above[number] if layout.uppers[one].cell_type == quota.cell_type]
            return PhysicalCell(-1, 0, found[0]) if found else None
        if quota.cell_type not in layout.shapes[number].names:
            return None
        return PhysicalCell(number, bit // quota.shape.width * quota.shape.width)

    def virtual_leaf_of(self, job: str, at: LeafAt) -> LeafAt | None:
        """The virtual leaf of the job, or of its claim, on this physical leaf."""
        current = self.virtual_of.get(at[0] << KEY_SHIFT | at[1])
        if current is not None and self.owners[current[0]].get(job, 0) >> current[1] & 1:
            return current
        return None

    def owner_of(self, virtual: LeafAt) -> str:
        """The job that has or claims this virtual leaf."""
        return next(job for job, mask in self.owners[virtual[0]].items() if mask >> virtual[1] & 1)

    def physical_of(self, cell: int, virtual: int) -> LeafAt:
        """The physical leaf that a virtual leaf lies on."""
        key = self.pairs[cell][virtual]
        return key >> KEY_SHIFT, key & KEY_MASK

    # Tasks

    def allocate(self, job: str, placement: TaskPlacement) -> None:
        """Enters a task; cells that the cluster no longer has are ignored. Raises PlacementConflict."""
        number = self.layout.position.get(placement.node)
        if number is not None:
            self.arrive(number, job, placement)
        leaves, lent, bindings = self._sorted(placement.leaves)
        for node, mask in leaves.items():
            taken = self.busy[node] & mask
            if taken:
                raise PlacementConflict(self.layout.leaf_ids[node][next(bits(taken))])
            self.take(node, job, mask)
        for node, mask in lent.items():
            self.set_lent(node, mask, True)
        for (node, cell), pairs in bindings.items():
            self.bind(job, node, cell, pairs)

    def release(self, job: str, placement: TaskPlacement) -> None:
        """Takes a task out. A virtual leaf that was claimed meanwhile stays claimed, also by the job itself."""
        number = self.layout.position.get(placement.node)
        if number is not None:
            self.leave(number, job, placement)
        leaves, _, _ = self._sorted(placement.leaves)
        self._unbind_all(job, {node: mask & ~self.claimed[node] for node, mask in leaves.items()})
        for node, mask in leaves.items():
            if self.lent[node] & mask:
                self.set_lent(node, self.lent[node] & mask, False)
            self.give(node, job, mask)

    def lend(self, job: str, placement: TaskPlacement) -> None:
        """Demotion: puts the guaranteed leaves of a task on loan."""
        self._evict(
            job, [(node, bit) for node, mask in self._sorted(placement.leaves)[0].items() for bit in bits(mask)]
        )

    def unlend(self, job: str, placement: TaskPlacement) -> None:
        """Promotion: binds borrowed leaves of a task to the virtual leaves that the placement names."""
        for (node, cell), pairs in self._sorted(placement.leaves)[2].items():
            mine = {virtual: bit for virtual, bit in pairs.items() if self.lent[node] >> bit & 1}
            if mine:
                self.set_lent(node, sum(1 << bit for bit in mine.values()), False)
                self.bind(job, node, cell, mine)

    # Claims

    def claim(
        self, job: str, uses: Sequence[LeafUse], needs: Mapping[str, Amount], parked: Collection[str] = ()
    ) -> None:
        """Keeps leaves and their virtual leaves for a job, and beside each leaf what it `needs`; on those `parked` its
        container has that already. `make_way` comes first. Leaves that the cluster no longer has are ignored."""
        leaves, _, bindings = self._sorted(uses)
        for node, mask in leaves.items():
            self.set_claimed(node, mask, True)
        for node, mask in masks_of(self.layout.leaf_at[one] for one in parked if one in self.layout.leaf_at).items():
            self.set_parked(node, mask, True)
        for leaf, amount in needs.items():
            if leaf in self.layout.leaf_at:
                self.keep_beside(*self.layout.leaf_at[leaf], amount)
        for (node, cell), pairs in bindings.items():
            self.bind(job, node, cell, pairs)

    def unclaim(self, job: str, leaves: Iterable[str]) -> None:
        """Drops claims on these leaves."""
        here = masks_of(self.layout.leaf_at[leaf] for leaf in leaves if leaf in self.layout.leaf_at)
        self._unbind_all(job, here)
        for node, mask in here.items():
            self.set_claimed(node, mask, False)
            self.mark_freed()
            if self.parked[node] & mask:
                self.set_parked(node, self.parked[node] & mask, False)
            for bit in bits(mask & sum(1 << bit for bit in self.kept[node])):
                self.keep_beside(node, bit, None)

    def make_way(self, uses: Sequence[LeafUse]) -> None:
        """Puts on loan whatever jobs have by right of these leaves, or of their virtual leaves elsewhere."""
        losers: dict[str, list[LeafAt]] = {}
        for leaf, address, _ in uses:
            at, virtual = self.layout.leaf_at.get(leaf), self.layout.virtual_leaf(address) if address else None
            if at is None:
                continue
            current = self.virtual_of.get(at[0] << KEY_SHIFT | at[1])
            if current is not None:
                losers.setdefault(self.owner_of(current), []).append(at)
            if virtual is not None and virtual != current and self.used[virtual[0]] >> virtual[1] & 1:
                losers.setdefault(self.owner_of(virtual), []).append(self.physical_of(*virtual))
        for loser, leaves in losers.items():
            self._evict(loser, leaves)

    def _evict(self, victim: str, leaves: Iterable[LeafAt]) -> None:
        """Puts on loan what the job has by right of these leaves; where it only claims, it has them no more."""
        mine = masks_of(at for at in leaves if self.virtual_leaf_of(victim, at) is not None)
        self._unbind_all(victim, mine)
        for node, mask in mine.items():
            if self.busy[node] & mask:
                self.set_lent(node, self.busy[node] & mask, True)

    def _unbind_all(self, job: str, leaves: Mapping[int, int]) -> None:
        """Unbinds the virtual leaves that the job has on these leaves (a mask by node)."""
        bindings: dict[int, int] = {}
        for node, mask in leaves.items():
            for bit in bits(mask):
                current = self.virtual_leaf_of(job, (node, bit))
                if current is not None:
                    bindings[current[0]] = bindings.get(current[0], 0) | 1 << current[1]
        for cell, mask in bindings.items():
            self.unbind(job, cell, mask)

    # Bindings

    def bind(self, job: str, number: int, cell: int, pairs: dict[int, int]) -> None:
        """Binds virtual leaves of a cell node to bits of a node (bit by virtual leaf) for a job.

        Raises PlacementConflict where the trees or safety forbid it.
        """
        quota = self.layout.quotas[self.layout.cell_quota[cell]]
        wanted = leaves = 0
        keys: dict[int, int] = {}
        node = number << KEY_SHIFT
        for virtual, bit in pairs.items():
            wanted |= 1 << virtual
            leaves |= 1 << bit
            keys[virtual] = node | bit
        fits = not self.used[cell] & wanted and (
            self._bind_loose(quota, number, leaves)
            if quota.loose
            else self._bind_in_cell(quota, number, leaves, cell) and self._consistent(quota, cell, keys)
        )
        if not fits:
            raise PlacementConflict(self.layout.virtual_address(cell, next(iter(pairs))))
        self.use(job, cell, wanted, keys)

    def unbind(self, job: str, cell: int, virtual: int) -> None:
        """Unbinds these virtual leaves (a mask), and cells around them in which nothing else lies."""
        quota = self.layout.quotas[self.layout.cell_quota[cell]]
        keys = {one: self.pairs[cell][one] for one in bits(virtual)}
        self.unuse(job, cell, virtual, keys)
        if quota.loose:
            for number, mask in masks_of((key >> KEY_SHIFT, key & KEY_MASK) for key in keys.values()).items():
                self._unbind_loose(number, mask)
            return
        if not self.pairs[cell]:
            self.set_home(cell, None)
        place = self.place[quota.number]
        if not self.leaves_used[quota.number] and not quota.pinned and place is not None:
            self._unbind_cell(quota, place)

    def _bind_loose(self, quota: Quota, number: int, leaves: int) -> bool:
        if self.layout.chains[number] != quota.chain or self.bound[number] & leaves:
            return False
        if quota.chain not in self.cell_chains:
            self.set_bound(number, leaves, True)
            return True
        return all(self._bind_cell(quota, PhysicalCell(number, bit)) for bit in bits(leaves))

    def _unbind_loose(self, number: int, leaves: int) -> None:
        chain = self.layout.chains[number]
        if chain not in self.cell_chains:
            self.set_bound(number, leaves, False)
            return
        for bit in bits(leaves):
            self.set_bound(number, 1 << bit, False)
            for kind in self.split_by(PhysicalCell(number, bit), 1):
                self._change_slack(kind, 1)

    def _bind_in_cell(self, quota: Quota, number: int, leaves: int, cell: int) -> bool:
        size = quota.shape.width
        base = ((leaves & -leaves).bit_length() - 1) // size * size
        place = self.place[quota.number]
        if leaves & ~((1 << size) - 1 << base):
            return False
        if place is None:
            place = self.spot_around(quota, number, base)
            if place is None or not self.is_free(place, size) or not self._bind_cell(quota, place):
                return False
        elif place.upper < 0:
            if (place.node, place.base) != (number, base):
                return False
        elif not self.layout.uppers[place.upper].nodes >> number & 1:
            return False
        home, spot = self.home[cell], PhysicalCell(number, base)
        if home is None:
            if quota.count > 1 and spot in self.home[quota.first : quota.first + quota.count]:
                return False
            self.set_home(cell, spot)
        return home is None or home == spot

    def _consistent(self, quota: Quota, cell: int, new: dict[int, int]) -> bool:
        """Whether old and new pairs agree on which cell lies in which, at every level inside the node."""
        home, old = self.home[cell], self.pairs[cell]
        assert home is not None
        if lies_straight(old, home) and lies_straight(new, home):
            return True
        pairs = {virtual: key & KEY_MASK for virtual, key in old.items()}
        for virtual, key in new.items():
            if not agrees(quota.shape.sizes, pairs, virtual, key & KEY_MASK):
                return False
            pairs[virtual] = key & KEY_MASK
        return True

    # Physical cells of quota cells

    def _bind_cell(self, quota: Quota, spot: PhysicalCell, *, at_any_cost: bool = False) -> bool:
        """Binds the quota cell to the free cell if that is safe."""
        size = 1 if quota.loose else quota.shape.width
        split = self.split_by(spot, size)
        if not at_any_cost and not self.spared(split):
            return False
        for kind in split:
            self._change_slack(kind, -1)
        for number, mask in self._leaves_of(spot, size):
            self.set_bound(number, mask, True)
        if not quota.loose:
            self.set_place(quota.number, spot)
        return True

    def _unbind_cell(self, quota: Quota, spot: PhysicalCell) -> None:
        size = 1 if quota.loose else quota.shape.width
        for number, mask in self._leaves_of(spot, size):
            self.set_bound(number, mask, False)
        for kind in self.split_by(spot, size):
            self._change_slack(kind, 1)
        if not quota.loose:
            self.set_place(quota.number, None)

    def _change_slack(self, kind: CellKind, change: int) -> None:
        if kind in self.slack:
            self.slack[kind] += change
            self._did(self._change_slack, kind, -change)

    def _leaves_of(self, spot: PhysicalCell, size: int) -> list[tuple[int, int]]:
        if spot.upper >= 0:
            return [(number, self.full[number]) for number in bits(self.layout.uppers[spot.upper].nodes)]
        return [(spot.node, (1 << size) - 1 << spot.base)]

    def _sorted(self, uses: Sequence[LeafUse]) -> tuple[dict[int, int], dict[int, int], dict[LeafAt, dict[int, int]]]:
        """All leaves and those on loan (masks by node), and the others' bits by virtual bit for each node and cell
        node."""
        leaf_at, virtual_at = self.layout.leaf_at, self.layout.virtual_at
        leaves: dict[int, int] = {}
        lent: dict[int, int] = {}
        bindings: dict[LeafAt, dict[int, int]] = {}
        for leaf, address, _ in uses:
            at = leaf_at.get(leaf)
            if at is None:
                continue
            node, bit = at
            leaves[node] = leaves.get(node, 0) | 1 << bit
            virtual = None if address is None else virtual_at.get(address)
            if virtual is None:
                lent[node] = lent.get(node, 0) | 1 << bit
                continue
            pairs = bindings.get((node, virtual[0]))
            if pairs is None:
                pairs = bindings[node, virtual[0]] = {}
            pairs[virtual[1]] = bit
        return leaves, lent, bindings
