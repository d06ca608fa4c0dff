"""Why jobs still wait after a cycle, with the numbers that hold once it is carried out."""

from collections.abc import Mapping
from functools import partial

from scheduling.cells.claims import parked_in
from scheduling.cells.request import Choice, JobShape, Pool, Unit, apart, needs_of
from scheduling.cycle.cycle_state import Cycle, CycleState, QueueProgress, Unplaced
from scheduling.cycle.within_caps import is_capped, over_cap, within_caps
from scheduling.diagnosis import reasons as explain
from scheduling.diagnosis.doomed_cells import doomed_in
from scheduling.diagnosis.placement_failure import Fits, no_room
from scheduling.model.elastic import whole_name
from scheduling.model.job import Job
from scheduling.model.plan import Code, Reason, Wait
from scheduling.model.snapshot import Running
from scheduling.placement.feasibility import holds_pool, holds_unit

NEARNESS = {code: number for number, code in enumerate(Code)}
"""The later a reason comes in the order of codes, the nearer is the job to a start."""


class Diagnosis:
    """Reasons in this order: the job's own state, its right to the cells, the order, then room on the nodes."""

    def __init__(self, cycle: Cycle, progress_of: Mapping[str, QueueProgress]) -> None:
        self._cycle = cycle
        self._state = cycle.state
        self._progress_of = progress_of
        self._capped = {vc: is_capped(self._state, vc) for vc in self._state.placer.allocator.layout.virtual_clusters}
        self._right: dict[tuple[int, int], Reason | None] = {}
        self._alike: dict[tuple[int, int], Reason | None] = {}
        self._room: dict[tuple[int, int, str, int], Reason] = {}

    def waits(self) -> tuple[Wait, ...]:
        """One wait for each job that does not start, in the order of the cycle, then those with claims."""
        waits = []
        left, claims, right = self._cycle.left, self._state.claims, self._right
        for one in self._cycle.unplaced:
            unplaced = one if one.job.id not in left else self._cycle.still_unplaced(one)
            if unplaced is None or unplaced.job.id in claims:
                continue  # its claims are its reason
            waiting, shape, _, ahead, reason = unplaced
            reason = reason or right.get((shape.number, waiting.priority)) or self._reason(unplaced)
            waits.append(Wait(waiting, reason, ahead[0] + 1 if ahead is not None else None))
        for name in sorted(self._state.claims):
            job = self._state.waiting.get(name)
            if job is not None:
                waits.append(Wait(job, self._preempting(name)))
        return tuple(waits)

    def _preempting(self, name: str) -> Reason:
        claims = self._state.claims[name].values()
        if self._state.waiting[name].paused:
            return explain.parked() if parked_in(claims) else explain.paused()
        victims = sorted({whole_name(claim.victim) for claim in claims if claim.victim is not None})
        if victims:
            return explain.preempting(victims, sum(claim.victim is not None for claim in claims))
        going = self._going(name)
        if going:
            cells = {claim.virtual_cell for claim in claims}
            heir = all(not cells.isdisjoint(_virtual_cells(self._state.running[one])) for one in going)
            return (explain.taking_over if heir else explain.making_room)(sorted(set(map(whole_name, going))))
        job = self._cycle.left.get(name) or self._state.waiting[name]  # a part of it may have started just now
        return alone(self._state, job, self._state.shapes.of(job))

    def _going(self, name: str) -> list[str]:
        """The jobs that end for it: as was decided just now, else those that are leaving where it will run."""
        going = {victim.job for one in self._cycle.preemptions if one.job.id == name for victim in one.victims}
        if not going:
            at = self._state.placer.allocator.layout.leaf_at
            nodes = {at[leaf][0] for leaf in self._state.claims[name] if leaf in at}
            tasks = self._state.placer.allocator.tasks
            there = {job for number in nodes for job, _ in tasks[number]}
            going = {job for job in there if any(task.leaving for task in self._state.running[job].tasks)}
        return sorted(going)

    def _reason(self, unplaced: Unplaced) -> Reason:
        number, priority = unplaced.shape.number, unplaced.job.priority
        if (number, priority) not in self._right:
            self._right[number, priority] = self._right_missing(unplaced)
        missing = self._right[number, priority]
        if missing is not None:
            return missing
        progress = self._progress_of.get(unplaced.job.vc)
        if not unplaced.job.opportunistic and progress is not None:
            blocked = self._blocked(unplaced, progress)
            if blocked is not None:
                return blocked
        whose = (unplaced.job.user, priority) if self._capped[unplaced.job.vc] else ("", 0)
        key = (number, len(unplaced.choices), *whose)
        if key not in self._room:
            self._room[key] = room_missing(self._state, unplaced.job, unplaced.choices or unplaced.shape.choices)
        return self._room[key]

    def _right_missing(self, unplaced: Unplaced) -> Reason | None:
        """The same for all priorities whose cells the job may take from as many."""
        known = unplaced.shape.number, self._state.placer.lower.count(unplaced.job)
        if known not in self._alike:
            self._alike[known] = right_missing(self._state, unplaced.job, unplaced.shape, {})
        return self._alike[known]

    def _blocked(self, unplaced: Unplaced, progress: QueueProgress) -> Reason | None:
        """The order: jobs ahead block its chains, or have the cells that are left."""
        blocked = [choice for choice in unplaced.shape.choices if choice not in unplaced.choices]
        if blocked and unplaced.ahead is not None:
            for chain in sorted({chain for choice in blocked for chain in choice.chains}.intersection(progress.kept)):
                kept = progress.kept[chain]
                if kept.at_ms is not None and kept.promised and kept.job != unplaced.job.id:
                    return explain.reserved(kept.job, kept.at_ms, self._cycle.now)
            if unplaced.ahead[0]:
                return explain.order(*unplaced.ahead)
        if not progress.reserved:
            return None
        return right_missing(self._state, unplaced.job, unplaced.shape, progress.reserved) or self._no_room_beside(
            unplaced, progress.reserved
        )

    def _no_room_beside(self, unplaced: Unplaced, reserved: Mapping[int, int]) -> Reason | None:
        """The order, where only what is reserved for jobs ahead has room on the nodes: for all of a gang, else for one
        task."""
        state, job = self._state, unplaced.job
        for choice in apart(within_caps(state, job, unplaced.choices), job.gang):
            if state.placer.guaranteed(job, choice, one=True) is not None:
                for pool in choice.units[0].pools:
                    if any(_reserved_of(state, pool, reserved)):
                        return _reserved_ahead(state, job, pool, reserved)
        return None


