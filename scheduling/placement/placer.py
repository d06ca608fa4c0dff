"""Places one job: where it starts, else whose cells it takes by preemption, else nothing. The allocator is left as it
was."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from scheduling.cells.allocator import Allocator
from scheduling.cells.node_bits import bits
from scheduling.cells.request import Choice, Pool, Unit
from scheduling.cells.resources import demands
from scheduling.model.cluster import Policy
from scheduling.model.job import Job, TaskPlacement
from scheduling.model.plan import Preempt, Start
from scheduling.model.snapshot import Claim, Running
from scheduling.placement.attempt import PlacementAttempt, Task
from scheduling.placement.feasibility import QuotaFeasibility
from scheduling.placement.opportunistic_placement import on_loan
from scheduling.placement.physical_mapping import PhysicalMapping, map_to_hardware
from scheduling.placement.virtual_placement import QuotaView, VirtualPlacement, assign
from scheduling.preemption.victim_cost import VictimCosts, give_back, victims
from scheduling.preemption.victim_selection import (
    Freed,
    LowerPriorities,
    Tally,
    fewest,
    fits,
    free_counts,
    freed_by,
    spare_most,
    spare_untouched,
)
from scheduling.queue.dominant_share import DominantShares
from scheduling.queue.loan_cooldown import LoanCooldown

ReservedLeaves = Mapping[int, int]
"""Virtual leaves (a mask by cell node) that are reserved for others."""

_NOTHING: Freed = {}


class PlacementOptions(NamedTuple):
    """How a job may be placed: by preempting borrowers (`evict`), by preempting lower priorities of its own virtual
    cluster (`inside`), not in `reserved` virtual leaves, and (`used_first`) in used single leaves before free ones."""

    evict: bool
    inside: bool
    reserved: ReservedLeaves | None
    used_first: bool = False


@dataclass(slots=True)
class Placer:
    """Decides one job at a time. `running` and `claims` (by claimant) are the engine's own; `idle` is the same
    cluster without jobs; `lower` knows who may lose cells to a higher priority, `holdable` which shapes the
    quota holds at all, `resting` which GPUs idle too shortly for whom; `blocked` says whether hardware failed a job
    that had cells."""

    allocator: Allocator
    idle: Allocator
    running: Mapping[str, Running]
    claims: Mapping[str, Mapping[str, Claim]]
    costs: VictimCosts
    lower: LowerPriorities
    now: int
    holdable: QuotaFeasibility
    resting: LoanCooldown
    blocked: bool = False

    # Inside the quota

    def guaranteed(
        self,
        job: Job,
        choice: Choice,
        *,
        may_preempt: bool = True,
        inside: bool = True,
        reserved: ReservedLeaves | None = None,
        one: bool = False,
    ) -> Start | Preempt | None:
        """Places all of a gang, or as many tasks of another job as find a place (`one`: at most one), largest first.

        `may_preempt` allows preempting anybody, `inside` lower priorities of the same virtual cluster.
        """
        ask = PlacementOptions(may_preempt, may_preempt and inside, reserved)
        return self._unit(job, choice.units[0], ask) if job.gang else self._singly(job, choice, ask, one)

    def _singly(self, job: Job, choice: Choice, ask: "PlacementOptions", one: bool) -> Start | Preempt | None:
        """Places tasks that preempt nobody inside the quota, up to the first that would; where there is none, that one.

        Which task gets which virtual leaves never depends on who has to leave for it.
        """
        calm = PlacementOptions(ask.evict, False, ask.reserved)
        placed: list[TaskPlacement] = []
        self.allocator.begin()
        try:
            for unit in choice.units:
                for task in unit.tasks:
                    answer = None if one and placed else self._unit(job, unit.of(task), calm)
                    if answer is None:
                        break
                    if not _alone(answer):
                        return Start(job, tuple(placed), self.now) if placed else answer
                    for placement in answer.placements:
                        self.allocator.allocate(job.id, placement)
                    placed += answer.placements
        finally:
            self.allocator.rollback()
        if placed or not ask.inside:
            return Start(job, tuple(placed), self.now) if placed else None
        answers = (self._unit(job, unit.alone(), ask) for unit in choice.units)
        return next((answer for answer in answers if answer is not None), None)

    def _unit(self, job: Job, unit: Unit, ask: PlacementOptions) -> Start | Preempt | None:
        answers = (self._unit_on(job, unit, nodes, ask) for nodes in self._tried(job))
        return next((answer for answer in answers if answer is not None), None)

    def _unit_on(self, job: Job, unit: Unit, allowed: int, ask: PlacementOptions) -> Start | Preempt | None:
        if self.enough_quota(job, unit):
            mapped = self._in_quota(job, unit, allowed, frozenset(), ask)
            if mapped is not None:
                return self._answer(job, mapped, frozenset())
        return self._preempting(job, unit, allowed, ask) if ask.inside else None

    def enough_quota(self, job: Job, unit: Unit) -> bool:
        """Quick check: whether there are as many free virtual leaves at all."""
        return all(pool.leaves <= self.allocator.quota_free(job.vc, pool.chain) for pool in unit.pools)

    def assign(
        self,
        job: Job,
        unit: Unit,
        freed: Freed = _NOTHING,
        banned: int = 0,
        reserved: ReservedLeaves | None = None,
        *,
        used_first: bool = False,
    ) -> list[VirtualPlacement] | None:
        """Assigns virtual leaves of the virtual cluster's own cells to the unit; `freed` ones count as free."""
        found: list[VirtualPlacement] = []
        for pool in unit.pools:
            view = QuotaView(
                self.allocator, job.vc, pool.name, freed, banned, reserved or _NOTHING, used_first=used_first
            )
            placed = assign(view, pool.parts)
            if placed is None:
                return None
            found += placed
        return found

    def _in_quota(
        self, job: Job, unit: Unit, allowed: int, over: frozenset[str], ask: "PlacementOptions"
    ) -> PhysicalMapping | None:
        """Maps the unit's virtual leaves to hardware; where that fails, other virtual leaves."""
        banned = 0
        freed = freed_by(self.allocator, job.vc, over) if over else _NOTHING
        while True:
            found = self.assign(job, unit, freed, banned, ask.reserved, used_first=ask.used_first)
            if found is None:
                return None
            alone = len(found) == 1 and not unit.others
            ending: frozenset[Task] = self._ending_tasks(over, found) if over else frozenset()
            resting = self.resting.for_job(job)
            placing = PlacementAttempt(
                self.allocator, job, allowed, self.costs, ending, ask.evict, alone, resting=resting
            )
            mapped = map_to_hardware(placing, found, unit.others)
            if isinstance(mapped, PhysicalMapping):
                return PhysicalMapping(mapped.placements, mapped.taken | ending) if ending else mapped
            self.blocked = True
            if not mapped.cells:
                return None
            banned |= mapped.cells

    # Preemption inside the virtual cluster

    def _preempting(self, job: Job, unit: Unit, allowed: int, ask: "PlacementOptions") -> Start | Preempt | None:
        """Takes cells of strictly lower priorities too: of the fewest jobs, and of those that lose least work."""
        if self.lower.lowest(job.vc) >= job.priority:
            return None
        chosen = self._fewest(job, unit, ask) if unit.pools else None
        if chosen is None:
            return None
        answer = self._over(job, unit, allowed, chosen, ask)
        return answer or (self._past_faults(job, unit, allowed, ask) if self._faulty(unit) else None)

    def _over(
        self, job: Job, unit: Unit, allowed: int, chosen: set[str], ask: "PlacementOptions"
    ) -> Start | Preempt | None:
        """The answer when the cells of these jobs may be used, too."""
        self.allocator.begin()
        try:
            every = chosen | self._give_up(chosen)
            lazy = self._set_aside(every)
            mapped = self._in_quota(job, unit, allowed, frozenset(every - lazy), ask)
        finally:
            self.allocator.rollback()
        return self._answer(job, mapped, frozenset(lazy)) if mapped is not None else None

    def _faulty(self, unit: Unit) -> bool:
        """Whether there is bad hardware of a kind that the unit wants."""
        layout = self.allocator.layout
        nodes = reduce(or_, (layout.nodes_of_chain.get(pool.chain, 0) for pool in unit.pools), 0)
        return any(self.allocator.healthy[one] != self.allocator.full[one] for one in bits(nodes)) or bool(
            nodes & ~self.allocator.open_nodes
        )

    def _past_faults(self, job: Job, unit: Unit, allowed: int, ask: "PlacementOptions") -> Start | Preempt | None:
        """Preempts as few lower priorities as needed where the free quota could only lie on bad hardware."""
        ask = ask._replace(used_first=True)

        def uses(chosen: set[str]) -> set[str] | None:
            answer = self._over(job, unit, allowed, chosen, ask)
            if answer is None:
                return None
            gone = {one.job for one in answer.victims} if isinstance(answer, Preempt) else set()
            return chosen & gone.union(answer.demotes)

        chosen = spare_untouched(self.lower.than(job), uses)
        return None if chosen is None else self._over(job, unit, allowed, chosen, ask)

    def _fewest(self, job: Job, unit: Unit, ask: "PlacementOptions") -> set[str] | None:
        order = self.lower.than(job)
        if not order:
            return None
        if all(len(pool.parts) == 1 for pool in unit.pools):
            tally = Tally(self.allocator, job.vc, unit.pools, ask.reserved or {})
            return fewest(order, self.allocator.virtual_leaves_by_job[job.vc], tally)

        def enough(chosen: set[str]) -> bool:
            return self.assign(job, unit, freed_by(self.allocator, job.vc, chosen), 0, ask.reserved) is not None

        return spare_most(order, enough)

    def has_right(self, job: Job, pools: Iterable[Pool], reserved: ReservedLeaves) -> bool:
        """Whether there are virtual leaves for these tasks, were all lower priorities gone."""
        mine, below = tuple(pools), self.lower.below(job)
        if reserved or any(len(pool.parts) > 1 for pool in mine):
            freed = below.freed_below(job.priority) if below is not None else _NOTHING
            return self.assign(job, Unit(mine, (), ()), freed, 0, reserved) is not None
        if below is None:
            return all(fits(pool, free_counts(self.allocator, job.vc, pool.name, _NOTHING)) for pool in mine)
        return all(below.fits(pool, job.priority) for pool in mine)

    def _give_up(self, chosen: Iterable[str]) -> set[str]:
        """Drops the claims of the chosen; returns the victims that have their virtual cells again by it."""
        claims = [self.claims[name][leaf] for name in sorted(chosen) for leaf in sorted(self.claims.get(name, ()))]
        for claim in claims:
            self.allocator.unclaim(claim.claimant, [claim.leaf])
        return give_back(self.allocator, self.running, claims)

    def _set_aside(self, chosen: Iterable[str]) -> set[str]:
        """Puts on loan those of the chosen that allow it (lazy preemption); returns them."""
        lazy = {name for name in chosen if name in self.running and self.running[name].job.lazy_preemption}
        for name in sorted(lazy):
            for task in self.running[name].tasks:
                self.allocator.lend(name, task.placement)
        return lazy

    def _ending_tasks(self, over: frozenset[str], assignments: Iterable[VirtualPlacement]) -> frozenset[Task]:
        """Tasks of these jobs that have a wanted virtual leaf, and all others of their gangs. They end wherever the new
        tasks will lie, so that the victims follow from the virtual leaves alone."""
        address = self.allocator.layout.virtual_address
        wanted = {address(assignment.cell, bit) for assignment in assignments for bit in bits(assignment.leaves)}
        found: set[Task] = set()
        for name in over.intersection(self.running):
            running = self.running[name]
            mine = [one.placement for one in running.tasks]
            holding = [one for one in mine if any(use.virtual_cell in wanted for use in one.leaves)]
            found.update((name, one.task) for one in (mine if holding and running.job.gang else holding))
        return frozenset(found)

    def _answer(self, job: Job, mapped: PhysicalMapping, lazy: frozenset[str]) -> Start | Preempt:
        """Start where nobody has to leave, else Preempt. A lazy one on a wanted leaf is demoted and has to leave."""
        taken = [one for one in mapped.taken if one[0] in self.running] if mapped.taken else ()
        gone = victims(self.running, taken) if taken else ()
        losers = self._losers(job, mapped) if self.claims else ()
        releases = tuple(sorted(leaf for one in losers for leaf in self.claims.get(one, ()))) if losers else ()
        demotes = tuple(sorted(lazy))
        if gone:
            return Preempt(job, mapped.placements, gone, self.now, demotes, releases)
        return Start(job, mapped.placements, self.now, demotes, releases)

    def _losers(self, job: Job, mapped: PhysicalMapping) -> set[str]:
        """Claimants of lower priority whose claimed leaves or virtual leaves the placement takes."""
        allocator = self.allocator
        found: set[str] = set()
        for use in (use for placement in mapped.placements for use in placement.leaves):
            number, bit = allocator.layout.leaf_at[use.leaf]
            if allocator.claimed[number] >> bit & 1:
                found.update(name for name, claims in self.claims.items() if use.leaf in claims)
            virtual = allocator.layout.virtual_leaf(use.virtual_cell or "")
            if virtual is not None and allocator.used[virtual[0]] >> virtual[1] & 1:
                owner = allocator.owner_of(virtual)
                mine = self.claims.get(owner, {}).values()
                found.update({owner} if any(claim.virtual_cell == use.virtual_cell for claim in mine) else ())
        return found - {job.id}

    # On loan

    def borrowed(self, job: Job, choice: Choice, *, ending: frozenset[Task] = frozenset()) -> Start | None:
        """Places all of a gang, else one task, the largest first, on idle cells; what `ending` tasks leave counts as
        idle."""
        tried, resting = self._tried(job), self.resting.for_job(job)
        for unit in map(Unit.alone, choice.units):
            for nodes in tried:
                placing = PlacementAttempt(self.allocator, job, nodes, self.costs, ending, evict=False, resting=resting)
                found = on_loan(placing, unit)
                if found:
                    return Start(job, tuple(found), self.now)
        return None

    def without_gpus(self, job: Job) -> tuple[TaskPlacement, ...] | None:
        """Places for a job's waiting tasks, none of which needs GPUs."""
        resting, tried = self.resting.for_job(job), self._tried(job)
        placings = (
            PlacementAttempt(self.allocator, job, nodes, self.costs, evict=False, resting=resting) for nodes in tried
        )
        answers = (placing.without_gpus(demands(job, "")) for placing in placings)
        return next((tuple(found) for found in answers if found is not None), None)

    def roomy(self, choice: Choice, gang: bool) -> bool:
        """Quick check: whether idle leaves could hold the largest tasks of a gang, or the smallest task."""
        pools = (choice.units[0] if gang else choice.units[-1]).pools
        return all(self._roomy(pool.chain, pool.parts[0].gpus, pool.parts[0].count if gang else 1) for pool in pools)

    def _roomy(self, chain: str, gpus: int, count: int) -> bool:
        """Quick check: whether the open nodes' idle leaves could hold so many tasks."""
        holes = self.allocator.holes.get(chain, ())
        left = count
        for size in range(len(holes) - 1, gpus - 1, -1):
            left -= size // gpus * holes[size]
            if left <= 0:
                return True
        return False

    # Nodes

    def allowed(self, job: Job) -> int:
        """Open nodes that the job may use."""
        nodes = self.allocator.open_nodes
        return nodes if job.only_nodes is None else nodes & self.allocator.layout.mask_of(job.only_nodes)

    def _tried(self, job: Job) -> tuple[int, ...]:
        """The nodes to try: those that the job does not avoid, then all, so that it never waits while only avoided ones
        could take it."""
        allowed = self.allowed(job)
        rest = allowed & ~self.allocator.layout.mask_of(job.avoid_nodes) if job.avoid_nodes else allowed
        return (allowed,) if rest == allowed else (rest, allowed)


def _alone(answer: Start | Preempt) -> bool:
    """Whether it changes nothing for anybody else."""
    return isinstance(answer, Start) and not answer.demotes and not answer.releases


def placer_of(allocator: Allocator, idle: Allocator, now: int = 0) -> Placer:
    """A placer on a cluster where nothing runs."""
    costs = VictimCosts({}, DominantShares({}), now, Policy())
    lower = LowerPriorities(allocator, {}, {}, costs, lambda vc: 1 << 30)
    return Placer(allocator, idle, {}, {}, costs, lower, now, QuotaFeasibility(idle), LoanCooldown({}, (), now))
