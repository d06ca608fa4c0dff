"""A job on loan moves into its quota where it is: only the names of its cells change, nothing that runs is touched.

An ordinary safe allocation whose only candidates are the leaves that the tasks sit on, and only where the virtual
cluster keeps as many whole free cells as a fresh placement would leave it.
"""

from collections.abc import Collection, Sequence

from scheduling.books import KEY_MASK
from scheduling.deciding import Desk, Owed
from scheduling.jobs import LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.layout import LeafAt, Quota
from scheduling.ledger import Ledger, PlacementConflict
from scheduling.snapshot import Running
from scheduling.topology import Match
from scheduling.virtual import Seat


def promote(
    desk: Desk, running: Running, tasks: Collection[TaskRef], fresh: Sequence[Seat], owed: Owed
) -> tuple[TaskPlacement, ...] | None:
    """The places of these borrowed tasks, now inside the quota; None when that cannot be.

    `fresh` is where they would go if they started now.
    """
    job, ledger = running.job, desk.ledger
    placements = [task.placement for task in running.tasks if task.placement.task in tasks]
    if True in [_is_elsewhere(ledger, job.vc, one) for one in placements]:
        return None
    quotas = {ledger.layout.cell_quota[seat.cell] for seat in fresh}
    if _needs_more(ledger, job.vc, placements, quotas):
        return None
    ledger.begin()
    try:
        named = _seat_all(ledger, job.id, job.vc, placements, owed)
        left = _whole(ledger, job.vc, set()) if named is not None else ()
    finally:
        ledger.take_back()
    return named if named is not None and left >= _whole(ledger, job.vc, quotas) else None


def _is_elsewhere(ledger: Ledger, vc: str, placement: TaskPlacement) -> bool:
    """A quick look: whether a leaf of the task lies in the cell of another virtual cluster, as it mostly does."""
    number = ledger.layout.position.get(placement.node, -1)
    if number < 0 or not ledger.bound[number] or number in ledger.homes(vc, ledger.layout.chains[number]):
        return False
    return bool(ledger.bound[number] & ledger.mask_of(placement))


def _needs_more(ledger: Ledger, vc: str, placements: Sequence[TaskPlacement], fresh: set[int]) -> bool:
    """A quick look: whether some task lies where the virtual cluster has no cell yet, though a fresh placement would
    begin none: then fewer whole cells would be left."""
    if any(not ledger.seated[quota] for quota in fresh):
        return False
    layout = ledger.layout
    for placement in (one for one in placements if one.leaves):
        number = layout.position.get(placement.node, -1)
        key = vc, layout.chains[number] if number >= 0 else ""
        if number < 0 or not (key in layout.loose_owners or number in ledger.homes(*key)):
            return True
    return False


def _whole(ledger: Ledger, vc: str, touched: set[int]) -> tuple[int, ...]:
    """Free quota cells of the virtual cluster, by size, the largest first; `touched` ones count as used."""
    counts: dict[int, int] = {}
    for quota in ledger.layout.placed_quotas.get(vc, ()):
        free = not ledger.seated[quota.number] and quota.number not in touched
        counts[quota.leaves] = counts.get(quota.leaves, 0) + free
    return tuple(counts[size] for size in sorted(counts, reverse=True))


def _seat_all(
    ledger: Ledger, job: str, vc: str, placements: Sequence[TaskPlacement], owed: Owed
) -> tuple[TaskPlacement, ...] | None:
    found = []
    for placement in sorted(placements, key=lambda one: (-len(one.leaves), one.task)):
        leaves = [ledger.layout.leaf_at.get(use.leaf) for use in placement.leaves]
        if any(at is None for at in leaves):
            return None
        virtual = _seat(ledger, job, vc, [at for at in leaves if at is not None], owed)
        if virtual is None:
            return None
        uses = tuple(
            LeafUse(use.leaf, ledger.layout.virtual_address(*virtual[at]), Standing.GUARANTEED)
            for use, at in zip(placement.leaves, leaves, strict=True)
            if at is not None
        )
        found.append(placement._replace(leaves=uses))
    return tuple(sorted(found, key=lambda one: one.task))


def _seat(ledger: Ledger, job: str, vc: str, leaves: list[LeafAt], owed: Owed) -> dict[LeafAt, LeafAt] | None:
    """Virtual leaves for one task's leaves, in the smallest cell that can take them; entered in the ledger."""
    if not leaves:
        return {}
    single = len(leaves) == 1
    quotas = _candidates(ledger, vc, leaves)
    quotas.sort(key=lambda one: (one.loose != single, one.leaves, not ledger.seated[one.number], one.number))
    for quota in quotas:
        found = _virtual_for(ledger, quota, leaves, owed)
        if found is not None and _enter(ledger, job, found):
            return found
    return None


def _candidates(ledger: Ledger, vc: str, leaves: list[LeafAt]) -> list[Quota]:
    """Quota cells that lie on the leaves' node already; and where no leaf is bound, single leaves and one empty cell of
    each type, since these are alike."""
    layout, node = ledger.layout, leaves[0][0]
    key = vc, layout.chains[node]
    found = [layout.quotas[number] for number in ledger.homes(*key).get(node, ())]
    if True in [ledger.bound[node] >> bit & 1 == 1 for _, bit in leaves]:
        return found
    types = set()
    for quota in (layout.quotas[number] for number in layout.quotas_of.get(key, ())):
        if quota.loose or (not ledger.seated[quota.number] and quota.cell_type not in types):
            found.append(quota)
            types.add(quota.cell_type)
    return found


def _enter(ledger: Ledger, job: str, found: dict[LeafAt, LeafAt]) -> bool:
    ledger.begin()
    try:
        number, cell = next(iter(found))[0], next(iter(found.values()))[0]
        ledger.set_lent(number, sum(1 << at[1] for at in found), False)
        ledger.seat(job, number, cell, {virtual[1]: at[1] for at, virtual in found.items()})
    except PlacementConflict:
        ledger.take_back()
        return False
    ledger.keep()
    return True


def _virtual_for(ledger: Ledger, quota: Quota, leaves: list[LeafAt], owed: Owed) -> dict[LeafAt, LeafAt] | None:
    """Free virtual leaves of this quota cell that may lie on these leaves of a node."""
    cells = range(quota.first, quota.first + quota.count)
    if quota.loose:
        free = (1 << quota.leaves) - 1 & ~ledger.used[quota.first] & ~owed.get(quota.first, 0)
        if free.bit_count() < len(leaves):
            return None
        found = {}
        for at in leaves:
            low = free & -free
            free ^= low
            found[at] = (quota.first, low.bit_length() - 1)
        return found
    width = quota.shape.width
    if len(leaves) > width:
        return None
    number, base = leaves[0][0], leaves[0][1] // width * width
    if any(at[1] // width * width != base for at in leaves):
        return None
    at_home = [cell for cell in cells if ledger.home[cell] == (number, base, -1)]
    without = [cell for cell in cells if ledger.home[cell] is None and not owed.get(cell, 0)]
    for cell in at_home or without[:1]:
        free = (1 << width) - 1 & ~ledger.used[cell] & ~owed.get(cell, 0)
        if free.bit_count() < len(leaves):
            continue
        inverse = {(key & KEY_MASK) - base: virtual for virtual, key in ledger.pairs[cell].items()}
        wanted = sum(1 << at[1] - base for at in leaves)
        match = Match(quota.shape.sizes, inverse, free, free).run(wanted)
        if match is not None:
            return {(number, base + bit): (cell, virtual) for bit, virtual in match.items()}
    return None
