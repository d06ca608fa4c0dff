"""Quota counted in single leaves, which are tied to no place: hardware for tasks that use it."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from scheduling import hived
from scheduling.ground import Ground, Idle
from scheduling.layout import Quota, Spot
from scheduling.preemption import Loss
from scheduling.resources import Demand
from scheduling.search import find
from scheduling.topology import bits, pick
from scheduling.virtual import Seat


def place_loose(ground: Ground, quota: Quota, seats: list[Seat]) -> bool:
    """Leaves for all seats: those of the tasks that end for them; such as nobody holds, on the fewest nodes; else one
    task after the other where least is taken back.

    Only where that fails may other leaves of ending tasks do: their virtual leaves would be free before the tasks
    are gone, and stand open to jobs that come after theirs. HiveD has an order of its own.
    """
    if ground.ledger.layout.policy.hived:
        return _in_order(ground, quota, seats)
    rest = [seat for seat in seats if not _in_place(ground, seat)]
    ways = (False, True) if ground.doomed else (False,)
    if ground.alone and rest and _at_once(ground, quota, rest[0]):
        return True
    return not rest or any(ground.attempt(partial(_place, ground, quota, rest, swap)) for swap in ways)


def _in_order(ground: Ground, quota: Quota, seats: list[Seat]) -> bool:
    """HiveD's way: the first leaf for each, one after the other; one that is bound stays where it is."""
    ledger = ground.ledger
    for seat in seats:
        if seat.leaves & ledger.used[seat.cell]:
            if not _in_place(ground, seat):
                return False
            continue
        spots = hived.spots(ledger, quota, ground.allowed)
        usable = (one for one in spots if ledger.healthy[one.node] & ~ledger.claimed[one.node] & 1 << one.base)
        spot = next(usable, None)
        if spot is None or not _sit(ground, spot.node, 1 << spot.base, seat):
            return False
    return True


def _at_once(ground: Ground, quota: Quota, seat: Seat) -> bool:
    """The only task, where nobody's leaves are wanted: what `_place` finds first."""
    if ground.doomed or seat.leaves & ground.ledger.used[seat.cell]:
        return False
    nodes = ground.ledger.layout.nodes_of_chain.get(quota.chain, 0)
    fills = find(Idle(ground, nodes, unbound=True), (seat.demand,))
    return fills is not None and ground.attempt(partial(_sit_idle, ground, [(fills[0].bin, seat)]))


def _in_place(ground: Ground, seat: Seat) -> bool:
    """A virtual leaf that a task has to leave stays on its physical one."""
    ledger = ground.ledger
    if seat.demand.gpus != 1 or not seat.leaves & ledger.used[seat.cell]:
        return False
    number, bit = ledger.physical_of(seat.cell, next(bits(seat.leaves)))
    usable = ledger.healthy[number] & ~ledger.claimed[number]
    if not ground.allowed >> number & 1 or not usable >> bit & 1:
        return False
    return ground.attempt(partial(_sit, ground, number, 1 << bit, seat))


def _place(ground: Ground, quota: Quota, seats: list[Seat], swap: bool) -> bool:
    ground.swap = swap
    _give_up(ground, seats)
    nodes = ground.ledger.layout.nodes_of_chain.get(quota.chain, 0)
    plan = _idle_plan(ground, nodes, seats)
    if plan is not None:
        if ground.attempt(partial(_sit_idle, ground, plan)):
            return True
        if any(_elsewhere(ground, nodes, seats, plan, wrong) for wrong in (_unsafe, _splitting)):
            return True
    return ground.evict and ground.attempt(partial(_sit_evicting, ground, nodes, seats))


Plan = list[tuple[int, Seat]]
"""Seats, each with its node."""


def _idle_plan(ground: Ground, nodes: int, seats: list[Seat]) -> Plan | None:
    """The fewest of these nodes that have leaves for all seats which nobody holds."""
    fills = find(Idle(ground, nodes, unbound=True), _demands(seats))
    if fills is None:
        return None
    by_task = {seat.task: seat for seat in seats}
    tasks = {id(fill.demand): iter(fill.demand.tasks) for fill in fills}
    return [(fill.bin, by_task[next(tasks[id(fill.demand)])]) for fill in fills for _ in range(fill.count)]


def _elsewhere(ground: Ground, nodes: int, seats: list[Seat], plan: Plan, wrong: Callable[[Ground, Plan], int]) -> bool:
    """Where a plan would split a cell that is owed to somebody: other plans, each without the nodes that are `wrong` in
    the one before."""
    found: Plan | None = plan
    while found is not None:
        out = wrong(ground, found)
        nodes &= ~out
        found = _idle_plan(ground, nodes, seats) if out else None
        if found is not None and ground.attempt(partial(_sit_idle, ground, found)):
            return True
    return False


def _demands(seats: list[Seat]) -> tuple[Demand, ...]:
    """The seats' tasks, equal ones together, largest first."""
    alike: dict[tuple[int, int, int], list[Seat]] = {}
    for seat in seats:
        demand = seat.demand
        alike.setdefault((demand.gpus, demand.cpu_milli, demand.memory_mb), []).append(seat)
    return tuple(
        group[0].demand.part(tuple(seat.task for seat in group))
        for _, group in sorted(alike.items(), key=lambda one: one[0], reverse=True)
    )


def _give_up(ground: Ground, seats: list[Seat]) -> None:
    """What other jobs have of these virtual leaves is theirs no more."""
    ledger = ground.ledger
    for seat in seats:
        for owner, mask in list(ledger.owners[seat.cell].items()) if seat.leaves & ledger.used[seat.cell] else ():
            if mask & seat.leaves:
                ledger.unseat(owner, seat.cell, mask & seat.leaves)


