"""Which virtual cell is bound to which physical one, read from a snapshot (HiveD's bindings).

A quota cell (HiveD: a preassigned cell) is one unit of a virtual cluster's quota. It is bound to a physical cell
of its type while something guaranteed runs in it, and within it every cell used is bound to one of the physical
cell's parts, so that what is close in the virtual cluster is close in the cluster. Quota cell and physical cell
are made alike: a leaf's position in either, divided by the size of a level, is its cell of that level.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain as joined
from typing import NamedTuple

from scheduling.diagnosis.doomed_cells import Doomed
from scheduling.model.cell_tree import CellTree, Type, chain_of
from scheduling.model.cluster import Cluster
from scheduling.model.description import NodeState, VirtualCluster
from scheduling.model.job import Job
from scheduling.model.snapshot import Snapshot
from scheduling.model.validate import Shortage, short_of

Leaves = tuple[str, ...]
"""A physical cell: its leaves in the order of its tree."""


class QuotaCell(NamedTuple):
    """One unit of a quota; `pinned` is the id of the pinned cell that it is, else empty."""

    vc: str
    chain: str
    cell_type: str
    number: int
    pinned: str = ""


class Use(NamedTuple):
    """A leaf that a job has or claims inside a quota, in this virtual cell."""

    leaf: str
    virtual_cell: str
    job: str
    priority: int


class Grid:
    """The physical cells of a cluster by their leaves, and its quota cells by their addresses."""

    def __init__(self, cluster: Cluster) -> None:
        sites = CellTree(cluster)
        self.cells: dict[Type, list[Leaves]] = {}
        self.sizes: dict[Type, tuple[int, ...]] = {}
        self.parents = sites.parents()
        self.chain_of_leaf: dict[str, str] = {}
        self.bad = {
            leaf.id
            for node in cluster.nodes
            for leaf in node.leaves
            if node.state is NodeState.DOWN or not leaf.healthy
        }
        for node in cluster.nodes:
            whole, levels = tuple(leaf.id for leaf in node.leaves), list(sites.levels(node).items())
            for number, (name, size) in enumerate(levels):
                self.sizes[chain_of(node), name] = tuple(part for _, part in levels[number:])
                cells = self.cells.setdefault((chain_of(node), name), [])
                cells += [whole[first : first + size] for first in range(0, len(whole), size or 1)]
            self.chain_of_leaf |= dict.fromkeys(whole, chain_of(node))
        self._add_upper(sites)
        self.around = {
            (cell_type, leaf): cell for (_, cell_type), cells in self.cells.items() for cell in cells for leaf in cell
        }
        self.pinned: dict[str, Leaves] = {}
        for pinned in cluster.pinned_cells:
            leaves = sites.nodes[pinned.at].leaves if pinned.at in sites.nodes else ()
            first = leaves[pinned.first].id if leaves else self._first_leaf(sites, pinned.at)
            self.pinned[pinned.id] = self.around[pinned.cell_type, first]
        self.quota = {vc.id: list(_quota_cells(vc, sites)) for vc in cluster.virtual_clusters}
        self._names = {cell: _name(cell, sites) for cell in joined.from_iterable(self.quota.values())}
        self._by_name = {(cell.vc, self._names[cell], cell.number): cell for cell in self._names}

    def size(self, cell: QuotaCell) -> int:
        """Number of leaves of a quota cell."""
        return self.sizes[cell.chain, cell.cell_type][0]

    def types_around(self, leaf: str) -> list[str]:
        """The cell types that a leaf lies in, its own first and its top cell's last."""
        chain = self.chain_of_leaf[leaf]
        found = [
            name for (of, name), sizes in self.sizes.items() if of == chain and sizes == (1,) and self._has(name, leaf)
        ]
        while True:
            above = [name for _, name in self.parents.get((chain, found[-1]), {}) if self._has(name, leaf)]
            if not above:
                return found
            found.append(above[0])

    def _has(self, cell_type: str, leaf: str) -> bool:
        return (cell_type, leaf) in self.around

    def address(self, cell: QuotaCell, position: int) -> str:
        """Address of a leaf of a quota cell."""
        whole = f"{cell.vc}/{self._names[cell]}/{cell.number}"
        counted = len(self.sizes[cell.chain, cell.cell_type]) == 1 and not cell.pinned  # in leaves, not in nodes of one
        return whole if counted else f"{whole}/{position}"

    def find(self, address: str) -> tuple[QuotaCell, int] | None:
        """Quota cell and position of a virtual leaf; None where the cluster has no such quota any more."""
        parts = address.rsplit("/", 3 if self._is_long(address) else 2)
        vc, name, number = parts[:3]
        cell = self._by_name.get((vc, name, int(number)))
        return None if cell is None else (cell, int(parts[3]) if len(parts) > 3 else 0)

    def _is_long(self, address: str) -> bool:
        vc, name, number = address.rsplit("/", 2)
        return (vc, name, int(number)) not in self._by_name

    def _add_upper(self, sites: CellTree) -> None:
        leaves: dict[str, Leaves] = {node.id: tuple(leaf.id for leaf in node.leaves) for node in sites.nodes.values()}

        def whole(address: str) -> Leaves:
            if address not in leaves:
                leaves[address] = tuple(joined.from_iterable(map(whole, sites.upper[address].children)))
            return leaves[address]

        for address, cell in sites.upper.items():
            kind = (sites.chain_at(address), cell.cell_type)
            self.cells.setdefault(kind, []).append(whole(address))
        for chain, name in [one for one in self.cells if one not in self.sizes]:
            below, sizes = sites.types[name].child, [len(self.cells[chain, name][0])]
            while (chain, below) not in self.sizes:
                sizes.append(len(self.cells[chain, below][0]))
                below = sites.types[below].child
            self.sizes[chain, name] = (*sizes, *self.sizes[chain, below])

    def _first_leaf(self, sites: CellTree, address: str) -> str:
        while address in sites.upper:
            address = sites.upper[address].children[0]
        return sites.nodes[address].leaves[0].id


