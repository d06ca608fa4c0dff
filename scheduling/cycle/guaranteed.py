"""First half of a cycle: guaranteed jobs inside their quota, each virtual cluster in its own order."""

from collections.abc import Iterator, Mapping

from scheduling.cells.request import CPU_CHAIN, Choice, JobShape, apart
from scheduling.cycle.backfill import reserve
from scheduling.cycle.borrow_before_preempting import BorrowBeforePreempting
from scheduling.cycle.cycle_state import LED, Counts, Cycle, QueueProgress, Unplaced
from scheduling.cycle.preemptors import Preemptors
from scheduling.cycle.promotion import Promotions
from scheduling.cycle.within_caps import cap_exceeded, is_capped, within_caps
from scheduling.diagnosis import reasons as explain
from scheduling.model.job import Job
from scheduling.model.plan import Preempt, Start
from scheduling.placement.virtual_placement import ReservedCells
from scheduling.queue.queue import merged, rank

_NEVER = _NONE = frozenset[str]()
_CPU = frozenset([CPU_CHAIN])
"""The chains of jobs without GPUs, as those who hold up others have them."""


class GuaranteedJobs:
    """Gives every guaranteed job its turn, in order."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.state = cycle.state
        self.preemptors = Preemptors(cycle)
        self.progress_of: dict[str, QueueProgress] = {}
        policy = cycle.state.placer.allocator.layout.policy
        self._backfill_on, self._promotion_on = policy.backfill, policy.promotion
        self._no_backfill: set[tuple[int, frozenset[str]]] = set()
        self._blocked: set[str] = set()  # virtual clusters that had cells and found no nodes
        self._last_joined = ""
        self._kept = frozenset[str]()
        self._with_reasons = False
        self._promotions = Promotions(cycle)
        self._borrowing_first = BorrowBeforePreempting(cycle, self._promotions, self.preemptors, self._first)
        self._skipped: set[str] = set()  # virtual clusters whose turn is known to lead to nothing

    def turns(self, with_reasons: bool) -> None:
        """Takes all turns; `with_reasons`: also of jobs that cannot start, for their reasons."""
        state = self.state
        self._with_reasons = with_reasons
        walks: dict[str, Iterator[Job]] = {}
        steady = not with_reasons and not self.cycle.fair and not self._backfill_on
        starting = self.preemptors.starting()
        for vc in sorted(vc for vc, queue in state.queues.items() if queue):
            if steady and vc not in starting and self._is_quiet(vc):
                self._skipped.add(vc)
            else:
                self.progress_of[vc] = QueueProgress(ReservedCells(state.placer.allocator, vc))
                walks[vc] = self._walk(vc, with_reasons)
        self._all(merged(walks), with_reasons)
        for name in sorted(state.claims):
            if name not in self.cycle.left:
                self.preemptors.convert(name)
        for name in sorted(state.claims):
            if name not in self.cycle.left:
                self.preemptors.elsewhere(name, self.progress_of)
        modest, preempted = (
            {one.job.vc for one in self.cycle.unplaced if one.shape.modest},
            self._preempted(),
        )
        for vc in walks if steady else ():
            quiet = vc not in self.cycle.busy and vc not in modest and vc not in preempted
            state.queues[vc].block_behind(self.progress_of[vc].blocked_behind if quiet else None)
            if quiet:
                state.memory.quiet[vc, ""] = self._signature(vc, vc in self._blocked, vc in self._promotions.unmoved)
            else:
                state.memory.quiet.pop((vc, ""), None)

    def was_wrong(self) -> bool:
        """Whether a job of a virtual cluster that was skipped is preempted."""
        return not self._skipped.isdisjoint(self._preempted())

    def _preempted(self) -> set[str]:
        """The virtual clusters of guaranteed victims: one that was on loan blocks its queue no more."""
        victims = (self.state.running[gone.job].job for one in self.cycle.preemptions for gone in one.victims)
        return {job.vc for job in victims if not job.opportunistic}

    def _all(self, jobs: Iterator[Job], with_reasons: bool) -> None:
        """Jobs without GPUs come last: what they use is in no quota and may be taken back."""
        last = []
        for job in jobs:
            if CPU_CHAIN in self.state.shapes.of(job).chains:
                last.append(job)
            else:
                self._turn(job)
        self.preemptors.step_in()
        self._borrowing_first.settle()
        for job in last:
            if with_reasons or self._backfill_on or CPU_CHAIN not in self.progress_of[job.vc].blocked_chains:
                self._turn(job)

    def _is_quiet(self, vc: str) -> bool:
        """Whether the last turn of the virtual cluster led to nothing, and would again."""
        known = self.state.memory.quiet.get((vc, ""))
        return known is not None and known == self._signature(vc, bool(known[0]), bool(known[1]))

    def _signature(self, vc: str, blocked: bool, unmoved: bool) -> tuple[int, ...]:
        """What the turn of a virtual cluster depends on: its queue and quota; also the nodes, where they had no room
        (`blocked`), and the bindings, where a job could not be promoted (`unmoved`)."""
        allocator = self.state.placer.allocator
        nodes = allocator.given_back if blocked else 0, allocator.binding if unmoved else 0
        return (blocked, unmoved, *nodes, self.state.queues[vc].front, allocator.freed.get(vc, 0))

    def _walk(self, vc: str, with_reasons: bool) -> Iterator[Job]:
        """The queue of a virtual cluster; `with_reasons`: with the jobs that are blocked anyway."""
        state, progress = self.state, self.progress_of[vc]
        walk = state.queues[vc].walk(self.cycle.shares_of(vc), state.reservations)
        self._kept |= walk.kept
        capped, blocked, claims, running = is_capped(state, vc), progress.blocked_chains, state.claims, state.running
        join, add_unplaced = progress.ahead.join, self.cycle.unplaced.append
        closed, kept, holds = self._no_backfill, progress.kept, state.placer.holdable.shape
        layout = state.placer.allocator.layout
        for job, shape, share in walk:
            # What still waits of a job may be tasks without GPUs alone: they want no chain, and nothing blocks them.
            chains = shape.chains
            if not chains or not chains <= blocked:
                yield job
            elif kept and self._backfill_on and (shape.number, self._early(job, shape, progress)) not in closed:
                yield job  # it may be backfilled
            elif not with_reasons:
                if not self._backfill_on:
                    walk.skipped.add(shape.number)
            elif capped or job.id in claims or job.id in running or explain.is_ineligible(job, layout):
                yield job
            elif not holds(vc, shape):
                add_unplaced(Unplaced(job, shape, ()))
            else:
                place = join(job, LED if job.led else share, chains, kept=job.id in walk.kept)
                add_unplaced(Unplaced(job, shape, (), place))

    def _early(self, job: Job, shape: JobShape, progress: QueueProgress) -> frozenset[str]:
        """The chains whose kept cells the job leaves by its time limit before they are needed."""
        if job.time_limit_ms is None:
            return _NEVER
        ends = self.cycle.now + job.time_limit_ms
        kept = ((chain, progress.kept[chain].at_ms) for chain in shape.chains.intersection(progress.kept))
        return frozenset(chain for chain, at in kept if at is not None and ends <= at)

    def _turn(self, job: Job) -> None:
        progress = self.progress_of[job.vc]
        blocked = len(progress.blocked_chains)
        self._see_to(job)
        if len(progress.blocked_chains) > blocked:
            place = max(rank(job), progress.blocked_behind[0]) if progress.blocked_behind else rank(job)
            progress.blocked_behind = place, frozenset(progress.blocked_chains)

    def _see_to(self, job: Job) -> None:
        state = self.state
        if job.id in state.claims:
            self.preemptors.convert(job.id)
            if job.id in state.claims:
                self._wait_for_cells(job)
                return
        running, progress = state.running.get(job.id), self.progress_of[job.vc]
        behind, mine = None, set[str]()
        if running is not None and self._promotion_on:
            others = set(progress.blocked_chains)
            behind = self._promotions.turn(running, job, progress)
            mine = progress.blocked_chains - others
        waiting = self.cycle.left.get(job.id, state.waiting.get(job.id))
        if waiting is not None:
            progress.blocked_chains -= mine  # its tasks on loan block later jobs, not its own waiting tasks
            self._ask(waiting)
            progress.blocked_chains |= mine
        if behind and self._last_joined != job.id:
            self._join(job, frozenset(behind))

    def _join(self, job: Job, chains: frozenset[str]) -> Counts | None:
        """Counts the job as ahead of all later ones: once, however many of its tasks wait or run on loan. For reasons
        only."""
        if not self._with_reasons:
            return None
        self._last_joined = job.id
        share = LED if job.led else self.cycle.share(job.vc, job.user)
        return self.progress_of[job.vc].ahead.join(job, share, chains, kept=job.id in self._kept)

    def _wait_for_cells(self, job: Job) -> None:
        """Tasks of a job with claims are placed once it has its cells; until then later jobs wait."""
        claimed = {claim.task for claim in self.state.claims[job.id].values()}
        waiting = self.cycle.left.get(job.id, self.state.waiting.get(job.id))
        if waiting is not None and not job.gang and not claimed.issuperset(waiting.wanted):
            self.progress_of[job.vc].blocked_chains |= self.state.shapes.of(job).chains

    def _ask(self, job: Job) -> None:
        """Places a waiting guaranteed job on the chains that no earlier job blocks."""
        shape, progress = self.state.shapes.of(job), self.progress_of.get(job.vc)
        reason = explain.ineligible(job, self.state.placer.allocator.layout) or cap_exceeded(self.state, job, shape)
        if reason is not None or progress is None:
            self.cycle.unplaced.append(Unplaced(job, shape, (), None, reason))
            return
        free = shape.choices
        if not progress.blocked_chains.isdisjoint(shape.chains):
            # Without backfill, jobs without GPUs do not overtake each other either.
            bare = _NONE if self._backfill_on else _CPU
            free = tuple(
                choice for choice in shape.choices if progress.blocked_chains.isdisjoint(choice.chains or bare)
            )
        self.state.placer.blocked = False
        answer = self._first(job, free, progress.reserved)
        if self.state.placer.blocked:
            self._blocked.add(job.vc)
        elif isinstance(answer, Preempt) and self._borrowing_first.defers(answer, shape, free, progress):
            return
        if answer is None and len(free) < len(shape.choices):
            answer = self._backfill(job, shape, progress)
        if answer is None and job.loans_lost and self._only_rests(job, free, progress):
            self.cycle.busy.add(job.vc)  # it may start when time has passed, though nothing else has changed
            self.cycle.unplaced.append(Unplaced(job, shape, (), None, explain.loans_lost(job.loans_lost, job.rest_ms)))
            return
        if answer is None:
            self._block_later(job, shape, free)
            return
        self.cycle.busy.add(job.vc)
        rest = self.cycle.carry_out(answer)
        if rest is not None:
            self._ask(rest)

    def _only_rests(self, job: Job, choices: tuple[Choice, ...], progress: QueueProgress) -> bool:
        """Whether only the loan cooldown of idle GPUs keeps the job from starting. It blocks nobody."""
        return isinstance(self._first(job._replace(loans_lost=0), choices, progress.reserved), Start)

    def _first(self, job: Job, choices: tuple[Choice, ...], reserved: Mapping[int, int]) -> Start | Preempt | None:
        one = is_capped(self.state, job.vc)
        for choice in within_caps(self.state, job, choices):
            answer = self.state.placer.guaranteed(job, choice, reserved=reserved, one=one)
            if answer is not None:
                return answer
        return None

    def _backfill(self, job: Job, shape: JobShape, progress: QueueProgress) -> Start | Preempt | None:
        """Places the job beside a reservation: on cells that it does not need, or on all until it begins."""
        key = shape.number, self._early(job, shape, progress)
        if not self._backfill_on or key in self._no_backfill:
            return None
        ends = None if job.time_limit_ms is None else self.cycle.now + job.time_limit_ms
        # What nobody's limit bars was asked for here: whoever is barred from some of it finds no more.
        choices = within_caps(self.state, job, shape.choices)
        alike = not is_capped(self.state, job.vc) or len(choices) == len(apart(shape.choices, job.gang))
        alike = alike and not job.loans_lost
        for choice in choices:
            if any(chain in progress.blocked_chains and chain not in progress.kept for chain in choice.chains):
                continue
            answer = self._beside(job, choice, progress, ends)
            if isinstance(answer, Preempt) and ends is not None:  # it starts once the last victim is gone
                later = ends + max(victim.grace_ms for victim in answer.victims)
                answer, alike = self._beside(job, choice, progress, later), False
            if answer is not None:
                return answer
        if alike:
            self._no_backfill.add(key)
        return None

    def _beside(self, job: Job, choice: Choice, progress: QueueProgress, ends: int | None) -> Start | Preempt | None:
        """Where the job may go if it ends by then."""
        if job.gang and not self.state.placer.enough_quota(job, choice.units[0]):
            return None
        avoid = dict(progress.reserved)
        for chain in choice.chains.intersection(progress.kept):
            for cell, mask in progress.kept[chain].leaves_alone(ends).items():
                avoid[cell] = avoid.get(cell, 0) | mask
        one = is_capped(self.state, job.vc)
        return self.state.placer.guaranteed(job, choice, reserved=avoid, one=one, inside=False)

    def _block_later(self, job: Job, shape: JobShape, free: tuple[Choice, ...]) -> None:
        """Blocks the job's chains for later jobs; not where the quota can never hold it."""
        if not self.state.placer.holdable.shape(job.vc, shape):
            self.cycle.unplaced.append(Unplaced(job, shape, ()))
            return
        progress = self.progress_of[job.vc]
        self.cycle.unplaced.append(Unplaced(job, shape, free, self._join(job, shape.chains)))
        fresh = shape.chains - progress.blocked_chains
        if fresh and self._backfill_on:
            for choice in free:
                if choice.chains & fresh:
                    kept = reserve(self.state.placer, job, choice, with_reasons=self._with_reasons)
                    progress.kept.update(dict.fromkeys(choice.chains & fresh, kept))
                    self.cycle.reservations.append(job.id)
                    break
        progress.blocked_chains |= shape.chains