def _free(ground: Ground, number: int) -> int:
    ledger = ground.ledger
    held = ledger.busy[number] & ~ground.doomed_on(number)
    return ledger.healthy[number] & ~ledger.claimed[number] & ground.unbound_on(number) & ~held


def _sit_idle(ground: Ground, plan: Plan) -> bool:
    for number, seat in plan:
        picked = pick(ground.ledger.layout.shapes[number].sizes, _free(ground, number), seat.demand.gpus)
        if picked is None or not _sit(ground, number, picked.bits, seat):
            return False
    return True


def _unsafe(ground: Ground, plan: Plan) -> int:
    """The first node of the plan that cannot take its tasks beside the nodes before it, because a larger cell would
    be split; the first of all where that is none. Nothing is left changed."""
    fit: list[int] = []

    def one_by_one() -> bool:
        for number in dict.fromkeys(number for number, _ in plan):
            ours = [one for one in plan if one[0] == number]
            if not ground.attempt(partial(_sit_idle, ground, ours)):
                break
            fit.append(number)
        return False

    ground.attempt(one_by_one)
    return 1 << next((number for number, _ in plan if number not in fit), plan[0][0]) if plan else 0


def _splitting(ground: Ground, plan: Plan) -> int:
    """The first node of the plan where a larger cell is split: what it spends so may be wanted where more is idle."""
    for number, seat in plan:
        picked = pick(ground.ledger.layout.shapes[number].sizes, _free(ground, number), seat.demand.gpus)
        if picked is not None and any(ground.ledger.split_by(Spot(number, bit), 1) for bit in bits(picked.bits)):
            return 1 << number
    return 0


def _sit(ground: Ground, number: int, mask: int, seat: Seat, make_room: bool = True) -> bool:
    if not ground.pay(number, mask, [seat.demand], make_room=make_room):
        return False
    ground.sit(number, dict(zip(bits(seat.leaves), bits(mask), strict=True)), seat)
    return True


def _sit_evicting(ground: Ground, nodes: int, seats: list[Seat]) -> bool:
    for seat in sorted(seats, key=lambda one: (-one.demand.gpus, one.task)):
        idle, held = _choices(ground, nodes, seat.demand)
        calm = partial(_free_leaves, ground, seat.demand, idle)
        ways = ((calm(), False), (calm(), True), (chain(held, _leaf_by_leaf(ground, nodes, seat.demand)), True))
        places = ((number, mask, make_room) for some, make_room in ways for number, mask in some)
        if not any(ground.attempt(partial(_sit, ground, one, mask, seat, room)) for one, mask, room in places):
            return False
    return True


def _leaf_by_leaf(ground: Ground, nodes: int, demand: Demand) -> Iterator[tuple[int, int]]:
    """Every leaf that one GPU may have, those that split the fewest larger cells first: where the leaf that is taken
    back at the least loss would break a cell that is owed to somebody, another one never does."""
    if demand.gpus != 1:
        return
    ledger, ranked = ground.ledger, []
    for number in bits(nodes & ground.allowed):
        usable = ledger.healthy[number] & ~ledger.claimed[number] & ground.unbound_on(number)
        for bit in bits(usable):
            paid, _ = ground.price(number, 1 << bit, 1)
            ranked.append((len(ledger.split_by(Spot(number, bit), 1)), paid, number, bit))
    for _, _, number, bit in sorted(ranked):
        yield number, 1 << bit


def _choices(ground: Ground, nodes: int, demand: Demand) -> tuple[list[int], Iterator[tuple[int, int]]]:
    """Nodes where no GPU is taken back, the tightest fit first; and others with the leaves to take there, where the
    loss is least, of equals where the fewest are taken back, then the tightest fit."""
    ledger, calm, held = ground.ledger, 0, 0
    for (shape, bound, _, busy, blocked), members in ledger.groups.items():
        members &= nodes & ground.allowed
        sound = ledger.shapes[shape].full & ~blocked
        if ground.doomed:
            alike = [(sound & ground.unbound_on(one), _free(ground, one), 1 << one) for one in bits(members)]
        else:
            alike = [(sound & ~bound, sound & ~bound & ~busy, members)]
        for usable, free, where in alike:
            if free.bit_count() >= demand.gpus:
                calm |= where
            elif usable.bit_count() >= demand.gpus:
                held |= where
    fits = sorted((_free(ground, number).bit_count(), number) for number in bits(calm))
    dearer = ground.least_first(held, partial(_losses, ground, demand))
    return [number for _, number in fits], ((number, mine) for *_, number, mine in dearer)


def _free_leaves(ground: Ground, demand: Demand, numbers: list[int]) -> Iterator[tuple[int, int]]:
    return ((number, mine) for number in numbers for *_, mine in _losses(ground, demand, number))


def _losses(ground: Ground, demand: Demand, number: int) -> Iterator[Loss]:
    """The leaves of a node for a task, free ones first; none where they lie too far apart."""
    ledger = ground.ledger
    free = _free(ground, number)
    usable = ledger.healthy[number] & ~ledger.claimed[number] & ground.unbound_on(number)
    evicted = max(0, demand.gpus - free.bit_count())
    paid, more = ground.price(number, usable & ~free, evicted)
    picked = pick(ledger.layout.shapes[number].sizes, free | more, demand.gpus)
    if picked is not None:
        yield paid, (evicted, free.bit_count()), number, picked.bits
