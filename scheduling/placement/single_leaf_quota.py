"""Quota counted in single leaves, which are tied to no place: hardware for tasks that use it."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from scheduling.cells.cell_index import PhysicalCell, Quota
from scheduling.cells.node_bits import bits, pick
from scheduling.cells.resources import Demand
from scheduling.placement.attempt import IdleNodes, PlacementAttempt
from scheduling.placement.bin_packing import find
from scheduling.placement.virtual_placement import VirtualPlacement
from scheduling.preemption.victim_cost import Loss


def place_loose(placing: PlacementAttempt, quota: Quota, assignments: list[VirtualPlacement]) -> bool:
    """Binds all assignments: to leaves of the tasks that end for them, to idle ones on the fewest nodes, else one task
    after the other where least is taken back.

    Only where that fails may other leaves of ending tasks do: their virtual leaves would be free before the tasks
    are gone, and stand open to jobs that come after theirs.
    """
    rest = [assignment for assignment in assignments if not _in_place(placing, assignment)]
    ways = (False, True) if placing.ending else (False,)
    if placing.alone and rest and _at_once(placing, quota, rest[0]):
        return True
    return not rest or any(placing.attempt(partial(_place, placing, quota, rest, swap)) for swap in ways)


def _at_once(placing: PlacementAttempt, quota: Quota, assignment: VirtualPlacement) -> bool:
    """The only task, where nobody's leaves are wanted: what `_place` finds first."""
    if placing.ending or assignment.leaves & placing.allocator.used[assignment.cell]:
        return False
    nodes = placing.allocator.layout.nodes_of_chain.get(quota.chain, 0)
    fills = find(IdleNodes(placing, nodes, unbound=True), (assignment.demand,))
    return fills is not None and placing.attempt(partial(_bind_idle, placing, [(fills[0].bin, assignment)]))


def _in_place(placing: PlacementAttempt, assignment: VirtualPlacement) -> bool:
    """A virtual leaf that a task has to leave stays on its physical one."""
    allocator = placing.allocator
    if assignment.demand.gpus != 1 or not assignment.leaves & allocator.used[assignment.cell]:
        return False
    number, bit = allocator.physical_of(assignment.cell, next(bits(assignment.leaves)))
    usable = allocator.healthy[number] & ~allocator.claimed[number]
    if not placing.allowed >> number & 1 or not usable >> bit & 1:
        return False
    return placing.attempt(partial(_bind, placing, number, 1 << bit, assignment))


def _place(placing: PlacementAttempt, quota: Quota, assignments: list[VirtualPlacement], swap: bool) -> bool:
    placing.swap = swap
    _give_up(placing, assignments)
    nodes = placing.allocator.layout.nodes_of_chain.get(quota.chain, 0)
    plan = _idle_plan(placing, nodes, assignments)
    if plan is not None:
        if placing.attempt(partial(_bind_idle, placing, plan)):
            return True
        if any(_elsewhere(placing, nodes, assignments, plan, wrong) for wrong in (_unsafe, _splitting)):
            return True
    return placing.evict and placing.attempt(partial(_bind_evicting, placing, nodes, assignments))


Plan = list[tuple[int, VirtualPlacement]]
"""Assignments, each with its node."""


def _idle_plan(placing: PlacementAttempt, nodes: int, assignments: list[VirtualPlacement]) -> Plan | None:
    """The fewest of these nodes that have idle leaves for all assignments."""
    fills = find(IdleNodes(placing, nodes, unbound=True), _demands(assignments))
    if fills is None:
        return None
    by_task = {assignment.task: assignment for assignment in assignments}
    tasks = {id(fill.demand): iter(fill.demand.tasks) for fill in fills}
    return [(fill.bin, by_task[next(tasks[id(fill.demand)])]) for fill in fills for _ in range(fill.count)]


def _elsewhere(
    placing: PlacementAttempt,
    nodes: int,
    assignments: list[VirtualPlacement],
    plan: Plan,
    wrong: Callable[[PlacementAttempt, Plan], int],
) -> bool:
    """Where a plan would split a cell that is reserved: tries other plans, each without the nodes that are `wrong` in
    the one before."""
    found: Plan | None = plan
    while found is not None:
        out = wrong(placing, found)
        nodes &= ~out
        found = _idle_plan(placing, nodes, assignments) if out else None
        if found is not None and placing.attempt(partial(_bind_idle, placing, found)):
            return True
    return False


def _demands(assignments: list[VirtualPlacement]) -> tuple[Demand, ...]:
    """The tasks, equal ones together, largest first."""
    alike: dict[tuple[int, int, int], list[VirtualPlacement]] = {}
    for assignment in assignments:
        demand = assignment.demand
        alike.setdefault((demand.gpus, demand.cpu_milli, demand.memory_mb), []).append(assignment)
    return tuple(
        group[0].demand.part(tuple(one.task for one in group))
        for _, group in sorted(alike.items(), key=lambda one: one[0], reverse=True)
    )


def _give_up(placing: PlacementAttempt, assignments: list[VirtualPlacement]) -> None:
    """What other jobs have of these virtual leaves is theirs no more."""
    allocator = placing.allocator
    for one in (one for one in assignments if one.leaves & allocator.used[one.cell]):
        for owner, mask in list(allocator.owners[one.cell].items()):
            if mask & one.leaves:
                allocator.unbind(owner, one.cell, mask & one.leaves)


