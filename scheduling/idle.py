"""A place on idle cells for a job that borrows: taken from nobody."""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

from scheduling.ground import Ground, Idle
from scheduling.jobs import LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.layout import Layout, Quota
from scheduling.ledger import Ledger
from scheduling.resources import Demand
from scheduling.search import Fill, find
from scheduling.shapes import Unit
from scheduling.topology import bits, pick


def on_loan(ground: Ground, unit: Unit) -> list[TaskPlacement]:
    """Places for all tasks of the unit, wherever they fit tightest; none where there is no room.

    A job that may move into its quota goes first where it can do so, and where few others can want the leaves.
    """
    ledger = ground.ledger
    ground.allowed &= _nodes_of(ledger, unit)
    parts = tuple(part.modestly() for part in unit.parts)
    fills = find(Idle(ground, -1, lent=True), parts)
    if fills is None:
        return []
    better = () if ground.job.opportunistic or unit.others else _preferred(ground, unit)
    found = (find(Idle(ground, nodes, lent=True), parts) for nodes in better if nodes)
    return _placed(ground, parts, next((some for some in found if some is not None), fills))


def _nodes_of(ledger: Ledger, unit: Unit) -> int:
    """Nodes of the chains that the unit's GPUs come from; tasks without GPUs go anywhere."""
    if unit.others:
        return -1
    of_chain = ledger.layout.nodes_of_chain
    return reduce(or_, (of_chain.get(pool.chain, 0) for pool in unit.pools), 0)


def _preferred(ground: Ground, unit: Unit) -> Iterator[int]:
    """Masks of nodes, the best for a job on loan first: those of cells of its own virtual cluster, for only that one's
    jobs take leaves back there; of those in nobody's cells, where all of them may move in together, such as only its
    virtual cluster uses, then all. In another's cell it can never move in and has to go when that fills. Without
    effect where the quota is single leaves, which lie anywhere.
    """
    ledger, vc = ground.ledger, ground.job.vc
    quotas_of, quotas = ledger.layout.quotas_of, ledger.layout.quotas
    cells = [quotas[one] for pool in unit.pools for one in quotas_of.get((vc, pool.chain), ())]
    if all(quota.loose for quota in cells):
        return
    yield _homes(ledger, cells)
    unbound = reduce(or_, (members for key, members in ledger.groups.items() if not key[1]), 0)
    yield sum(1 << one for one in bits(unbound & ground.allowed) if ground.costs.all_of(vc, ledger.held[one]))
    yield unbound


def _homes(ledger: Ledger, cells: Iterable[Quota]) -> int:
    """Nodes that lie wholly in these quota cells now."""
    layout, found = ledger.layout, 0
    for quota in cells:
        place = ledger.place[quota.number]
        if place is not None and place.upper >= 0:
            found |= layout.uppers[place.upper].nodes
        elif place is not None and quota.shape.width == len(layout.leaf_ids[place.node]):
            found |= 1 << place.node
    return found


def _placed(ground: Ground, parts: tuple[Demand, ...], fills: list[Fill]) -> list[TaskPlacement]:
    layout, placed = ground.ledger.layout, []
    free: dict[int, int] = {}
    tasks = {id(part): iter(part.tasks) for part in parts}
    for fill in sorted(fills, key=lambda one: -one.demand.gpus):
        for _ in range(fill.count):
            left = free.get(fill.bin, ground.idle(fill.bin) & ~ground.resting.get(fill.bin, 0))
            picked = pick(layout.shapes[fill.bin].sizes, left, fill.demand.gpus) if fill.demand.gpus else None
            mine = picked.bits if picked else 0
            free[fill.bin] = left & ~mine
            placed.append(on_these(layout, fill.demand, next(tasks[id(fill.demand)]), fill.bin, mine))
    return placed


def on_these(layout: Layout, demand: Demand, task: TaskRef, number: int, leaves: int) -> TaskPlacement:
    """A task on these leaves (a mask) of a node, outside every quota."""
    ids = layout.leaf_ids[number]
    uses = tuple(LeafUse(ids[bit], None, Standing.BORROWED) for bit in bits(leaves))
    return TaskPlacement(task, layout.nodes[number].id, uses, demand.cpu_milli, demand.memory_mb)
