"""Jobs with claims: they start there once the last victim is gone."""

from collections.abc import Mapping

from scheduling.cells.claims import needs_of, parked_in
from scheduling.cycle.cycle_state import Cycle, QueueProgress
from scheduling.model.elastic import EXTRA
from scheduling.model.job import Borrow, Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.model.plan import Preempt, Start
from scheduling.model.snapshot import Claim
from scheduling.placement.virtual_placement import ReservedCells
from scheduling.preemption.victim_cost import victims

Mine = Mapping[str, Claim]
"""The claims of one job by leaf."""


class Preemptors:
    """Until they start, preemptors count as if they had their cells."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.set_aside: dict[str, dict[str, Claim]] = {}

    def enter(self) -> None:
        """Gives up claims where a node failed and charges for the others. Claims for a loan are set aside."""
        state = self.state
        for name, claimant in state.claimants.items():
            state.loans.claim(claimant, state.claims[name].values(), 1)
        for name in sorted(state.claims):
            job = state.waiting.get(name)
            if job is None or not self._usable(job, state.claims[name]):
                self.cycle.give_up(name)
                continue
            if is_for_loan(state.claims[name]):
                continue
            found = self._claimed(job, state.claims[name])
            for placement in (*found, *_nowhere(job, _without_gpus(job, found))):
                self.cycle.charge(job, placement)
        self.stand_aside()

    def stand_aside(self) -> None:
        """Opens what is claimed for a loan to jobs that have a right to it."""
        state = self.state
        lent = [name for name, claims in state.claims.items() if is_for_loan(claims) and name not in self.cycle.left]
        for name in lent:
            claims = self.set_aside[name] = state.claims.pop(name)
            state.placer.allocator.unclaim(name, claims)
            state.limit_usage.gone(name, claims)

    def step_in(self) -> None:
        """Restores the claims that were set aside and starts what can start. Jobs that got cells by right meanwhile
        lose theirs; so do those whose places others have, who are `displaced`."""
        state, cycle = self.state, self.cycle
        for name, claims in sorted(self.set_aside.items()):
            job = state.waiting[name]
            served = name in cycle.left or name in state.claims
            if served or not self._undisturbed(claims):
                state.loans.claim(job, claims.values(), -1)
                cycle.releases += claims
            else:
                uses = [LeafUse(leaf, None, Standing.BORROWED) for leaf in claims]
                state.claims[name] = claims
                state.placer.allocator.claim(name, uses, needs_of(job, claims.values()))
                state.limit_usage.change(job, claims, 1)
                self.convert(name)
                if name not in state.claims or job.paused or self._somebody_leaves(job.vc):
                    continue
                cycle.give_up(name)
            if not served:
                cycle.displaced.append(job)
        self.set_aside.clear()

    def _undisturbed(self, claims: Mine) -> bool:
        """Whether only its victims are where the job will be."""
        allocator = self.state.placer.allocator
        for leaf, claim in claims.items():
            number, bit = allocator.layout.leaf_at[leaf]
            if allocator.claimed[number] >> bit & 1 or allocator.holder(leaf) not in (None, claim.victim):
                return False
        return True

    def _somebody_leaves(self, vc: str) -> bool:
        """Whether tasks of the virtual cluster, or extra tasks of any, are still leaving."""
        running = (one for one in self.state.running.values() if one.job.vc == vc or one.job.priority == EXTRA)
        return any(task.leaving for one in running for task in one.tasks)

    def starting(self) -> set[str]:
        """The virtual clusters of preemptors some of whose cells have become free."""
        waiting = self.state.waiting
        return {
            waiting[name].vc
            for name, claims in self.state.claims.items()
            if name in waiting and not waiting[name].paused and any(claim.victim is None for claim in claims.values())
        }

    def convert(self, name: str) -> None:
        """Starts a preemptor if its last victim is gone; of a job that is no gang, each task by itself."""
        job, claims = self.state.waiting[name], self.state.claims[name]
        if job.paused or self._takes_back(job, claims):
            return
        occupied = {claim.task for claim in claims.values() if claim.victim is not None}
        if occupied and job.gang:
            return
        if is_for_loan(claims) and self.state.loans.over_limits(self.state.placer.allocator, job, claims.values()):
            return
        ready = tuple(one for one in self._claimed(job, claims) if one.task not in occupied)
        powered = self._powered(ready)
        if job.gang:
            powered = self._whole(job, claims, ready) if len(powered) == len(ready) else ()
        if powered:
            self.cycle.start(Start(job, powered, self.cycle.now), charged=True)

    def _takes_back(self, job: Job, claims: Mine) -> bool:
        """Whether others are told now to leave GPUs that the job, which is parked there, wants back. Who is leaving for
        somebody else already becomes its victim, too."""
        running, lent = self.state.running, []
        for leaf in parked_in(claims.values()):
            holder = self.state.placer.allocator.holder(leaf)
            for task in running[holder].tasks if holder is not None else ():
                known = task.leaving and claims[leaf].victim == holder
                if not known and any(use.leaf == leaf for use in task.placement.leaves):
                    lent.append((holder or "", task.placement.task))
        if lent:
            self.cycle.take_back(Preempt(job, self._claimed(job, claims), victims(running, lent), self.cycle.now))
        return bool(lent)

    def elsewhere(self, name: str, progress_of: Mapping[str, QueueProgress]) -> None:
        """Starts on other cells a gang whose victims are gone, but whose tasks without GPUs find no CPU and memory
        beside its claims: what it waits for may be kept for the very GPUs that idle because it waits."""
        job, claims = self.state.waiting[name], self.state.claims[name]
        if (
            job.paused
            or not job.gang
            or is_for_loan(claims)
            or any(claim.victim is not None for claim in claims.values())
        ):
            return
        start = self._afresh(job, claims, progress_of[job.vc].reserved if job.vc in progress_of else None)
        if start is not None:
            self.cycle.busy.add(job.vc)
            self.cycle.give_up(name)
            self.cycle.start(start, charged=True)

    def _afresh(self, job: Job, claims: Mine, reserved: ReservedCells | None) -> Start | None:
        """Where the job would start without its claims, taking nothing from anybody."""
        allocator = self.state.placer.allocator
        allocator.begin()
        try:
            allocator.unclaim(job.id, claims)
            for choice in self.state.shapes.of(job).choices:
                answer = self.state.placer.guaranteed(job, choice, may_preempt=False, reserved=reserved)
                if isinstance(answer, Start):
                    return answer
        finally:
            allocator.rollback()
        return None

    def _usable(self, job: Job, claims: Mine) -> bool:
        """Whether the job can start there: on good hardware, in its own virtual cells or on loan, and not on nodes that
        it avoids while others have a place for it. A paused job keeps its claims only where no victim is left. A parked
        one is there: it keeps them for as long as the virtual cells are its own."""
        allocator, nodes = self.state.placer.allocator, 0
        if parked_in(claims.values()):
            return all(self._owned(job, claim) for claim in claims.values())
        for leaf, claim in claims.items():
            at = allocator.layout.leaf_at.get(leaf)
            if at is None or not allocator.open_nodes >> at[0] & 1 or not allocator.healthy[at[0]] >> at[1] & 1:
                return False
            nodes |= 1 << at[0]
            if claim.virtual_cell and not self._owned(job, claim):
                return False
        if job.paused and any(claim.victim is not None for claim in claims.values()):
            return False
        if is_for_loan(claims) and job.borrow is not Borrow.AUTO and not job.opportunistic:
            return False
        return not nodes & allocator.layout.mask_of(job.avoid_nodes) or not self._other_nodes(job, claims)

    def _owned(self, job: Job, claim: Claim) -> bool:
        """Whether the claimed virtual cell is still the job's."""
        allocator = self.state.placer.allocator
        cell = allocator.layout.virtual_leaf(claim.virtual_cell)
        return cell is not None and bool(allocator.owners[cell[0]].get(job.id, 0) >> cell[1] & 1)

    def _other_nodes(self, job: Job, claims: Mine) -> bool:
        """Whether, without its claims, the job would be placed on nodes that it does not avoid."""
        placer, allocator = self.state.placer, self.state.placer.allocator
        every = frozenset(node.id for node in allocator.layout.nodes)
        willing = job._replace(only_nodes=(every if job.only_nodes is None else job.only_nodes) - job.avoid_nodes)
        allocator.begin()
        try:
            allocator.unclaim(job.id, claims)
            choices = self.state.shapes.of(job).choices
            if is_for_loan(claims):
                return any(placer.borrowed(willing, choice) is not None for choice in choices)
            return any(placer.guaranteed(willing, choice) is not None for choice in choices)
        finally:
            allocator.rollback()

    def _claimed(self, job: Job, claims: Mine) -> tuple[TaskPlacement, ...]:
        """The placements that the claims describe."""
        layout = self.state.placer.allocator.layout
        uses: dict[TaskRef, list[LeafUse]] = {}
        for leaf in sorted(claims):
            claim = claims[leaf]
            right = Standing.GUARANTEED if claim.virtual_cell else Standing.BORROWED
            uses.setdefault(claim.task, []).append(LeafUse(leaf, claim.virtual_cell or None, right))
        found = []
        for task, mine in sorted(uses.items()):
            role = job.role(task.role)
            mine.sort(key=lambda use: layout.leaf_at[use.leaf])
            node = layout.nodes[layout.leaf_at[mine[0].leaf][0]].id
            found.append(TaskPlacement(task, node, tuple(mine), role.cpu_milli, role.memory_mb))
        return tuple(found)

    def _powered(self, placements: tuple[TaskPlacement, ...]) -> tuple[TaskPlacement, ...]:
        """Those for which the nodes have the CPU and memory together: a borrower of it may still be leaving, and tasks
        that got cells one by one may not all find enough."""
        allocator = self.state.placer.allocator
        left: dict[int, tuple[int, int]] = {}
        found = []
        for placement in placements:
            number = allocator.layout.position[placement.node]
            cpu, memory = left.get(number, (allocator.cpu[number], allocator.memory[number]))
            cpu, memory = cpu - placement.cpu_milli, memory - placement.memory_mb
            if cpu >= 0 and memory >= 0:
                left[number] = cpu, memory
                found.append(placement)
        return tuple(found)

    def _whole(self, job: Job, claims: Mine, ready: tuple[TaskPlacement, ...]) -> tuple[TaskPlacement, ...]:
        """All of a gang that has its cells, with places for its tasks without GPUs; () where there are none."""
        rest = _without_gpus(job, ready)
        if not rest:
            return ready
        allocator = self.state.placer.allocator
        allocator.begin()
        try:
            allocator.unclaim(job.id, claims)
            for placement in ready:
                allocator.allocate(job.id, placement)
            more = self.state.placer.without_gpus(job._replace(wanted=rest))
        finally:
            allocator.rollback()
        return () if more is None else (*ready, *more)


def is_for_loan(claims: Mine) -> bool:
    """Whether the claimed leaves are to be on loan."""
    return any(not claim.virtual_cell for claim in claims.values())


def _without_gpus(job: Job, found: tuple[TaskPlacement, ...]) -> tuple[TaskRef, ...]:
    """Waiting tasks of a gang without GPUs, which have no claims."""
    if not job.gang:
        return ()
    placed = {placement.task for placement in found}
    return tuple(task for task in job.wanted if task not in placed and not job.role(task.role).gpus)


def _nowhere(job: Job, tasks: tuple[TaskRef, ...]) -> list[TaskPlacement]:
    """Placements of these tasks without a node yet, for what they use."""
    roles = [job.role(task.role) for task in tasks]
    return [
        TaskPlacement(task, "", (), role.cpu_milli, role.memory_mb) for task, role in zip(tasks, roles, strict=True)
    ]
