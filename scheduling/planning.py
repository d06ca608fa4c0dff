"""One pass over all jobs: the order, and a decision for whoever's turn it is."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduling import explain
from scheduling.caps import capped, over_cap
from scheduling.cells import Order
from scheduling.deciding import Desk, desk_of
from scheduling.decisions import Demotion, Plan, Preempt, Promotion, Reason, Start
from scheduling.fairness import turns
from scheduling.jobs import Borrow, Job, LeafUse, Standing, TaskPlacement, TaskRef
from scheduling.lending import Loans
from scheduling.ordering import Queue, Walk, merged
from scheduling.promotion import promote
from scheduling.reservation import Reservation, reserve
from scheduling.shapes import Choice, Shape, Shapes, Unit
from scheduling.snapshot import Claim, Running, RunningTask
from scheduling.telling import Teller
from scheduling.usage import Shares, amounts_of


@dataclass(slots=True)
class Line:
    """One virtual cluster's queue as the pass goes through it: which chains an earlier job holds up, and for whom
    cells are kept. `owed` are virtual leaves of earlier jobs that run on loan and cannot move into them yet."""

    held: set[str] = field(default_factory=set)
    kept: dict[str, Reservation] = field(default_factory=dict)
    owed: dict[int, int] = field(default_factory=dict)
    ahead: "Ahead" = field(default_factory=lambda: Ahead())


class Ahead:
    """Counts of waiting jobs that were passed, by the chains that they want."""

    def __init__(self) -> None:
        self._passed: dict[frozenset[str], int] = {}
        self._higher: dict[frozenset[str], int] = {}
        self._alike: dict[tuple[frozenset[str], float], int] = {}
        self._priority: int | None = None

    def join(self, priority: int, share: float, chains: frozenset[str]) -> tuple[int, int, int]:
        """The next job in order waits: how many ahead share a chain; of them by priority; and by share."""
        if priority != self._priority:
            self._higher = self._passed.copy()
            self._alike.clear()
            self._priority = priority
        ahead = higher = alike = 0
        for passed, count in self._passed.items():
            if passed & chains:
                ahead += count
                higher += self._higher.get(passed, 0)
                alike += self._alike.get((passed, share), 0)
        self._passed[chains] = self._passed.get(chains, 0) + 1
        self._alike[chains, share] = self._alike.get((chains, share), 0) + 1
        return ahead, higher, ahead - higher - alike


@dataclass(frozen=True, slots=True)
class Late:
    """A job that does not start: the choices that nobody ahead holds up, who is ahead (all, by priority, by
    share), and its reason where that is known already."""

    job: Job
    shape: Shape
    choices: tuple[Choice, ...]
    ahead: tuple[int, int, int] | None = None
    reason: Reason | None = None


@dataclass(slots=True)
class State:
    """What a pass reads and, on trial, changes: the engine's own maps."""

    desk: Desk
    shapes: Shapes
    shares: Shares
    loans: Loans
    queues: Mapping[str, Queue]
    opportunistic: Mapping[str, Queue]
    running: dict[str, Running]
    waiting: Mapping[str, Job]
    claims: dict[str, dict[str, Claim]]
    claimants: dict[str, Job]
    demotions: Mapping[str, Demotion]
    reservations: Collection[str]
    leaf_types: Mapping[str, str]
    memory: "Memory"


@dataclass(slots=True)
class Memory:
    """What the last passes found that still holds: work saved, never an answer changed.

    `quiet`: virtual clusters whose turn led to nothing, with the state of things then; `stuck`: shapes for which
    there was no loan, with how much had been given back then.
    """

    quiet: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    stuck: dict[int, int] = field(default_factory=dict)


