"""Promotion: a job on loan moves into its quota where it runs. Only its virtual cells change; no task is touched."""

from collections.abc import Collection, Iterable, Sequence

from scheduling.cells.allocator import Allocator, PlacementConflict
from scheduling.cells.cell_index import LeafAt, Quota
from scheduling.cells.cell_state import KEY_MASK
from scheduling.cells.node_bits import Match
from scheduling.cells.request import Choice, JobShape, Unit
from scheduling.cycle.cycle_state import Cycle, QueueProgress
from scheduling.cycle.memory import LIMIT, Lent
from scheduling.model.job import Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Preempt
from scheduling.model.snapshot import Running
from scheduling.placement.placer import Placer, ReservedLeaves
from scheduling.placement.virtual_placement import ReservedCells, VirtualPlacement, assign


def promote(
    placer: Placer,
    running: Running,
    tasks: Collection[TaskRef],
    fresh: Sequence[VirtualPlacement],
    reserved: ReservedLeaves,
) -> tuple[TaskPlacement, ...] | None:
    """Placements of these borrowed tasks inside the quota, where they run; None when that cannot be.

    `fresh`: the virtual leaves they would get if they started now.
    """
    job, allocator = running.job, placer.allocator
    placements = [task.placement for task in running.tasks if task.placement.task in tasks]
    if True in [_is_elsewhere(allocator, job.vc, one) or _is_on_parked(allocator, one) for one in placements]:
        return None
    quotas = {allocator.layout.cell_quota[assignment.cell] for assignment in fresh}
    if _needs_more(allocator, job.vc, placements, quotas):
        return None
    allocator.begin()
    try:
        named = _bind_all(allocator, job.id, job.vc, placements, reserved)
        left = _whole(allocator, job.vc, set()) if named is not None else ()
    finally:
        allocator.rollback()
    return named if named is not None and left >= _whole(allocator, job.vc, quotas) else None


def _is_elsewhere(allocator: Allocator, vc: str, placement: TaskPlacement) -> bool:
    """Quick check: whether a leaf of the task lies in a cell of another virtual cluster, as it mostly does."""
    number = allocator.layout.position.get(placement.node, -1)
    if number < 0 or not allocator.bound[number] or number in allocator.homes(vc, allocator.layout.chains[number]):
        return False
    return bool(allocator.bound[number] & allocator.mask_of(placement))


def _is_on_parked(allocator: Allocator, placement: TaskPlacement) -> bool:
    """Whether the task is on a leaf that a parked job claims."""
    number = allocator.layout.position.get(placement.node, -1)
    return number >= 0 and bool(allocator.parked[number] & allocator.mask_of(placement))


def _needs_more(allocator: Allocator, vc: str, placements: Sequence[TaskPlacement], fresh: set[int]) -> bool:
    """Quick check: whether a task lies where the virtual cluster has no cell yet, though a fresh placement would begin
    none: then fewer whole cells would be left."""
    if any(not allocator.leaves_used[quota] for quota in fresh):
        return False
    layout = allocator.layout
    for placement in (one for one in placements if one.leaves):
        number = layout.position.get(placement.node, -1)
        key = vc, layout.chains[number] if number >= 0 else ""
        if number < 0 or not (key in layout.loose_owners or number in allocator.homes(*key)):
            return True
    return False


def _whole(allocator: Allocator, vc: str, touched: set[int]) -> tuple[int, ...]:
    """Free quota cells of the virtual cluster, by size, the largest first; `touched` ones count as used."""
    counts: dict[int, int] = {}
    for quota in allocator.layout.placed_quotas.get(vc, ()):
        free = not allocator.leaves_used[quota.number] and quota.number not in touched
        counts[quota.leaves] = counts.get(quota.leaves, 0) + free
    return tuple(counts[size] for size in sorted(counts, reverse=True))


def _bind_all(
    allocator: Allocator, job: str, vc: str, placements: Sequence[TaskPlacement], reserved: ReservedLeaves
) -> tuple[TaskPlacement, ...] | None:
    found = []
    for placement in sorted(placements, key=lambda one: (-len(one.leaves), one.task)):
        leaves = [allocator.layout.leaf_at.get(use.leaf) for use in placement.leaves]
        if any(at is None for at in leaves):
            return None
        virtual = _bind_task(allocator, job, vc, [at for at in leaves if at is not None], reserved)
        if virtual is None:
            return None
        uses = tuple(
            LeafUse(use.leaf, allocator.layout.virtual_address(*virtual[at]), Standing.GUARANTEED)
            for use, at in zip(placement.leaves, leaves, strict=True)
            if at is not None
        )
        found.append(placement._replace(leaves=uses))
    return tuple(sorted(found, key=lambda one: one.task))