def _virtual_cells(running: Running) -> set[str]:
    return {use.virtual_cell or "" for task in running.tasks for use in task.placement.leaves} - {""}


def alone(state: CycleState, job: Job, shape: JobShape) -> Reason:
    """Why a job that is asked about by itself does not start."""
    missing = right_missing(state, job, shape, {})
    return missing or room_missing(state, job, shape.choices)


def right_missing(state: CycleState, job: Job, shape: JobShape, reserved: Mapping[int, int]) -> Reason | None:
    """Why nothing of the job has a right to cells now, under any choice. Where it would have one but for what is
    `reserved` for jobs ahead, that is the reason, whatever is missing under other choices; else that of its smallest
    unit."""
    reasons: list[Reason | None] = []
    behind: list[Reason] = []
    for units in _that_may_start(state, job, shape):
        found = [
            _loan_missing(state, job, unit) if job.opportunistic else _quota_missing(state, job, unit, reserved)
            for unit in units
        ]
        if not all(found):
            return None
        reasons.append(found[-1])
        behind += [one for one in reversed(found) if one is not None and one.code == Code.ORDER]
    if not shape.choices:
        return explain.no_gpus_owned(job.vc)
    return behind[0] if behind else reasons[0]


def _that_may_start(state: CycleState, job: Job, shape: JobShape) -> list[tuple[Unit, ...]]:
    """What starts by itself under each choice; of a guaranteed job what the quota holds at all, if there is any."""
    every, idle = [tuple(map(Unit.alone, choice.units)) for choice in shape.choices], state.placer.idle
    if job.opportunistic:
        return every
    within = [tuple(one for one in units if holds_unit(idle, job.vc, one)) for units in every]
    return [units for units in within if units] or every


def _quota_missing(state: CycleState, job: Job, unit: Unit, reserved: Mapping[int, int]) -> Reason | None:
    """Why the job has no right to cells now, not even to those of lower priorities."""
    fit = partial(state.placer.has_right, job)
    if fit(unit.pools, reserved):
        return None
    pool = next((one for one in unit.pools if not fit((one,), reserved)), unit.pools[0])
    if reserved and fit(unit.pools, {}):
        return _reserved_ahead(state, job, pool, reserved)
    for pool in unit.pools:
        if not holds_pool(state.placer.idle, job.vc, pool):
            return _too_large(state, job, pool)
    for pool in unit.pools:
        kind, owned, free = pool.parts[0].cell_type, *_leaves_of(state, job.vc, pool)
        if pool.leaves > free:
            return explain.quota(job.vc, kind, owned - free, owned, pool.leaves)
    kind, (_, free) = pool.parts[0].cell_type, _leaves_of(state, job.vc, pool)
    return explain.no_cell(job.vc, kind, free, _largest(state, job.vc, pool), pool.leaves)


def _too_large(state: CycleState, job: Job, pool: Pool) -> Reason:
    """The quota of these tasks is too small for them, whoever ends."""
    if pool.name != pool.chain and (job.vc, pool.name) not in state.placer.allocator.layout.pins:
        return explain.no_pinned_cell(job.vc, pool.name)
    groups = state.placer.idle.cell_groups.get((job.vc, pool.name), {})
    owned = sum(sizes[-1] * cells.bit_count() for (sizes, _), cells in groups.items())
    whole = max((sizes[-1] for sizes, _ in groups), default=0)
    return explain.beyond_quota(job.vc, pool.parts[0].cell_type, owned, whole, pool.leaves)


