"""Places that are given, not chosen: of groups that ran before a restart, and of recorded decisions.

Which virtual cells they take follows HiveD's rule (`mapper`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain as joined

from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Demotion
from tests.hived.binding import Bindings, uses_of
from tests.hived.mapper import Kind, Mapper
from tests.hived.world import Group, World

MOST_STEPS = 20_000
"""Ways that are tried to find virtual cells for one recorded group."""


@dataclass(frozen=True, slots=True)
class Place:
    """A task's physical leaves on one node, in the order of the record."""

    task: TaskRef
    node: str
    leaves: tuple[str, ...]

    def borrowed(self) -> TaskPlacement:
        """The task there, outside every quota."""
        return self.placed([None] * len(self.leaves))

    def placed(self, cells: list[str | None]) -> TaskPlacement:
        """The task there, in these virtual cells."""
        uses = (
            LeafUse(leaf, cell, Standing.BORROWED if cell is None else Standing.GUARANTEED)
            for leaf, cell in zip(self.leaves, cells, strict=True)
        )
        return TaskPlacement(self.task, self.node, tuple(uses), 0, 0)


def recover(world: World, group: str) -> None:
    """A group that ran before a restart runs on: on what is left of its GPUs, be it nothing, in its quota where that is
    legal."""
    job, before = world.last[group]
    places, kinds = [], []
    for placement in before:
        kept = [(leaf, use) for use in placement.leaves if (leaf := _found_again(world, use.leaf)) is not None]
        if kept:
            places.append(Place(placement.task, world.node_of(kept[0][0]), tuple(leaf for leaf, _ in kept)))
            kinds.append([kind_of(world, use.virtual_cell, job.vc) for _, use in kept])
    mapper = Mapper(Bindings.of(world.snapshot(), world.grid), job, may_evict=True)
    placed = []
    for place, wanted in zip(places, kinds, strict=True):
        cells = [mapper.give(leaf, kind) if kind else None for leaf, kind in zip(place.leaves, wanted, strict=True)]
        placed.append(place.placed(cells))
    owed = any(kind is not None for kind in joined.from_iterable(kinds))
    legal = all(use.virtual_cell for placement in placed for use in placement.leaves)
    if owed and not (legal and not mapper.bindings.shortages()):
        placed = [place.borrowed() for place in places]
    else:
        for name in sorted(mapper.evicted):
            world.engine.demote(Demotion(name, group))
    if placed:
        world.start(job, tuple(placed))
    else:  # all its GPUs have left the configuration: it runs on all the same, on nothing that is known
        world.groups[group] = Group(job)
    world.last[group] = (job, before)


def _found_again(world: World, leaf: str) -> str | None:
    """The leaf in the present cluster: in its chain, else in another chain of the same machine."""
    node, index = leaf.rsplit(":", 1)
    ids = [node, *world.nodes_of.get(node.split("@")[0], [])]
    return next((f"{one}:{index}" for one in ids if f"{one}:{index}" in world.leaf_node), None)


def kind_of(world: World, address: str | None, vc: str) -> Kind | None:
    """The kind of quota that a virtual cell's address names, None outside every quota."""
    if address is None:
        return None
    name = address.removeprefix(f"{vc}/").split("/")[0]
    if not name.startswith("pinned:"):
        return Kind(name.rsplit(":", 1)[-1])
    pinned = name.removeprefix("pinned:")
    types = {one.id: one.cell_type for one in world.cluster.pinned_cells}
    return Kind(types.get(pinned, ""), pinned)


# What was recorded


def virtual_cells(
    world: World, job: Job, places: list[Place], told: dict[TaskRef, Kind], without: frozenset[str]
) -> tuple[TaskPlacement, ...] | None:
    """The places of a recorded group with virtual cells; None where no legal ones are found.

    `told` is the kind of quota that our own decision took for a task: a record does not name it. Leaves that lie
    in a bound cell of the virtual cluster leave no choice; where there is one, what was told is tried first.
    Jobs in `without` are demoted by it and hold nothing any more.
    """
    if job.opportunistic:
        return tuple(place.borrowed() for place in places)
    bindings = Bindings(world.grid, uses_of(world.snapshot(), without | {job.id}))
    found = _search(world, job, places, told, bindings, iter(range(MOST_STEPS)))
    return None if found is None else tuple(found)


def leaves_held(places: Iterable[Place]) -> set[str]:
    """All leaves of these places."""
    return set(joined.from_iterable(place.leaves for place in places))


def _search(
    world: World,
    job: Job,
    places: list[Place],
    told: dict[TaskRef, Kind],
    bindings: Bindings,
    steps: Iterator[int],
) -> list[TaskPlacement] | None:
    """Depth first: one task after the other in the kinds that may hold it; at the end the quotas must be safe."""
    if not places:
        return [] if not bindings.shortages() else None
    place = places[0]
    for kind in _kinds(world, job, place, told.get(place.task)):
        if next(steps, None) is None:
            return None
        copy = bindings.copy()
        mapper = Mapper(copy, job, may_evict=False)
        cells = [mapper.give(leaf, kind) for leaf in place.leaves]
        if all(cells):
            rest = _search(world, job, places[1:], told, copy, steps)
            if rest is not None:
                return [place.placed(cells), *rest]
    return None


def _kinds(world: World, job: Job, place: Place, told: Kind | None) -> list[Kind]:
    """Kinds of quota that could hold a whole task: what was told first, then from large to small."""
    pinned = {role.name: role.pinned_cell for role in job.roles}[place.task.role]
    cells = world.grid.quota.get(job.vc, [])
    kinds = dict.fromkeys(
        Kind(cell.cell_type, cell.pinned)
        for cell in sorted(cells, key=lambda cell: -world.grid.size(cell))
        if cell.pinned == (pinned or "") and cell.chain == world.grid.chain_of_leaf[place.leaves[0]]
    )
    around = world.grid.around
    whole = [one for one in kinds if len({around.get((one.cell_type, leaf)) for leaf in place.leaves}) == 1]
    return sorted(whole, key=lambda kind: kind != told)