def _bind_task(
    allocator: Allocator, job: str, vc: str, leaves: list[LeafAt], reserved: ReservedLeaves
) -> dict[LeafAt, LeafAt] | None:
    """Binds the leaves of one task to virtual leaves in the smallest cell that can take them."""
    if not leaves:
        return {}
    single = len(leaves) == 1
    quotas = _candidates(allocator, vc, leaves)
    quotas.sort(key=lambda one: (one.loose != single, one.leaves, not allocator.leaves_used[one.number], one.number))
    for quota in quotas:
        found = _virtual_for(allocator, quota, leaves, reserved)
        if found is not None and _enter(allocator, job, found):
            return found
    return None


def _candidates(allocator: Allocator, vc: str, leaves: list[LeafAt]) -> list[Quota]:
    """Quota cells that lie on the leaves' node already; where no leaf is bound, also single leaves and one empty cell
    of each type, since these are alike."""
    layout, node = allocator.layout, leaves[0][0]
    key = vc, layout.chains[node]
    found = [layout.quotas[number] for number in allocator.homes(*key).get(node, ())]
    if True in [allocator.bound[node] >> bit & 1 == 1 for _, bit in leaves]:
        return found
    types = set()
    for quota in (layout.quotas[number] for number in layout.quotas_of.get(key, ())):
        if quota.loose or (not allocator.leaves_used[quota.number] and quota.cell_type not in types):
            found.append(quota)
            types.add(quota.cell_type)
    return found


def _enter(allocator: Allocator, job: str, found: dict[LeafAt, LeafAt]) -> bool:
    allocator.begin()
    try:
        number, cell = next(iter(found))[0], next(iter(found.values()))[0]
        allocator.set_lent(number, sum(1 << at[1] for at in found), False)
        allocator.bind(job, number, cell, {virtual[1]: at[1] for at, virtual in found.items()})
    except PlacementConflict:
        allocator.rollback()
        return False
    allocator.commit()
    return True


def _virtual_for(
    allocator: Allocator, quota: Quota, leaves: list[LeafAt], reserved: ReservedLeaves
) -> dict[LeafAt, LeafAt] | None:
    """Free virtual leaves of this quota cell that may lie on these leaves of a node."""
    cells = range(quota.first, quota.first + quota.count)
    if quota.loose:
        free = (1 << quota.leaves) - 1 & ~allocator.used[quota.first] & ~reserved.get(quota.first, 0)
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
    at_home = [cell for cell in cells if allocator.home[cell] == (number, base, -1)]
    without = [cell for cell in cells if allocator.home[cell] is None and not reserved.get(cell, 0)]
    for cell in at_home or without[:1]:
        free = (1 << width) - 1 & ~allocator.used[cell] & ~reserved.get(cell, 0)
        if free.bit_count() < len(leaves):
            continue
        inverse = {(key & KEY_MASK) - base: virtual for virtual, key in allocator.pairs[cell].items()}
        wanted = sum(1 << at[1] - base for at in leaves)
        match = Match(quota.shape.sizes, inverse, free, free).run(wanted)
        if match is not None:
            return {(number, base + bit): (cell, virtual) for bit, virtual in match.items()}
    return None