def _reserved_ahead(state: CycleState, job: Job, pool: Pool, reserved: Mapping[int, int]) -> Reason:
    _, free = _leaves_of(state, job.vc, pool)
    kind = pool.parts[0].cell_type
    idle, below = _reserved_of(state, pool, reserved)
    return explain.owed_ahead(job.vc, kind, free, idle + below, below, pool.leaves)


def _reserved_of(state: CycleState, pool: Pool, reserved: Mapping[int, int]) -> tuple[int, int]:
    """How many of the leaves that tasks of this pool may use are reserved for jobs ahead: free ones, others."""
    allocator = state.placer.allocator
    mine = [one for one in reserved.items() if allocator.layout.cell_pool[one[0]] == pool.name]
    every = sum(mask.bit_count() for _, mask in mine)
    used = sum((mask & allocator.used[cell]).bit_count() for cell, mask in mine)
    return every - used, used


def _leaves_of(state: CycleState, vc: str, pool: Pool) -> tuple[int, int]:
    """Leaves of the quota that tasks of this pool may use, and how many of them are free."""
    groups = state.placer.allocator.cell_groups.get((vc, pool.name), {}).items()
    owned = sum(sizes[-1] * cells.bit_count() for (sizes, _), cells in groups)
    return owned, owned - sum(used.bit_count() * cells.bit_count() for (_, used), cells in groups)


def _largest(state: CycleState, vc: str, pool: Pool) -> int:
    """The most free leaves of one cell node of the pool."""
    groups = state.placer.allocator.cell_groups.get((vc, pool.name), {})
    return max((sizes[-1] - used.bit_count() for sizes, used in groups), default=0)


def _loan_missing(state: CycleState, job: Job, unit: Unit) -> Reason | None:
    allocator, loans = state.placer.allocator, state.loans
    vc = allocator.layout.team(job.vc)
    needs: dict[str, int] = {}
    for part in unit.parts:
        if part.gpus:
            needs[part.cell_type] = needs.get(part.cell_type, 0) + part.gpus * part.count
    kind = loans.within_own(vc, needs)
    if kind is not None:
        return explain.borrow_limit(
            vc.id, kind, loans.by_vc.get((vc.id, kind), 0), vc.rules.max_borrow[kind], needs[kind]
        )
    kind = loans.within_lent(allocator, needs)
    if kind is not None:
        return explain.lend_limit(kind, loans.by_type.get(kind, 0), loans.lendable(allocator, kind), needs[kind])
    return None


def room_missing(state: CycleState, job: Job, choices: tuple[Choice, ...]) -> Reason:
    """Why a job that has a right to cells finds no room: of its choices and units that nearest to a start."""
    placer = state.placer
    layout = placer.allocator.layout
    allowed = layout.all_nodes() if job.only_nodes is None else layout.mask_of(job.only_nodes)
    reasons = []
    for choice in choices:
        for unit in map(Unit.alone, reversed(choice.units)):
            missing = _loan_missing if job.opportunistic else _cells_missing
            if missing(state, job, unit) is not None:
                continue  # not this unit, but another one has a right to cells
            alone = Choice(choice.chains, (unit,))
            beyond = None if job.opportunistic else over_cap(state, job, needs_of(alone, job.gang))
            if beyond is not None:
                reasons.append(beyond)
                continue
            parts = unit.parts if not job.opportunistic else tuple(part.modestly() for part in unit.parts)
            fits = _fits(state, job, alone) if unit.pools and not job.opportunistic else None
            found = no_room(placer.allocator, parts, allowed, owner=not job.opportunistic, fits=fits)
            if found.code == Code.BAD_NODES and not job.opportunistic:
                found = _with_doomed(state, job, unit, found)
            reasons.append(found)
    return max(reasons, key=lambda one: NEARNESS[one.code], default=explain.no_gpus_owned(job.vc))


def _with_doomed(state: CycleState, job: Job, unit: Unit, reason: Reason) -> Reason:
    """Bad nodes, and how much of the team's quota would have to lie on them."""
    for chain in sorted({pool.chain for pool in unit.pools}):
        for cell_type, count in sorted(doomed_in(state.placer.allocator, job.vc, chain).items()):
            return explain.doomed(reason, job.vc, cell_type, count)
    return reason


def _cells_missing(state: CycleState, job: Job, unit: Unit) -> Reason | None:
    return _quota_missing(state, job, unit, {})


def _fits(state: CycleState, job: Job, choice: Choice) -> Fits:
    """What-ifs by the engine's own placement: a free cell may lie where no other may be split. Where CPU and memory are
    no matter, nor is for how long they have idled."""
    fresh = job._replace(loans_lost=0)

    def fits(served: bool) -> bool:
        with state.placer.allocator.as_if(served=served):
            return state.placer.guaranteed(fresh, choice) is not None

    return fits