def _free(placing: PlacementAttempt, number: int) -> int:
    allocator = placing.allocator
    in_use = allocator.busy[number] & ~placing.ending_on(number)
    return allocator.healthy[number] & ~allocator.claimed[number] & placing.unbound_on(number) & ~in_use


def _bind_idle(placing: PlacementAttempt, plan: Plan) -> bool:
    for number, assignment in plan:
        picked = pick(placing.allocator.layout.shapes[number].sizes, _free(placing, number), assignment.demand.gpus)
        if picked is None or not _bind(placing, number, picked.bits, assignment):
            return False
    return True


def _unsafe(placing: PlacementAttempt, plan: Plan) -> int:
    """The first node of the plan that cannot take its tasks beside the nodes before it, because a larger cell would
    be split; the first of all where that is none. Nothing is left changed."""
    fit: list[int] = []

    def one_by_one() -> bool:
        for number in dict.fromkeys(number for number, _ in plan):
            ours = [one for one in plan if one[0] == number]
            if not placing.attempt(partial(_bind_idle, placing, ours)):
                break
            fit.append(number)
        return False

    placing.attempt(one_by_one)
    return 1 << next((number for number, _ in plan if number not in fit), plan[0][0]) if plan else 0


def _splitting(placing: PlacementAttempt, plan: Plan) -> int:
    """The first node of the plan where a larger cell is split: what it spends so may be wanted where more is idle."""
    for number, assignment in plan:
        picked = pick(placing.allocator.layout.shapes[number].sizes, _free(placing, number), assignment.demand.gpus)
        if picked is not None and any(
            placing.allocator.split_by(PhysicalCell(number, bit), 1) for bit in bits(picked.bits)
        ):
            return 1 << number
    return 0


def _bind(
    placing: PlacementAttempt, number: int, mask: int, assignment: VirtualPlacement, make_room: bool = True
) -> bool:
    if not placing.pay(number, mask, [assignment.demand], make_room=make_room):
        return False
    placing.bind(number, dict(zip(bits(assignment.leaves), bits(mask), strict=True)), assignment)
    return True


def _bind_evicting(placing: PlacementAttempt, nodes: int, assignments: list[VirtualPlacement]) -> bool:
    for assignment in sorted(assignments, key=lambda one: (-one.demand.gpus, one.task)):
        idle, in_use = _choices(placing, nodes, assignment.demand)
        calm = partial(_free_leaves, placing, assignment.demand, idle)
        more = chain(in_use, _leaf_by_leaf(placing, nodes, assignment.demand))
        ways = ((calm(), False), (calm(), True), (more, True))
        places = ((number, mask, make_room) for some, make_room in ways for number, mask in some)
        if not any(placing.attempt(partial(_bind, placing, one, mask, assignment, room)) for one, mask, room in places):
            return False
    return True


def _leaf_by_leaf(placing: PlacementAttempt, nodes: int, demand: Demand) -> Iterator[tuple[int, int]]:
    """Every leaf that one GPU may have, those that split the fewest larger cells first: where the leaf that is taken
    back at the least loss would break a reserved cell, another one never does."""
    if demand.gpus != 1:
        return
    allocator, ranked = placing.allocator, []
    for number in bits(nodes & placing.allowed):
        usable = allocator.healthy[number] & ~allocator.claimed[number] & placing.unbound_on(number)
        for bit in bits(usable):
            paid, _ = placing.price(number, 1 << bit, 1)
            ranked.append((len(allocator.split_by(PhysicalCell(number, bit), 1)), paid, number, bit))
    for _, _, number, bit in sorted(ranked):
        yield number, 1 << bit


def _choices(placing: PlacementAttempt, nodes: int, demand: Demand) -> tuple[list[int], Iterator[tuple[int, int]]]:
    """Nodes where no GPU is taken back, the tightest fit first; and others with the leaves to take there, where the
    loss is least, of equals where the fewest are taken back, then the tightest fit."""
    allocator, calm, in_use = placing.allocator, 0, 0
    for (shape, bound, _, busy, blocked), members in allocator.groups.items():
        members &= nodes & placing.allowed
        sound = allocator.shapes[shape].full & ~blocked
        if placing.ending:
            alike = [(sound & placing.unbound_on(one), _free(placing, one), 1 << one) for one in bits(members)]
        else:
            alike = [(sound & ~bound, sound & ~bound & ~busy, members)]
        for usable, free, where in alike:
            if free.bit_count() >= demand.gpus:
                calm |= where
            elif usable.bit_count() >= demand.gpus:
                in_use |= where
    fits = sorted((_free(placing, number).bit_count(), number) for number in bits(calm))
    dearer = placing.least_first(in_use, partial(_losses, placing, demand))
    return [number for _, number in fits], ((number, mine) for *_, number, mine in dearer)


def _free_leaves(placing: PlacementAttempt, demand: Demand, numbers: list[int]) -> Iterator[tuple[int, int]]:
    return ((number, mine) for number in numbers for *_, mine in _losses(placing, demand, number))


def _losses(placing: PlacementAttempt, demand: Demand, number: int) -> Iterator[Loss]:
    """The leaves of a node for a task, free ones first; none where they lie too far apart."""
    allocator = placing.allocator
    free = _free(placing, number)
    usable = allocator.healthy[number] & ~allocator.claimed[number] & placing.unbound_on(number)
    evicted = max(0, demand.gpus - free.bit_count())
    paid, more = placing.price(number, usable & ~free, evicted)
    picked = pick(allocator.layout.shapes[number].sizes, free | more, demand.gpus)
    if picked is not None:
        yield paid, (evicted, free.bit_count()), number, picked.bits
