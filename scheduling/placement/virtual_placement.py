"""Assigns virtual leaves, inside the quota of its virtual cluster, to a job's tasks.

Chosen from the virtual cluster's own cells and guaranteed jobs alone, so that what others do changes nothing
(`docs/scheduling.md`, the guarantee). Cells of different size are used best-fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_state import move
from scheduling.cells.node_bits import Sizes, bits, lowest, pick
from scheduling.cells.resources import Demand
from scheduling.model.job import TaskRef
from scheduling.placement.bin_packing import Bins, Fill, Group, find


class VirtualPlacement(NamedTuple):
    """Virtual leaves (bits of a cell node) for one task."""

    task: TaskRef
    demand: Demand
    cell: int
    leaves: int


Alike = dict[tuple[Sizes, int], int]
"""Cell nodes (a mask) by their block sizes and their free leaves."""


@dataclass(slots=True)
class QuotaView:
    """The quota cells of a virtual cluster in one chain, or one pinned cell (`pool`), as a job may use them.

    `freed`: virtual leaves (a mask by cell node) of lower priorities that count as free; `banned`: cell nodes that
    cannot be used now; `taken`: virtual leaves reserved for others. `known`: what `alike` would answer. `used_first`:
    of the single leaves that count as free, used ones come first.
    """

    allocator: Allocator
    vc: str
    pool: str
    freed: Mapping[int, int] = field(default_factory=dict)
    banned: int = 0
    taken: Mapping[int, int] = field(default_factory=dict)
    known: Alike | None = None
    used_first: bool = False

    def free(self, cell: int) -> int:
        """Free virtual leaves of a cell node."""
        allocator = self.allocator
        used = allocator.used[cell] & ~self.freed.get(cell, 0)
        quota = allocator.layout.quotas[allocator.layout.cell_quota[cell]]
        return (1 << quota.shape.width) - 1 & ~used & ~self.taken.get(cell, 0)

    def groups(self) -> list[Group]:
        """The cell nodes but for the loose one, alike ones together."""
        return [Group(sizes, free, members) for (sizes, free), members in self.alike().items()]

    def alike(self) -> Alike:
        """The same as masks."""
        if self.known is not None:
            return self.known
        known = self.allocator.cell_groups.get((self.vc, self.pool), {})
        hidden = self.banned | self.allocator.layout.loose_cells
        special = 0
        if self.freed or self.taken:
            for cell in {*self.freed, *self.taken}:
                special |= 1 << cell
        apart = hidden | special
        found: Alike = {}
        for (sizes, used), members in known.items():
            alike = members & ~apart if apart else members
            if alike:
                found[sizes, (1 << sizes[-1]) - 1 & ~used] = alike
        for (sizes, _), members in known.items() if special else ():
            for cell in bits(members & special & ~hidden):
                key = sizes, self.free(cell)
                found[key] = found.get(key, 0) | 1 << cell
        return found

    def loose(self) -> list[int]:
        """Cell nodes of single leaves that are tied to no place."""
        found: list[int] = []
        if not self.allocator.layout.loose_cells:
            return found
        for members in self.allocator.cell_groups.get((self.vc, self.pool), {}).values():
            found.extend(bits(members & ~self.banned & self.allocator.layout.loose_cells))
        return sorted(found)


class ReservedCells(dict[int, int]):
    """Virtual leaves (a mask by cell node) reserved for jobs ahead in the queue of a virtual cluster; what is free
    beside them is kept up to date. `number` identifies what is reserved: 0 is nothing."""

    def __init__(self, allocator: Allocator, vc: str) -> None:
        super().__init__()
        self.number = 0
        self._allocator = allocator
        self._vc = vc
        self._alike: dict[str, tuple[int, Alike]] = {}

    def view(self, pool: str) -> QuotaView:
        """The cells that the next job in the queue may use."""
        state = self._allocator.virtual_state.get(self._vc, -1)
        known = self._alike.get(pool)
        if known is None or known[0] != state:
            known = self._alike[pool] = state, QuotaView(self._allocator, self._vc, pool, taken=self).alike()
        return QuotaView(self._allocator, self._vc, pool, taken=self, known=known[1])

    def reserve(self, assignments: Iterable[VirtualPlacement], number: int) -> None:
        """Reserves these, too."""
        allocator, layout = self._allocator, self._allocator.layout
        for assignment in assignments:
            cell, pool = assignment.cell, layout.cell_pool[assignment.cell]
            before = self.get(cell, 0)
            after = self[cell] = before | assignment.leaves
            known = self._alike.get(pool)
            if known is None or layout.loose_cells >> cell & 1:
                continue
            if known[0] != allocator.virtual_state.get(self._vc, -1):
                del self._alike[pool]
                continue
            sizes = layout.quotas[layout.cell_quota[cell]].shape.sizes
            free = (1 << sizes[-1]) - 1 & ~allocator.used[cell]
            move(known[1], (sizes, free & ~before), (sizes, free & ~after), 1 << cell)
        self.number = number

    def settle(self, assignments: Iterable[VirtualPlacement]) -> None:
        """Ends the reservation of these, which their jobs take now. For the end of a cycle: `number` is not kept."""
        self._alike.clear()
        for assignment in assignments:
            self[assignment.cell] &= ~assignment.leaves
            if not self[assignment.cell]:
                del self[assignment.cell]


def assign(view: QuotaView, parts: Sequence[Demand]) -> list[VirtualPlacement] | None:
    """Virtual leaves for all tasks (with GPUs) at once, or None.

    Tasks of one GPU go to loose leaves first, others to cells that hold them whole; what finds no room there goes
    to the other kind.
    """
    single = parts[0].gpus == 1  # the largest is the first
    for way in (_loose_only, _cells_only, _mixed) if single else (_cells_only, _loose_only, _mixed):
        found = way(view, parts)
        if found is not None:
            return found
    return None


def _cells_only(view: QuotaView, parts: Sequence[Demand]) -> list[VirtualPlacement] | None:
    if len(parts) == 1 and parts[0].count == 1:
        return _tightest(view, parts[0])
    groups = view.groups()
    if not groups:
        return None
    fills = find(Bins(groups), parts)
    return None if fills is None else _in_cells(view, groups, fills)


def _tightest(view: QuotaView, demand: Demand) -> list[VirtualPlacement] | None:
    """One task: what `find` would answer, read off the masks."""
    best: tuple[tuple[int, tuple[int, ...], int], int] | None = None
    for (sizes, free), members in view.alike().items():
        if free.bit_count() < demand.gpus:
            continue
        found = pick(sizes, free, demand.gpus)
        if found is not None:
            rank = found.level, found.fit, members & -members
            if best is None or rank < best[0]:
                best = rank, found.bits
    if best is None:
        return None
    (_, _, lowest_cell), leaves = best
    return [VirtualPlacement(demand.tasks[0], demand, lowest_cell.bit_length() - 1, leaves)]


def _in_cells(view: QuotaView, groups: list[Group], fills: list[Fill]) -> list[VirtualPlacement]:
    shape: dict[int, tuple[Sizes, int]] = {}
    for cell in {fill.bin for fill in fills}:
        group = next(group for group in groups if group.members >> cell & 1)
        shape[cell] = group.sizes, group.free
    found = []
    tasks = {id(fill.demand): iter(fill.demand.tasks) for fill in fills}
    for fill in sorted(fills, key=lambda one: -one.demand.gpus):
        for _ in range(fill.count):
            sizes, free = shape[fill.bin]
            picked = pick(sizes, free, fill.demand.gpus)
            assert picked is not None
            shape[fill.bin] = (sizes, free & ~picked.bits)
            found.append(VirtualPlacement(next(tasks[id(fill.demand)]), fill.demand, fill.bin, picked.bits))
    return found


def _loose_only(view: QuotaView, parts: Sequence[Demand]) -> list[VirtualPlacement] | None:
    free = {cell: view.free(cell) for cell in view.loose()}
    if not free:
        return None
    found = []
    for demand in parts:
        for task in demand.tasks:
            cell = next((one for one, mask in free.items() if mask.bit_count() >= demand.gpus), None)
            if cell is None:
                return None
            leaves = _lowest(view, cell, free[cell], demand.gpus)
            free[cell] &= ~leaves
            found.append(VirtualPlacement(task, demand, cell, leaves))
    return found


def _lowest(view: QuotaView, cell: int, free: int, count: int) -> int:
    """The lowest unused leaves (`used_first`: used ones), then the lowest of the others."""
    in_use = free & view.allocator.used[cell]
    before = in_use if view.used_first else free & ~in_use
    some = min(count, before.bit_count())
    taken = lowest(before, some)
    return taken | lowest(free & ~taken, count - some)


def _mixed(view: QuotaView, parts: Sequence[Demand]) -> list[VirtualPlacement] | None:
    """Task by task, the largest first: a cell that holds it, else loose leaves."""
    taken = dict(view.taken)
    view = replace(view, taken=taken, known=None)
    found: list[VirtualPlacement] = []
    for demand in parts:
        for task in demand.tasks:
            one = (demand.part((task,)),)
            ways = (_loose_only, _cells_only) if demand.gpus == 1 else (_cells_only, _loose_only)
            assignment = ways[0](view, one) or ways[1](view, one)
            if assignment is None:
                return None
            found += assignment
            taken[assignment[0].cell] = taken.get(assignment[0].cell, 0) | assignment[0].leaves
    return found