class Pass:
    """Makes the plan of one moment, in this order:

    1. Jobs that have taken cells start when the last victim is gone.
    2. Guaranteed jobs inside their quota, each virtual cluster in its order: who runs on loan moves in where he
       is, who waits starts or preempts. Who cannot holds up the later ones of his chains, except those that
       cannot delay him.
    3. Idle cells on loan: the virtual cluster with the smallest weighted share on loan is next.
    4. The reasons of those that wait, with the numbers that hold when all of it is carried out.

    The state is changed on the way and is the caller's to take back or to keep.
    """

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.fair = state.desk.ledger.layout.policy.order is Order.FAIR
        self.lines: dict[str, Line] = {}
        self.late: list[Late] = []
        self.no_loan: set[int] = set()
        self.no_backfill: set[int] = set()
        self.starts: list[Start] = []
        self.preemptions: list[Preempt] = []
        self.promotions: list[Promotion] = []
        self.releases: list[str] = []
        self.left: dict[str, Job | None] = {}
        self.reserved: list[str] = []
        self.hardware: set[str] = set()
        self.busy: set[str] = set()

    def run(self, *, told: bool, fallen: Mapping[str, Demotion]) -> Plan:
        """All decisions; the reasons of waiting jobs only when `told`. `fallen` jobs have lost their quota."""
        self._claimants()
        self._quotas(told)
        self._loans(told)
        self._modest()
        waits = Teller(self).waits() if told else ()
        return Plan(
            self.now,
            starts=tuple(self.starts),
            preemptions=tuple(self.preemptions),
            promotions=tuple(self.promotions),
            demotions=tuple(fallen[name] for name in sorted(fallen)),
            waits=waits,
            releases=tuple(sorted(set(self.releases))),
            reservations=tuple(sorted(self.reserved)),
        )

    # 1. Those that have taken cells

    def _claimants(self) -> None:
        state = self.state
        for name in sorted(state.claims):
            job = state.waiting.get(name)
            claims = state.claims[name]
            if job is None or not self._usable(claims):
                self._give_up(name)
            elif all(claim.victim is None for claim in claims.values()):
                placements = self._claimed(job, claims)
                if placements is not None:
                    self._start(Start(job, placements, self.now))

    def _usable(self, claims: Mapping[str, Claim]) -> bool:
        ledger = self.state.desk.ledger
        for leaf in claims:
            at = ledger.layout.leaf_at.get(leaf)
            if at is None or not ledger.open_nodes >> at[0] & 1 or not ledger.healthy[at[0]] >> at[1] & 1:
                return False
        return True

    def _give_up(self, name: str) -> None:
        for leaf in self.state.claims.pop(name):
            self.state.desk.ledger.unclaim(name, leaf)
            self.releases.append(leaf)
        self.state.claimants.pop(name, None)

    def _claimed(self, job: Job, claims: Mapping[str, Claim]) -> tuple[TaskPlacement, ...] | None:
        """The places that the claims say; tasks without GPUs are found theirs now."""
        layout = self.state.desk.ledger.layout
        uses: dict[TaskRef, list[LeafUse]] = {}
        for leaf in sorted(claims):
            claim = claims[leaf]
            uses.setdefault(claim.task, []).append(LeafUse(leaf, claim.virtual_cell, Standing.GUARANTEED))
        found = []
        for task, mine in sorted(uses.items()):
            role = job.role(task.role)
            mine.sort(key=lambda use: layout.leaf_at[use.leaf])
            node = layout.nodes[layout.leaf_at[mine[0].leaf][0]].id
            found.append(TaskPlacement(*task, node, tuple(mine), role.cpu_milli, role.memory_mb))
        rest = [task for task in job.wanted if task not in uses and not job.role(task.role).gpus]
        if not job.gang or not rest:
            return tuple(found)
        more = self.state.desk.without_gpus(replace(job, wanted=tuple(rest)))
        return None if more is None else (*found, *more)

    # 2. Quotas

    def _quotas(self, told: bool) -> None:
        state = self.state
        walks: dict[str, Iterator[Job]] = {}
        steady = not told and not self.fair and not state.desk.ledger.layout.policy.backfill
        for vc in sorted(state.queues):
            self.lines[vc] = Line()
            if not steady or state.memory.quiet.get((vc, "")) not in (self._signature(vc, 0), self._signature(vc, 1)):
                walks[vc] = self._line(vc, told)
        for job in merged(walks):
            self._turn(job)
        for vc in walks if steady else ():
            if vc in self.busy:
                state.memory.quiet.pop((vc, ""), None)
            else:
                state.memory.quiet[vc, ""] = self._signature(vc, int(vc in self.hardware))

    def _signature(self, vc: str, hardware: int) -> tuple[int, ...]:
        """What the turn of a virtual cluster depends on: its queue, its quota, and the nodes where they failed it."""
        ledger = self.state.desk.ledger
        freed = sum(count for (owner, _), count in ledger.freed.items() if owner == vc)
        return (self.state.queues[vc].version, freed, hardware, ledger.given_back() if hardware else 0)

    def _line(self, vc: str, told: bool) -> Iterator[Job]:
        """The queue of a virtual cluster; without reasons to tell, without those who are held up anyway."""
        state, line = self.state, self.lines[vc]
        walk = state.queues[vc].walk(lambda user: self._share(vc, user), state.reservations)
        backfill = state.desk.ledger.layout.policy.backfill
        for job in walk:
            if told or (backfill and line.kept):
                yield job
            elif line.held and state.shapes.of(job).chains <= line.held:
                walk.pass_over()
            else:
                yield job

    def _share(self, vc: str, user: str) -> float:
        """The user's share, where it decides the order."""
        return self.state.shares.of(vc, user) if self.fair else 0.0

    def _turn(self, job: Job) -> None:
        state = self.state
        if job.id in state.claims or job.id in self.left:
            return
        running = state.running.get(job.id)
        if running is not None and any(_on_loan(task) for task in running.tasks):
            self._move_in(running)
        waiting = state.waiting.get(job.id)
        if waiting is None:
            return
        self._ask(waiting)

    def _ask(self, job: Job) -> None:
        """A waiting guaranteed job, as far as nobody ahead holds up its chains."""
        shape, line = self.state.shapes.of(job), self.lines.get(job.vc)
        reason = explain.hold(job, self.state.desk.ledger.layout) or cap_passed(self.state, job, shape)
        if reason is not None or line is None:
            self.late.append(Late(job, shape, (), None, reason))
            return
        free = tuple(choice for choice in shape.choices if line.held.isdisjoint(choice.chains))
        if not shape.choices or line.held.isdisjoint(shape.chains):
            free = shape.choices
        self.state.desk.blocked = False
        answer = self._first(job, free, line.owed)
        if self.state.desk.blocked:
            self.hardware.add(job.vc)
        if answer is None and len(free) < len(shape.choices):
            answer = self._backfill(job, shape, line)
        if answer is None:
            self._hold_up(job, shape, free)
            return
        self.busy.add(job.vc)
        rest = self._carry_out(answer)
        if rest is not None:
            self._ask(rest)

    def _first(self, job: Job, choices: tuple[Choice, ...], owed: Mapping[int, int]) -> Start | Preempt | None:
        one = is_capped(self.state, job.vc)
        for choice in choices:
            answer = self.state.desk.guaranteed(job, choice, owed=owed, one=one)
            if answer is not None:
                return answer
        return None

    def _backfill(self, job: Job, shape: Shape, line: Line) -> Start | None:
        """Beside a reservation: on cells that it does not need, or all the time before it."""
        if not self.state.desk.ledger.layout.policy.backfill or shape.number in self.no_backfill:
            return None
        ends = None if job.time_limit_ms is None else self.now + job.time_limit_ms
        for choice in shape.choices:
            if any(chain in line.held and chain not in line.kept for chain in choice.chains):
                continue
            avoid = dict(line.owed)
            for chain in choice.chains & line.kept.keys():
                for cell, mask in line.kept[chain].leaves_alone(ends).items():
                    avoid[cell] = avoid.get(cell, 0) | mask
            one = is_capped(self.state, job.vc)
            answer = self.state.desk.guaranteed(job, choice, owed=avoid, one=one, inside=False)
            if isinstance(answer, Start):
                return answer
        if ends is None:
            self.no_backfill.add(shape.number)
        return None

    def _hold_up(self, job: Job, shape: Shape, free: tuple[Choice, ...]) -> None:
        line = self.lines[job.vc]
        share = self._share(job.vc, job.user)
        self.late.append(Late(job, shape, free, line.ahead.join(job.priority, share, shape.chains)))
        fresh = shape.chains - line.held
        if fresh and self.state.desk.ledger.layout.policy.backfill:
            for choice in free:
                if choice.chains & fresh:
                    kept = reserve(self.state.desk, job, choice)
                    line.kept.update(dict.fromkeys(choice.chains & fresh, kept))
                    self.reserved.append(job.id)
                    break
        line.held |= shape.chains

    def _move_in(self, running: Running) -> None:
        """Promotion in place; where it cannot be, the cells that the job would have stay its own."""
        state, line = self.state, self.lines[running.job.vc]
        cause = state.demotions.get(running.job.id)
        if cause is not None and (cause.cause in state.running or cause.cause in state.claims):
            return
        lent = tuple(task.placement.task for task in running.tasks if _on_loan(task) and not task.leaving)
        if not lent or any(task.leaving for task in running.tasks):
            return
        groups = [lent] if running.job.gang else [(task,) for task in lent]
        for tasks in groups:
            shape = state.shapes.of(replace(running.job, wanted=tasks, gang=True))
            choice = next((one for one in shape.choices if self._lies_in(running, one)), None)
            if choice is None or not line.held.isdisjoint(choice.chains):
                continue
            unit = choice.units[0]
            seats = (
                state.desk.seats(running.job, unit, owed=line.owed)
                if state.desk.enough_quota(running.job, unit)
                else None
            )
            placements = promote(state.desk, running, unit, seats, line.owed) if seats is not None else None
            if placements is not None:
                self.busy.add(running.job.vc)
                self._promote(running.job, placements)
                running = state.running[running.job.id]
                continue
            if seats is None and not self._could_move_in(running.job, shape, unit):
                continue
            if seats is not None:
                self.hardware.add(running.job.vc)
            line.ahead.join(running.job.priority, self._share(running.job.vc, running.job.user), choice.chains)
            if seats is None:
                line.held |= choice.chains
                continue
            for seat in seats:
                line.owed[seat.cell] = line.owed.get(seat.cell, 0) | seat.leaves

    def _could_move_in(self, job: Job, shape: Shape, unit: Unit) -> bool:
        """Whether the quota, were all of it free, holds the job at all: a smaller quota may have left it too large."""
        known = self.state.desk.holdable
        if shape.number not in known:
            desk = self.state.desk
            known[shape.number] = desk_of(desk.idle, desk.idle).seats(job, unit) is not None
        return known[shape.number]

    def _lies_in(self, running: Running, choice: Choice) -> bool:
        layout = self.state.desk.ledger.layout
        chains = {
            layout.chains[layout.position[task.placement.node]]
            for task in running.tasks
            if task.placement.leaves and task.placement.node in layout.position
        }
        return chains <= choice.chains

    def _promote(self, job: Job, placements: tuple[TaskPlacement, ...]) -> None:
        state = self.state
        running = state.running[job.id]
        new = {placement.task: placement for placement in placements}
        for task in running.tasks:
            if task.placement.task in new:
                state.loans.book(job, task.placement, -1)
        for placement in placements:
            state.desk.ledger.unlend(job.id, placement)
        tasks = tuple(replace(task, placement=new.get(task.placement.task, task.placement)) for task in running.tasks)
        state.running[job.id] = replace(running, tasks=tasks)
        self.promotions.append(Promotion(job.id, placements))

    # 3. Loans

    def _loans(self, told: bool) -> None:
        state = self.state
        queues = {}
        self.given_back = state.desk.ledger.given_back()
        steady = not told and not self.fair
        for vc in sorted({*state.queues, *state.opportunistic}):
            if not steady or state.memory.quiet.get((vc, "loan")) != self._loan_signature(vc):
                queues[vc] = self._borrowers(vc, told)
        for vc, job in turns(state.loans.shares, queues):
            if self._borrow(job):
                self.busy.add(vc)
        for vc in queues if steady else ():
            if vc in self.busy:
                state.memory.quiet.pop((vc, "loan"), None)
            else:
                state.memory.quiet[vc, "loan"] = self._loan_signature(vc)

    def _loan_signature(self, vc: str) -> tuple[int, ...]:
        queues = [kind[vc].version for kind in (self.state.queues, self.state.opportunistic) if vc in kind]
        return (self.given_back, *queues)

    def _borrowers(self, vc: str, told: bool) -> Iterator[Job]:
        """Who wants a loan: jobs of the queue that may, in its order, then opportunistic ones."""
        state = self.state
        for kind in (state.queues, state.opportunistic):
            if vc in kind:
                walk = kind[vc].walk(lambda user: self._share(vc, user))
                yield from self._wanting(walk, kind is state.opportunistic, told)

    def _wanting(self, walk: Walk, opportunistic: bool, told: bool) -> Iterator[Job]:
        state = self.state
        for job in walk:
            left = self.left.get(job.id, state.waiting.get(job.id))
            if left is None or job.id in state.claims:
                continue
            if not opportunistic and (left.borrow is not Borrow.AUTO or not state.desk.ledger.layout.policy.lending):
                continue
            reason = explain.hold(left, state.desk.ledger.layout)
            if reason is not None:
                if opportunistic:
                    self.late.append(Late(left, state.shapes.of(left), (), None, reason))
            elif not self._no_loan_for(state.shapes.of(left)):
                yield left
            elif told:
                self._no_loan(left)
            else:
                walk.pass_over()

    def _no_loan_for(self, shape: Shape) -> bool:
        """Whether a job of this shape found no loan, and nothing was given back since."""
        return shape.number in self.no_loan or self.state.memory.stuck.get(shape.number) == self.given_back

    def _borrow(self, job: Job) -> bool:
        state = self.state
        shape = state.shapes.of(job)
        for choice in shape.choices:
            if not state.desk.roomy(choice, job.gang) or not may_borrow(state, job, choice):
                continue
            start = state.desk.borrowed(job, choice)
            if start is not None:
                rest = self._carry_out(start)
                if rest is not None:
                    self._borrow(rest)
                return True
        self.no_loan.add(shape.number)
        state.memory.stuck[shape.number] = self.given_back
        self._no_loan(job)
        return False

    def _modest(self) -> None:
        """Who leaves idle GPUs their reserve may find more now that fewer are idle: asked again, in order."""
        if not self.starts:
            return
        tried: set[int] = set()
        for late in [one for one in self.late if one.shape.modest and one.reason is None]:
            job = self.left.get(late.job.id, late.job)
            if job is None or late.shape.number in tried or not late.choices:
                continue
            find = self.state.desk.borrowed if job.opportunistic else self.state.desk.guaranteed
            start = next(
                (one for one in (find(job, choice) for choice in late.choices) if isinstance(one, Start)), None
            )
            if start is None:
                tried.add(late.shape.number)
            else:
                self._carry_out(start)

    def _no_loan(self, job: Job) -> None:
        """An opportunistic job finds no loan; others have their reason from the queue."""
        if job.opportunistic:
            line = self.lines.setdefault("borrowing " + job.vc, Line())
            shape = self.state.shapes.of(job)
            share = self._share(job.vc, job.user)
            self.late.append(Late(job, shape, shape.choices, line.ahead.join(job.priority, share, shape.chains)))

    # Carrying out, on trial

    def _carry_out(self, answer: Start | Preempt) -> Job | None:
        """What is left of the job after it."""
        for leaf in answer.releases:
            for name in [one for one, claims in self.state.claims.items() if leaf in claims]:
                self._give_up(name)
        for name in answer.demotes:
            self._demote(name)
        if isinstance(answer, Start):
            return self._start(answer)
        self.preemptions.append(answer)
        claim_all(self.state, answer)
        self.left[answer.job.id] = None
        return None

    def _demote(self, name: str) -> None:
        state = self.state
        running = state.running[name]
        for task in running.tasks:
            state.desk.ledger.lend(name, task.placement)
        state.running[name] = lent(running)
        for task in state.running[name].tasks:
            state.loans.book(running.job, task.placement, 1)

    def _start(self, start: Start) -> Job | None:
        state, job = self.state, start.job
        if job.id in state.claims:
            for leaf in state.claims.pop(job.id):
                state.desk.ledger.unclaim(job.id, leaf)
            state.claimants.pop(job.id, None)
        tasks = []
        for placement in start.placements:
            state.desk.ledger.hold(job.id, placement)
            state.loans.book(job, placement, 1)
            amounts = amounts_of(placement, state.leaf_types)
            if self.fair and amounts and not job.opportunistic:
                state.shares.add(job.vc, job.user, amounts)
            tasks.append(RunningTask(placement, self.now))
        before = state.running.get(job.id)
        state.running[job.id] = Running(replace(job, wanted=()), (*(before.tasks if before else ()), *tasks))
        self.starts.append(start)
        placed = {placement.task for placement in start.placements}
        rest = tuple(task for task in job.wanted if task not in placed)
        left = self.left[job.id] = replace(job, wanted=rest) if rest else None
        return left


