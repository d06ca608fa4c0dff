"""Which virtual cells leaves take that are given, not chosen, by HiveD's rule (`mapPhysicalCellToVirtual`).

From the leaf upwards, the first ancestor that is bound decides; else at the level of the quota cell the first free
one of the virtual cluster, or the one of lowest priority below the job's, whose groups are then demoted.
"""

from dataclasses import dataclass

from scheduling.model.job import Job, TaskPlacement
from scheduling.model.snapshot import Snapshot
from tests.hived.binding import Bindings, Bound, Grid, Leaves, QuotaCell, Use


@dataclass(frozen=True, slots=True)
class Kind:
    """The quota a task's leaves come from: a cell type, or a pinned cell by its id."""

    cell_type: str
    pinned: str = ""


class Mapper:
    """Finds virtual cells for physical leaves, keeping count of what it gave; `evicted` lose theirs by it."""

    def __init__(self, bindings: Bindings, job: Job, may_evict: bool) -> None:
        self.bindings = bindings
        self.grid = bindings.grid
        self.job = job
        self.may_evict = may_evict
        self.evicted: set[str] = set()

    def give(self, leaf: str, kind: Kind) -> str | None:
        """Address of the virtual cell for a leaf; None where there is no legal one."""
        physical = self.grid.pinned.get(kind.pinned) or self.grid.around.get((kind.cell_type, leaf))
        if physical is None or leaf not in physical:
            return None
        cell = self.bindings.at(physical)
        if cell is not None and cell in self.bindings.bound:
            for position, use in self.bindings.bound[cell].uses.items():
                if use.leaf == leaf:  # it is taken from a victim, with its virtual cell
                    return self._enter(cell, position, leaf) if cell.vc == self.job.vc else None
        if cell is None:
            cell = self._fresh(physical, kind)
        if cell is None or cell.vc != self.job.vc or Kind(cell.cell_type, cell.pinned) != kind:
            return None
        found = self._position(cell, physical, physical.index(leaf))
        return None if found is None else self._enter(cell, found, leaf)

    def _enter(self, cell: QuotaCell, position: int, leaf: str) -> str:
        """The job has the leaf from now on; the address of its virtual cell."""
        address = self.grid.address(cell, position)
        bound = self.bindings.bound.get(cell)
        if bound is not None:
            bound.uses.pop(position, None)
        self.bindings.add(Use(leaf, address, self.job.id, self.job.priority))
        return address

    def _fresh(self, physical: Leaves, kind: Kind) -> QuotaCell | None:
        """A quota cell to bind to a physical cell that lies in no bound one and holds none."""
        if not self.bindings.taken().isdisjoint(physical):
            return None
        chain = self.grid.chain_of_leaf[physical[0]]
        mine = [one for one in self.grid.quota.get(self.job.vc, []) if not one.pinned]
        mine = [one for one in mine if (one.chain, one.cell_type) == (chain, kind.cell_type)]
        for cell in mine:
            if cell not in self.bindings.bound:
                return cell
        lower = [one for one in mine if self.bindings.bound[one].priority < self.job.priority]
        if not lower or not self.may_evict:
            return None
        cell = min(lower, key=lambda one: self.bindings.bound[one].priority)
        gone = {use.job for use in self.bindings.bound[cell].uses.values()}
        self.evicted |= gone
        self.bindings.drop(gone)
        return cell

    def _position(self, cell: QuotaCell, physical: Leaves, place: int) -> int | None:
        """The position in the quota cell for a place in the physical cell it is (to be) bound to."""
        sizes = self.grid.sizes[cell.chain, cell.cell_type]
        uses = self.bindings.bound.get(cell, Bound(physical)).uses
        pairs = {position: physical.index(use.leaf) for position, use in uses.items()}
        first = 0
        for above, size in zip(sizes, sizes[1:], strict=False):
            blocks = {one // size: other // size for one, other in pairs.items()}
            bound = next((mine for mine, other in blocks.items() if other == place // size), None)
            if bound is None:
                inside = range(first // size, (first + above) // size)
                bound = next((one for one in inside if one not in blocks), None)
            if bound is None:
                return None
            first = bound * size
        return None if first in pairs else first


def bound_anew(
    state: Snapshot, grid: Grid, job: Job, placements: tuple[TaskPlacement, ...]
) -> tuple[TaskPlacement, ...]:
    """The places of a group that binds, in the virtual cells that it then takes: HiveD looks them up from the physical
    ones, and has forgotten in which it planned the group."""
    mapper = Mapper(Bindings.of(state, grid), job, may_evict=False)
    made = []
    for placement in placements:
        uses = []
        for use in placement.leaves:
            planned = grid.find(use.virtual_cell) if use.virtual_cell else None
            cell = mapper.give(use.leaf, Kind(planned[0].cell_type, planned[0].pinned)) if planned else None
            uses.append(use._replace(virtual_cell=cell or use.virtual_cell))
        made.append(placement._replace(leaves=tuple(uses)))
    return tuple(made)
