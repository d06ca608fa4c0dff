"""A place on idle cells for a job that borrows: taken from nobody."""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import CellIndex, Quota
from scheduling.cells.node_bits import bits, pick
from scheduling.cells.request import Unit
from scheduling.cells.resources import Demand
from scheduling.model.job import LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.placement.attempt import IdleNodes, PlacementAttempt
from scheduling.placement.bin_packing import Fill, find


def on_loan(placing: PlacementAttempt, unit: Unit) -> list[TaskPlacement]:
    """Places for all tasks of the unit, wherever they fit tightest; none where there is no room.

    A job that may move into its quota goes first where it can do so, and where few others can want the leaves.
    """
    allocator = placing.allocator
    placing.allowed &= _nodes_of(allocator, unit)
    parts = tuple(part.modestly() for part in unit.parts)
    fills = find(IdleNodes(placing, -1, lent=True), parts)
    if fills is None:
        return []
    better = () if placing.job.opportunistic or unit.others else _preferred(placing, unit)
    found = (find(IdleNodes(placing, nodes, lent=True), parts) for nodes in better if nodes)
    return _placed(placing, parts, next((some for some in found if some is not None), fills))


def _nodes_of(allocator: Allocator, unit: Unit) -> int:
    """Nodes of the chains that the unit's GPUs come from; tasks without GPUs go anywhere."""
    if unit.others:
        return -1
    of_chain = allocator.layout.nodes_of_chain
    return reduce(or_, (of_chain.get(pool.chain, 0) for pool in unit.pools), 0)


def _preferred(placing: PlacementAttempt, unit: Unit) -> Iterator[int]:
    """Masks of nodes, the best for a job on loan first: those of cells of its own virtual cluster, for only that one's
    jobs take leaves back there; of those in nobody's cells, where all of them may move in together, such as only its
    virtual cluster uses, then all. In another's cell it can never move in and has to go when that fills. Without
    effect where the quota is single leaves, which lie anywhere.
    """
    allocator, vc = placing.allocator, placing.job.vc
    quotas_of, quotas = allocator.layout.quotas_of, allocator.layout.quotas
    cells = [quotas[one] for pool in unit.pools for one in quotas_of.get((vc, pool.chain), ())]
    if all(quota.loose for quota in cells):
        return
    yield _homes(allocator, cells)
    unbound = reduce(or_, (members for key, members in allocator.groups.items() if not key[1]), 0)
    yield sum(
        1 << one for one in bits(unbound & placing.allowed) if placing.costs.all_of(vc, allocator.leaves_by_job[one])
    )
    yield unbound


def _homes(allocator: Allocator, cells: Iterable[Quota]) -> int:
    """Nodes that lie wholly in these quota cells now."""
    layout, found = allocator.layout, 0
    for quota in cells:
        place = allocator.place[quota.number]
        if place is not None and place.upper >= 0:
            found |= layout.uppers[place.upper].nodes
        elif place is not None and quota.shape.width == len(layout.leaf_ids[place.node]):
            found |= 1 << place.node
    return found


def _placed(placing: PlacementAttempt, parts: tuple[Demand, ...], fills: list[Fill]) -> list[TaskPlacement]:
    layout, placed = placing.allocator.layout, []
    free: dict[int, int] = {}
    tasks = {id(part): iter(part.tasks) for part in parts}
    for fill in sorted(fills, key=lambda one: -one.demand.gpus):
        for _ in range(fill.count):
            left = free.get(fill.bin, placing.idle(fill.bin) & ~placing.resting.get(fill.bin, 0))
            picked = pick(layout.shapes[fill.bin].sizes, left, fill.demand.gpus) if fill.demand.gpus else None
            mine = picked.bits if picked else 0
            free[fill.bin] = left & ~mine
            placed.append(on_these(layout, fill.demand, next(tasks[id(fill.demand)]), fill.bin, mine))
    return placed


def on_these(layout: CellIndex, demand: Demand, task: TaskRef, number: int, leaves: int) -> TaskPlacement:
    """A task on these leaves (a mask) of a node, outside every quota."""
    ids = layout.leaf_ids[number]
    uses = tuple(LeafUse(ids[bit], None, Standing.BORROWED) for bit in bits(leaves))
    return TaskPlacement(task, layout.nodes[number].id, uses, demand.cpu_milli, demand.memory_mb)
