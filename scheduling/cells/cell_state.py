"""The state of all cells as plain numbers, and the smallest steps that change it, each with its inverse.

What the steps mean is the allocator's matter. In a transaction every step is entered in a journal, and `rollback`
undoes them in reverse.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scheduling.cells.cell_index import CellIndex, LeafAt, PhysicalCell
from scheduling.cells.node_bits import Sizes, bits
from scheduling.model.job import TaskPlacement, TaskRef

GroupKey = tuple[int, int, int, int, int]
"""What is alike in nodes of one group: the number of their shape, and the masks of their leaves that are bound,
lent, busy, and blocked (faulty or claimed)."""

KEY_SHIFT = 18
KEY_MASK = (1 << KEY_SHIFT) - 1
"""A leaf's key is its node's number above its bit there; a node has room for all leaves that can be configured."""


Amount = tuple[int, int]
"""CPU (milli-cores) and memory (MB)."""


class CellState:
    """Arrays by the numbers that `CellIndex` gives to nodes, quota cells and cell nodes; masks are of leaves.

    Per node: `busy` (a task runs there), `lent` (it runs without a virtual leaf), `claimed`, `kept` (by claimed bit:
    CPU and memory kept for the claimant), `parked` (claimed by a parked job), `bound` (inside a physical cell that a
    quota cell is bound to), `leaves_by_job` and how often that changed (`turnover`), its `tasks`, CPU and memory left.
    Per cell node: `used`, `owners` (mask by job, also of claimants), `pairs` (by virtual bit the key of its physical
    leaf: the node's number above the bit), `home` (the block it lies on). `virtual_of` is the inverse of all pairs.
    Per quota cell: `place` (its physical cell) and `leaves_used` (how many).
    Per virtual cluster: `virtual_leaves_by_job` (masks by cell node); `changed_jobs`, where it has an entry, collects
    the jobs for which that changed. `freed` counts how often something in its quota came free, `given_back` on any
    node: while a count is the same, nothing has come free since.
    Equal numbers of `binding` mean equal bindings, of `virtual_state` equal use of a virtual cluster's leaves.
    """

    def __init__(self, layout: CellIndex) -> None:
        self.layout = layout
        nodes, cells = len(layout.nodes), len(layout.cell_quota)
        self.healthy = list(layout.healthy)
        self.open_nodes = layout.open_nodes
        self.full = [(1 << len(ids)) - 1 for ids in layout.leaf_ids]
        self.busy = [0] * nodes
        self.lent = [0] * nodes
        self.claimed = [0] * nodes
        self.parked = [0] * nodes
        self.kept: list[dict[int, Amount]] = [{} for _ in range(nodes)]
        self.bound = [0] * nodes
        self.leaves_by_job: list[dict[str, int]] = [{} for _ in range(nodes)]
        self.turnover = [0] * nodes
        self.tasks: list[dict[tuple[str, TaskRef], TaskPlacement]] = [{} for _ in range(nodes)]
        self.cpu = [node.cpu_milli for node in layout.nodes]
        self.memory = [node.memory_mb for node in layout.nodes]
        self.used = [0] * cells
        self.owners: list[dict[str, int]] = [{} for _ in range(cells)]
        self.pairs: list[dict[int, int]] = [{} for _ in range(cells)]
        self.home: list[PhysicalCell | None] = [None] * cells
        self.place: list[PhysicalCell | None] = [None] * len(layout.quotas)
        self.leaves_used = [0] * len(layout.quotas)
        self.virtual_of: dict[int, tuple[int, int]] = {}
        self.bound_nodes = [0] * len(layout.uppers)
        self.free_leaves = dict(layout.owned)
        self.virtual_leaves_by_job: dict[str, dict[str, dict[int, int]]] = {vc: {} for vc in layout.virtual_clusters}
        self.changed_jobs: dict[str, set[str]] = {}
        self.freed: dict[str, int] = {}
        self.given_back = 0
        self.virtual_state = dict.fromkeys(layout.virtual_clusters, 0)
        self._virtual_states = 0
        self.binding = 0
        self._homes: dict[tuple[str, str], tuple[int, dict[int, list[int]]]] = {}
        self._bindings = 0
        self._journal: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._open: list[int] = []
        self._undoing = False
        self.shapes = sorted(set(layout.shapes), key=lambda shape: (shape.sizes, shape.names))
        self._group_all()
        self.cell_groups: dict[tuple[str, str], dict[tuple[Sizes, int], int]] = {}
        for cell, number in enumerate(layout.cell_quota):
            quota = layout.quotas[number]
            groups = self.cell_groups.setdefault((quota.vc, layout.cell_pool[cell]), {})
            key2 = (quota.shape.sizes, 0)
            groups[key2] = groups.get(key2, 0) | 1 << cell

    def _group_all(self) -> None:
        """The nodes by what is alike in them, anew."""
        layout = self.layout
        numbers = {shape: number for number, shape in enumerate(self.shapes)}
        self._groups: dict[GroupKey, int] = {}
        self._holes = {chain: [0] * (max(map(len, layout.leaf_ids)) + 1) for chain in layout.nodes_of_chain}
        self._keys: list[GroupKey] = []
        self._moved: set[int] = set()
        for number, shape in enumerate(layout.shapes):
            blocked = self.full[number] & ~self.healthy[number] | self.claimed[number]
            key = (numbers[shape], self.bound[number], self.lent[number], self.busy[number], blocked)
            self._keys.append(key)
            self._groups[key] = self._groups.get(key, 0) | 1 << number
            if self.open_nodes >> number & 1:
                idle = self.full[number] & ~self.busy[number] & ~blocked
                self._holes[layout.chains[number]][idle.bit_count()] += 1

    @property
    def groups(self) -> dict[GroupKey, int]:
        """The nodes (a mask) that are alike."""
        self._regroup()
        return self._groups

    @property
    def holes(self) -> dict[str, list[int]]:
        """How many open nodes of each chain have how many idle leaves."""
        self._regroup()
        return self._holes

    def _regroup(self) -> None:
        """Only when somebody looks: most steps come several to a node, or are taken back before."""
        for number in self._moved:
            self._regroup_node(number)
        self._moved.clear()

    def _regroup_node(self, number: int) -> None:
        old = self._keys[number]
        blocked = self.full[number] & ~self.healthy[number] | self.claimed[number]
        new = (old[0], self.bound[number], self.lent[number], self.busy[number], blocked)
        if new != old:
            self._keys[number] = new
            move(self._groups, old, new, 1 << number)
            if self.open_nodes >> number & 1:
                full = self.full[number]
                holes = self._holes[self.layout.chains[number]]
                holes[(full & ~old[3] & ~old[4]).bit_count()] -= 1
                holes[(full & ~new[3] & ~blocked).bit_count()] += 1

    # Transactions

    def begin(self) -> None:
        """Begins a transaction; transactions nest."""
        self._open.append(len(self._journal))

    def rollback(self) -> None:
        """Undoes everything since the innermost transaction began, and ends it."""
        mark = self._open.pop()
        self._undoing = True
        while len(self._journal) > mark:
            undo, args = self._journal.pop()
            undo(*args)
        self._undoing = False

    def commit(self) -> None:
        """Ends the innermost transaction; what it did stays."""
        self._open.pop()
        if not self._open:
            self._journal.clear()

    def transaction(self) -> "Transaction":
        """A transaction that is committed at its end, rolled back where it raises."""
        return Transaction(self)

    def _did(self, undo: Callable[..., None], *args: Any) -> None:
        if self._open and not self._undoing:
            self._journal.append((undo, args))

    def mark_freed(self, vc: str = "") -> None:
        """Something was given back: on the nodes, or (with `vc`) in a virtual cluster's quota.

        The counts only grow: a rollback does not undo them.
        """
        if self._undoing:
            return
        if vc:
            self.freed[vc] = self.freed.get(vc, 0) + 1
        else:
            self.given_back += 1

    # Steps on a node

    def arrive(self, number: int, job: str, placement: TaskPlacement) -> None:
        """A task takes its CPU and memory of a node."""
        self.tasks[number][job, placement.task] = placement
        self.cpu[number] -= placement.cpu_milli
        self.memory[number] -= placement.memory_mb
        self._did(self.leave, number, job, placement)

    def leave(self, number: int, job: str, placement: TaskPlacement) -> None:
        """A task gives them back."""
        del self.tasks[number][job, placement.task]
        self.cpu[number] += placement.cpu_milli
        self.memory[number] += placement.memory_mb
        self.mark_freed()
        self._did(self.arrive, number, job, placement)

    def take(self, number: int, job: str, mask: int) -> None:
        """A job holds these leaves."""
        self.busy[number] |= mask
        self.leaves_by_job[number][job] = self.leaves_by_job[number].get(job, 0) | mask
        self.turnover[number] += 1
        self._moved.add(number)
        self._did(self.give, number, job, mask)

    def give(self, number: int, job: str, mask: int) -> None:
        """A job holds these leaves no more."""
        self.busy[number] &= ~mask
        _drop(self.leaves_by_job[number], job, mask)
        self.turnover[number] += 1
        self.mark_freed()
        self._moved.add(number)
        self._did(self.take, number, job, mask)

    def set_lent(self, number: int, mask: int, lent: bool) -> None:
        """These leaves are on loan, or not."""
        self.lent[number] = self.lent[number] | mask if lent else self.lent[number] & ~mask
        if not lent:
            self.mark_freed()
        self._moved.add(number)
        self._did(self.set_lent, number, mask, not lent)

    def keep_beside(self, number: int, bit: int, amount: Amount | None) -> None:
        """So much CPU and memory is kept beside a claimed leaf; None: nothing any more."""
        before = self.kept[number].pop(bit, None)
        if amount is not None:
            self.kept[number][bit] = amount
        self._did(self.keep_beside, number, bit, before)

    def set_claimed(self, number: int, mask: int, claimed: bool) -> None:
        """These leaves are kept for somebody, or not."""
        self.claimed[number] = self.claimed[number] | mask if claimed else self.claimed[number] & ~mask
        self._moved.add(number)
        self._did(self.set_claimed, number, mask, not claimed)

    def set_parked(self, number: int, mask: int, parked: bool) -> None:
        """These claimed leaves are kept for parked jobs, or not."""
        self.parked[number] = self.parked[number] | mask if parked else self.parked[number] & ~mask
        self._did(self.set_parked, number, mask, not parked)

    def set_bound(self, number: int, mask: int, bound: bool) -> None:
        """These leaves belong to a quota cell, or not."""
        before = self.bound[number]
        after = self.bound[number] = before | mask if bound else before & ~mask
        if bool(before) != bool(after):
            for upper in self.layout.above[number]:
                self.bound_nodes[upper] += 1 if after else -1
        if not bound:
            self.mark_freed()
        self._bindings += 1
        self._set_binding(self._bindings)
        self._moved.add(number)
        self._did(self.set_bound, number, mask, not bound)

    def _set_binding(self, binding: int) -> None:
        before, self.binding = self.binding, binding
        self._did(self._set_binding, before)

    def homes(self, vc: str, chain: str) -> Mapping[int, Sequence[int]]:
        """The nodes where cells of the virtual cluster's quota lie that are tied to a place, and which; without pinned
        ones. Worked out once for each `binding`."""
        known = self._homes.get((vc, chain))
        if known is None or known[0] != self.binding:
            known = self._homes[vc, chain] = self.binding, self._work_out_homes(vc, chain)
        return known[1]

    def _work_out_homes(self, vc: str, chain: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in self.layout.quotas_of.get((vc, chain), ()):
            place = self.place[number]
            nodes: Iterable[int] = () if place is None else (place.node,)
            if place is not None and place.upper >= 0:
                nodes = bits(self.layout.uppers[place.upper].nodes)
            for node in nodes:
                found.setdefault(node, []).append(number)
        return found

    # Steps on quota cells

    def use(self, job: str, cell: int, mask: int, keys: Mapping[int, int], state: int | None = None) -> None:
        """A job has these virtual leaves, on physical ones: their keys by virtual bit. `state`: as it was before."""
        owners = self.owners[cell]
        owners[job] = owners.get(job, 0) | mask
        self.pairs[cell].update(keys)
        for virtual, key in keys.items():
            self.virtual_of[key] = (cell, virtual)
        before = self._set_used(job, cell, self.used[cell] | mask, -len(keys), state)
        self._did(self.unuse, job, cell, mask, keys, before)

    def unuse(self, job: str, cell: int, mask: int, keys: Mapping[int, int], state: int | None = None) -> None:
        """A job has these virtual leaves no more. `state`: as it was before."""
        _drop(self.owners[cell], job, mask)
        pairs = self.pairs[cell]
        for virtual, key in keys.items():
            del pairs[virtual]
            del self.virtual_of[key]
        before = self._set_used(job, cell, self.used[cell] & ~mask, len(keys), state)
        self.mark_freed(self.layout.quotas[self.layout.cell_quota[cell]].vc)
        self._did(self.use, job, cell, mask, keys, before)

    def _set_used(self, job: str, cell: int, used: int, freed: int, state: int | None) -> int:
        """Answers with the virtual cluster's state before."""
        quota = self.layout.quotas[self.layout.cell_quota[cell]]
        vc, sizes = quota.vc, quota.shape.sizes
        self.leaves_used[quota.number] -= freed
        self.free_leaves[vc, quota.chain] += freed
        if vc in self.changed_jobs:
            self.changed_jobs[vc].add(job)
        holding, own = self.virtual_leaves_by_job[vc], self.owners[cell].get(job, 0)
        if own:
            holding.setdefault(job, {})[cell] = own
        else:
            del holding[job][cell]
            if not holding[job]:
                del holding[job]
        pool = self.layout.cell_pool[cell]
        move(self.cell_groups[vc, pool], (sizes, self.used[cell]), (sizes, used), 1 << cell)
        self.used[cell] = used
        before = self.virtual_state[vc]
        if state is None:
            self._virtual_states += 1
        self.virtual_state[vc] = self._virtual_states if state is None else state
        return before

    def set_home(self, cell: int, home: PhysicalCell | None) -> None:
        """Where on the nodes the cell node lies."""
        before, self.home[cell] = self.home[cell], home
        self._did(self.set_home, cell, before)

    def set_place(self, quota: int, place: PhysicalCell | None) -> None:
        """The physical cell of a quota cell."""
        before, self.place[quota] = self.place[quota], place
        self._did(self.set_place, quota, before)


class Transaction:
    """Committed at its end, rolled back where it raises. No generator, since starts come by the ten thousand."""

    __slots__ = ("_state",)

    def __init__(self, state: CellState) -> None:
        self._state = state

    def __enter__(self) -> None:
        self._state.begin()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        (self._state.commit if kind is None else self._state.rollback)()


def _drop(masks: dict[str, int], job: str, mask: int) -> None:
    left = masks.get(job, 0) & ~mask
    if left:
        masks[job] = left
    else:
        masks.pop(job, None)


def move(groups: dict[Any, int], old: Any, new: Any, bit: int) -> None:
    """One (a bit) goes from a group (a mask) to another; empty groups are left out."""
    if old == new:
        return
    left = groups[old] & ~bit
    if left:
        groups[old] = left
    else:
        del groups[old]
    groups[new] = groups.get(new, 0) | bit


def lies_straight(keys: Mapping[int, int], spot: PhysicalCell) -> bool:
    """Whether virtual leaves lie on physical ones (keys by virtual bit) in the order of both, from the spot on."""
    first = spot.node << KEY_SHIFT | spot.base
    for virtual, key in keys.items():  # noqa: SIM110 - a generator takes longer than the few leaves of a node
        if key - virtual != first:
            return False
    return True


def masks_of(leaves: Iterable[LeafAt]) -> dict[int, int]:
    """These leaves as masks by node (or cell node)."""
    masks: dict[int, int] = {}
    for number, bit in leaves:
        masks[number] = masks.get(number, 0) | 1 << bit
    return masks