def is_capped(state: State, vc: str) -> bool:
    """Whether the rules limit what may be held, so that tasks are counted one by one."""
    return capped(state.desk.ledger.layout.virtual_clusters[vc].rules)


def cap_passed(state: State, job: Job, shape: Shape) -> Reason | None:
    """Which limit of its virtual cluster's rules the guaranteed job would pass; None: none."""
    if not is_capped(state, job.vc):
        return None
    needs = min((needs_of(choice, job.gang) for choice in shape.choices), key=_total, default={})
    return over_cap(state.desk.ledger.layout, state.running, job, needs)


def may_borrow(state: State, job: Job, choice: Choice) -> bool:
    """Whether the limits of borrowing and lending leave the job what it needs at least."""
    needs = needs_of(choice, job.gang)
    vc = state.desk.ledger.layout.virtual_clusters[job.vc]
    return not (state.loans.within_own(vc, needs) or state.loans.within_lent(state.desk.ledger, needs))


def claim_all(state: State, answer: Preempt) -> None:
    """The preemptor's claims on every leaf of its placement; the victims are on their way out."""
    ledger, name = state.desk.ledger, answer.job.id
    mine: dict[str, Claim] = {}
    for placement in answer.placements:
        for use in placement.leaves:
            at = ledger.layout.leaf_at[use.leaf]
            victim = next((job for job, mask in ledger.held[at[0]].items() if mask >> at[1] & 1), None)
            mine[use.leaf] = Claim(use.leaf, name, victim, use.virtual_cell or "", placement.task)
    uses = [LeafUse(claim.leaf, claim.virtual_cell, Standing.GUARANTEED) for claim in mine.values()]
    for use in uses:
        ledger.make_way(use)
    for use in uses:
        ledger.claim(name, use)
    state.claims[name] = mine
    state.claimants[name] = answer.job
    for gone in answer.victims:
        running = state.running[gone.job]
        state.running[gone.job] = replace(
            running,
            tasks=tuple(
                replace(task, leaving=task.leaving or task.placement.task in gone.tasks) for task in running.tasks
            ),
        )


def lent(running: Running) -> Running:
    """The same job with all its leaves borrowed."""
    tasks = []
    for task in running.tasks:
        leaves = tuple(LeafUse(use.leaf, None, Standing.BORROWED) for use in task.placement.leaves)
        tasks.append(replace(task, placement=replace(task.placement, leaves=leaves)))
    return replace(running, tasks=tuple(tasks))


def needs_of(choice: Choice, gang: bool) -> dict[str, int]:
    """GPUs by leaf type that the choice needs at least at once: all of a gang, else the smallest task."""
    unit = choice.units[0] if gang else choice.units[-1]
    needs: dict[str, int] = {}
    for pool in unit.pools:
        for part in pool.parts:
            count = part.count if gang else 1
            needs[part.cell_type] = needs.get(part.cell_type, 0) + part.gpus * count
    return needs


def _total(amounts: Mapping[str, int]) -> int:
    return sum(amounts.values())


def _on_loan(task: RunningTask) -> bool:
    return any(use.virtual_cell is None for use in task.placement.leaves)
