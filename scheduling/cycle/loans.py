"""Loans, the second half of a cycle: idle cells go to the virtual cluster with the smallest share on loan first."""

from collections.abc import Iterator
from functools import partial

from scheduling.cells.cell_state import masks_of
from scheduling.cells.claims import parked_in
from scheduling.cells.request import Choice, JobShape, apart
from scheduling.cycle.cycle_state import LED, Ahead, Cycle, Unplaced
from scheduling.cycle.own_loans import OwnLoans
from scheduling.cycle.takeover import OverExtras
from scheduling.cycle.within_caps import cap_exceeded, may_borrow, within_caps
from scheduling.diagnosis import reasons as explain
from scheduling.model.job import Borrow, Job
from scheduling.model.plan import Start
from scheduling.queue.dominant_share import turns
from scheduling.queue.queue import Walk


class Loaned:
    """Lends idle cells to jobs of the queues that may borrow, then to opportunistic ones."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self._own = OwnLoans(cycle)
        self._extras = OverExtras(cycle)
        self._ahead: dict[str, Ahead] = {}
        self._no_loan: set[int] = set()
        self._parked_leaves: dict[int, int] | None = None
        self._open: set[str] = set()  # virtual clusters that may find a loan once fewer idle GPUs keep CPU
        self._given_back = cycle.state.placer.allocator.given_back
        lending = cycle.state.placer.allocator.layout.policy.lending
        self._kinds = (cycle.state.queues, cycle.state.opportunistic) if lending else (cycle.state.opportunistic,)

    def turns(self, with_reasons: bool) -> None:
        """Gives each virtual cluster its turns: in each it tries to borrow for the next job of its queue.
        `with_reasons`: also looks at jobs that find no loan, for their reasons."""
        state = self.state
        queues = {}
        for job in self.cycle.displaced:
            if job.id not in self.cycle.left and self._borrow(job):
                self.cycle.busy.add(job.vc)
        self._given_back = state.placer.allocator.given_back
        # Steady: a virtual cluster that is quiet (no loan last time, same signature) is skipped.
        steady = not with_reasons and not self.cycle.fair
        for vc in sorted({vc for kind in self._kinds for vc, queue in kind.items() if queue.wanting_loan}):
            if not steady or state.memory.quiet.get((vc, "loan")) != self._loan_signature(vc):
                queues[vc] = self._borrowers(vc, with_reasons)
        for vc, job in turns(state.loans.shares, queues):
            if self._borrow(job):
                self.cycle.busy.add(vc)
        for vc in queues if steady else ():
            if vc in self.cycle.busy or vc in self._open:
                state.memory.quiet.pop((vc, "loan"), None)
            else:
                state.memory.quiet[vc, "loan"] = self._loan_signature(vc)

    def _loan_signature(self, vc: str) -> tuple[int, ...]:
        """What a turn of the virtual cluster depends on: what nodes have freed, and its queues."""
        queues = [kind[vc].version for kind in (self.state.queues, self.state.opportunistic) if vc in kind]
        return (self._given_back, *queues)

    def _borrowers(self, vc: str, with_reasons: bool) -> Iterator[Job]:
        """Jobs that want a loan: first those of the queue that may borrow, in its order, then opportunistic ones."""
        for kind in self._kinds:
            if vc in kind:
                walk = kind[vc].walk(self.cycle.shares_of(vc), wanting_loan=True)
                yield from self._wanting(walk, kind is self.state.opportunistic, with_reasons)

    def _wanting(self, walk: Walk, opportunistic: bool, with_reasons: bool) -> Iterator[Job]:
        state = self.state
        for job, shape, _ in walk:
            left = self.cycle.left.get(job.id, state.waiting.get(job.id))
            if left is None or job.id in state.claims:
                continue
            if not opportunistic and left.borrow is not Borrow.AUTO:
                continue
            mine = shape if left is job else state.shapes.of(left)
            reason = explain.ineligible(left, state.placer.allocator.layout)
            if reason is None and not opportunistic:
                reason = cap_exceeded(state, left, mine)
            if reason is not None:
                if opportunistic:
                    self.cycle.unplaced.append(Unplaced(left, mine, (), None, reason))
            elif left.loans_lost or not self._no_loan_for(mine) or self._own.may_take(left, mine):
                yield left
            elif with_reasons:
                self._stays(left)
            elif mine is shape:
                walk.skipped.add(shape.number)

    def _no_loan_for(self, shape: JobShape) -> bool:
        """Whether a job of this shape found no loan, and no node has freed anything since (`given_back`)."""
        return shape.number in self._no_loan or self.state.memory.stuck.get(shape.number) == self._given_back

    def _borrow(self, job: Job) -> bool:
        state = self.state
        shape = state.shapes.of(job)
        mine = within_caps(state, job, shape.choices)
        for choice in apart(mine, job.gang):
            start = self._lend(job, choice) if may_borrow(state, job, choice) else None
            if start is not None:
                rest = self.cycle.carry_out(start)
                if rest is not None:
                    self._borrow(rest)
                return True
        taken = self._extras.take(job, mine) or self._own.take(job, shape, mine)
        if taken is not None:
            state.memory.quiet.pop((job.vc, ""), None)  # a victim blocks nobody in this virtual cluster now
            rest = self.cycle.carry_out(taken)
            if rest is not None:
                self._borrow(rest)
            return True
        for_all = mine == shape.choices and not job.loans_lost
        if for_all:
            self._no_loan.add(shape.number)
        if for_all and shape.within(state.placer.allocator.layout.least_reserve):
            state.memory.stuck[shape.number] = self._given_back
        else:
            self._open.add(job.vc)
        self._stays(job)
        return False

    def _lend(self, job: Job, choice: Choice) -> Start | None:
        """Places a borrower on idle GPUs; where these do not do, also on those of parked jobs."""
        placer, allocator = self.state.placer, self.state.placer.allocator
        if placer.roomy(choice, job.gang):
            start = placer.borrowed(job, choice)
            if start is not None:
                return start
        parked = self._parked()
        if not parked:
            return None
        allocator.begin()
        try:
            for number, mask in parked.items():
                allocator.set_claimed(number, mask, False)
            return placer.borrowed(job, choice) if placer.roomy(choice, job.gang) else None
        finally:
            allocator.rollback()

    def _parked(self) -> dict[int, int]:
        """The leaves (a mask by node) of parked jobs that do not want them back now and nobody is on."""
        if self._parked_leaves is None:
            state, at = self.state, self.state.placer.allocator.layout.leaf_at
            paused = (claims for name, claims in state.claims.items() if state.waiting[name].paused)
            self._parked_leaves = masks_of(at[leaf] for claims in paused for leaf in parked_in(claims.values()))
        busy = self.state.placer.allocator.busy
        return {node: mask & ~busy[node] for node, mask in self._parked_leaves.items() if mask & ~busy[node]}

    def modest(self) -> None:
        """Retries jobs that must leave idle GPUs a reserve of CPU and memory: fewer GPUs are idle now."""
        if not self.cycle.starts:
            return
        tried: set[int] = set()
        asked = [one for one in self.cycle.unplaced if one.shape.modest and one.reason is None and one.choices]
        for unplaced in map(self.cycle.still_unplaced, asked):
            if unplaced is None or unplaced.shape.number in tried:
                continue
            choices = apart(unplaced.choices, unplaced.job.gang)
            start = next(
                (found for found in map(partial(self._modestly, unplaced.job), choices) if found is not None), None
            )
            if start is not None:
                self.cycle.carry_out(start)
            elif not unplaced.job.loans_lost:
                tried.add(unplaced.shape.number)

    def _modestly(self, job: Job, choice: Choice) -> Start | None:
        """Places a borrower, or a job without GPUs: neither changes the order inside a quota."""
        if job.opportunistic:
            return self._lend(job, choice) if may_borrow(self.state, job, choice) else None
        answer = None if choice.chains else self.state.placer.guaranteed(job, choice)
        return answer if isinstance(answer, Start) else None

    def _stays(self, job: Job) -> None:
        """Notes that a job finds no loan. An opportunistic one is listed with its reason; others have theirs from the
        queue, unless only the cooldown of idle GPUs is in the way."""
        reason = explain.loans_lost(job.loans_lost, job.rest_ms) if job.loans_lost and self._only_rests(job) else None
        if job.opportunistic:
            ahead = self._ahead.setdefault(job.vc, Ahead())
            shape = self.state.shapes.of(job)
            share = LED if job.led else self.cycle.share(job.vc, job.user)
            counts = ahead.join(job, share, shape.chains)
            self.cycle.unplaced.append(Unplaced(job, shape, shape.choices, counts, reason))
        elif reason is not None:
            unplaced = self.cycle.unplaced
            unplaced[:] = [one._replace(reason=reason) if one.job.id == job.id else one for one in unplaced]

    def _only_rests(self, job: Job) -> bool:
        """Whether only the cooldown of idle GPUs prevents a loan."""
        placer, fresh = self.state.placer, job._replace(loans_lost=0)
        choices = apart(within_caps(self.state, job, self.state.shapes.of(job).choices), job.gang)
        return any(may_borrow(self.state, job, one) and placer.borrowed(fresh, one) is not None for one in choices)