def _quota_cells(vc: VirtualCluster, sites: CellTree) -> Iterable[QuotaCell]:
    for line in vc.quota:
        chain = line.chain or next(iter(sites.chains_with(line.cell_type)), "")
        for number in range(line.count):
            yield QuotaCell(vc.id, chain, line.cell_type, number)
    for name in vc.pinned:
        cell = sites.pinned[name]
        yield QuotaCell(vc.id, sites.chain_at(cell.at), cell.cell_type, 0, name)


def _name(cell: QuotaCell, sites: CellTree) -> str:
    if cell.pinned:
        return f"pinned:{cell.pinned}"
    first = next(iter(sites.chains_with(cell.cell_type)), cell.chain)
    return cell.cell_type if cell.chain == first else f"{cell.chain}:{cell.cell_type}"


@dataclass(slots=True)
class Bound:
    """A quota cell in use: the physical cell it is bound to, and its leaves in use by position in the quota cell."""

    physical: Leaves
    uses: dict[int, Use] = field(default_factory=dict)

    @property
    def priority(self) -> int:
        """The highest priority in it."""
        return max(use.priority for use in self.uses.values())


class Bindings:
    """All bindings of one moment. `broken`: uses that fit no binding, since the snapshot contradicts itself."""

    def __init__(self, grid: Grid, uses: Iterable[Use]) -> None:
        self.grid = grid
        self.bound: dict[QuotaCell, Bound] = {}
        self.broken: list[Use] = []
        for use in uses:
            self.add(use)

    @classmethod
    def of(cls, snapshot: Snapshot, grid: Grid | None = None, without: frozenset[str] = frozenset()) -> "Bindings":
        """The bindings of a snapshot: a claimed leaf counts for its claimant; jobs in `without` are left out."""
        return cls(grid or Grid(snapshot.cluster), uses_of(snapshot, without))

    def add(self, use: Use) -> None:
        """Count a use; it is `broken` where it contradicts those counted before."""
        found = self.grid.find(use.virtual_cell)
        physical = self.grid.around.get((found[0].cell_type, use.leaf)) if found else None
        if found is None or physical is None:
            self.broken.append(use)
            return
        cell, position = found
        bound = self.bound.get(cell) or Bound(self.grid.pinned.get(cell.pinned, physical))
        if bound.physical != physical or not self._matches(cell, bound, position, physical.index(use.leaf)):
            self.broken.append(use)
            return
        self.bound[cell] = bound
        bound.uses[position] = use

    def drop(self, jobs: set[str]) -> None:
        """Forget the uses of these jobs."""
        for cell, bound in list(self.bound.items()):
            bound.uses = {position: use for position, use in bound.uses.items() if use.job not in jobs}
            if not bound.uses:
                del self.bound[cell]

    def copy(self) -> "Bindings":
        """The same, to go on by itself."""
        made = Bindings(self.grid, ())
        made.bound = {cell: Bound(bound.physical, dict(bound.uses)) for cell, bound in self.bound.items()}
        made.broken = list(self.broken)
        return made

    def at(self, physical: Leaves) -> QuotaCell | None:
        """The quota cell that is bound to this very physical cell, or pinned to it."""
        for cell in joined.from_iterable(self.grid.quota.values()):
            if cell.pinned and self.grid.pinned[cell.pinned] == physical:
                return cell
        return next((cell for cell, bound in self.bound.items() if bound.physical == physical), None)

    def taken(self) -> set[str]:
        """Leaves of all physical cells that are bound or pinned."""
        used = (bound.physical for bound in self.bound.values())
        owned = (self.grid.pinned[one.pinned] for cells in self.grid.quota.values() for one in cells if one.pinned)
        return set(joined.from_iterable((*used, *owned)))

    def free(self, vc: str) -> list[QuotaCell]:
        """Quota cells of a virtual cluster that are not bound and not pinned."""
        return [cell for cell in self.grid.quota.get(vc, []) if cell not in self.bound and not cell.pinned]

    def whole(self) -> dict[Type, list[Leaves]]:
        """The physical cells of each type that no bound or pinned cell touches."""
        taken = self.taken()
        return {kind: [one for one in cells if taken.isdisjoint(one)] for kind, cells in self.grid.cells.items()}

    def shortages(self) -> tuple[Shortage, ...]:
        """Types of which the unbound quota needs more than is whole: HiveD's safety, broken."""
        owned: dict[Type, int] = {}
        for cell in joined.from_iterable(self.free(vc) for vc in self.grid.quota):
            owned[cell.chain, cell.cell_type] = owned.get((cell.chain, cell.cell_type), 0) + 1
        available = {kind: len(cells) for kind, cells in self.whole().items()}
        return short_of(owned, available, self.grid.parents)

    def _matches(self, cell: QuotaCell, bound: Bound, position: int, place: int) -> bool:
        """Whether a virtual position may be bound to a physical place, level by level, and is not in use."""
        if position in bound.uses or not 0 <= position < len(bound.physical):
            return False
        pairs = [(one, bound.physical.index(use.leaf)) for one, use in bound.uses.items()]
        return all(
            (one // size == position // size) == (other // size == place // size)
            for size in self.grid.sizes[cell.chain, cell.cell_type]
            for one, other in pairs
        )


def uses_of(snapshot: Snapshot, without: frozenset[str] = frozenset()) -> list[Use]:
    """What jobs have or claim inside quotas; jobs in `without` are left out."""
    jobs: dict[str, Job] = {one.job.id: one.job for one in snapshot.running} | {one.id: one for one in snapshot.waiting}
    claimed = {one.leaf for one in snapshot.claims if one.claimant not in without}
    uses = [
        Use(use.leaf, use.virtual_cell, running.job.id, running.job.priority)
        for running in snapshot.running
        for use in joined.from_iterable(task.placement.leaves for task in running.tasks)
        if use.virtual_cell is not None and use.leaf not in claimed and running.job.id not in without
    ]
    uses += [
        Use(one.leaf, one.virtual_cell, one.claimant, jobs[one.claimant].priority if one.claimant in jobs else 0)
        for one in snapshot.claims
        if one.virtual_cell and one.claimant not in without
    ]
    return uses


def doomed_among(bindings: Bindings) -> tuple[Doomed, ...]:
    """The doomed cells where these bindings hold."""
    bad = bindings.grid.bad
    good = {kind: sum(bad.isdisjoint(one) for one in cells) for kind, cells in bindings.whole().items()}
    found = []
    for vc in bindings.grid.quota:
        free = Counter((cell.chain, cell.cell_type) for cell in bindings.free(vc))
        short = ((kind, count - good.get(kind, 0)) for kind, count in free.items())
        found += [Doomed(vc, *kind, count) for kind, count in short if count > 0]
    return tuple(sorted(found))