class Promotions:
    """The promotions of a cycle. `unmoved`: virtual clusters of which a job could not be promoted where it runs."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.unmoved: set[str] = set()

    def turn(self, running: Running, job: Job, progress: QueueProgress) -> set[str]:
        """Promotes the job where it runs, or reserves the cells that it would have. Returns the chains on which it
        stays on loan."""
        state = self.state
        cause = state.demotions.get(running.job.id)
        if cause is not None and (cause.cause in state.running or cause.cause in state.claims):
            return set()
        behind: set[str] = set()
        for part in self.parts(running, job):
            behind |= self._move(running.job.id, part, progress)
        return behind

    def parts(self, running: Running, job: Job) -> list[Lent]:
        """What of the job is promoted together: all that a gang has on loan, else each task; nothing that is leaving.
        Worked out once for as long as the job runs as it does."""
        known = self.state.memory.lent
        found = known.get(running.job.id)
        if found is None or found[0] is not running or found[1] is not job:
            if len(known) >= LIMIT:
                known.clear()
            found = known[running.job.id] = running, job, self._work_out(running, job)
        return found[2]

    def _work_out(self, running: Running, job: Job) -> list[Lent]:
        lent = tuple([task.placement.task for task in running.tasks if task.on_loan and not task.leaving])
        if not lent or running.job.gang and any(task.leaving for task in running.tasks):
            return []
        found = []
        for tasks in [lent] if running.job.gang else [(task,) for task in lent]:
            alike = job.gang and job.wanted == tasks
            shape = self.state.shapes.of(job if alike else running.job._replace(wanted=tasks, gang=True))
            places = [task.placement for task in running.tasks]
            found.append(Lent(tasks, shape, self._lies_in(places, shape.choices)))
        return found

    def _move(self, name: str, part: Lent, progress: QueueProgress) -> frozenset[str]:
        """Promotes these tasks of the job, all or none; returns their chains where they stay on loan."""
        state, running = self.state, self.state.running[name]
        tasks, shape, number = part
        if number < 0 or not progress.blocked_chains.isdisjoint(shape.choices[number].chains):
            return frozenset()
        choice, before = shape.choices[number], progress.reserved.number
        fresh = self._assignments(running.job, shape, number, progress.reserved)
        if fresh is None:
            if self._reserve_below(running.job, shape, number, progress.reserved):
                return choice.chains
            if not state.placer.holdable.choice(running.job.vc, shape, number):
                return frozenset()
            progress.blocked_chains |= choice.chains
            return choice.chains
        placements = promote(state.placer, running, tasks, fresh, progress.reserved)
        if placements is not None:
            self.cycle.busy.add(running.job.vc)
            self.cycle.promote(running.job, placements)
            return frozenset()
        self.unmoved.add(running.job.vc)
        progress.reserved.reserve(
            fresh, state.memory.assignments_of(running.job.vc).after(before, shape.number, number)
        )
        return choice.chains

    def _assignments(
        self, job: Job, shape: JobShape, number: int, reserved: ReservedCells
    ) -> list[VirtualPlacement] | None:
        """The virtual leaves that its tasks would get if they started now. That follows from the virtual cluster's own
        cells and those reserved for others: worked out once for as long as these stay what they are."""
        placer, unit = self.state.placer, shape.choices[number].units[0]
        known = self.state.memory.assignments_of(job.vc).of(placer.allocator.virtual_state.get(job.vc, -1))
        key = reserved.number, shape.number, number
        if key not in known:
            known[key] = _assign_beside(reserved, unit) if placer.enough_quota(job, unit) else None
        return known[key]

    def _reserve_below(self, job: Job, shape: JobShape, number: int, reserved: ReservedCells) -> list[VirtualPlacement]:
        """Reserves cells of lower priorities, which the job could have by right if it were not on loan: later jobs may
        have the others. Returns them; none where they are not enough."""
        below = self.state.placer.lower.below(job)
        if below is None:
            return []
        freed = below.freed_below(job.priority)
        found = self.state.placer.assign(job, shape.choices[number].units[0], freed, 0, reserved) or []
        if found:
            reserved.reserve(found, self.state.memory.assignments_of(job.vc).another())
        return found

    def reserve(self, answer: Preempt, shape: JobShape, progress: QueueProgress) -> list[VirtualPlacement]:
        """Reserves the cells that the job could have now, as if it ran on loan; returns them."""
        number, before = self._lies_in(answer.placements, shape.choices), progress.reserved.number
        fresh = self._assignments(answer.job, shape, number, progress.reserved)
        if fresh is None:
            return self._reserve_below(answer.job, shape, number, progress.reserved)
        progress.reserved.reserve(
            fresh, self.state.memory.assignments_of(answer.job.vc).after(before, shape.number, number)
        )
        return fresh

    def _lies_in(self, places: Iterable[TaskPlacement], choices: tuple[Choice, ...]) -> int:
        """The first choice to which all these nodes belong; -1: none."""
        layout, chains = self.state.placer.allocator.layout, set()
        for one in places:
            place = layout.position.get(one.node)
            if one.leaves and place is not None:
                chains.add(layout.chains[place])
        return next((number for number, choice in enumerate(choices) if chains <= choice.chains), -1)


def _assign_beside(reserved: ReservedCells, unit: Unit) -> list[VirtualPlacement] | None:
    found: list[VirtualPlacement] = []
    for pool in unit.pools:
        placed = assign(reserved.view(pool.name), pool.parts)
        if placed is None:
            return None
        found += placed
    return found
