"""Parking: a victim's GPU memory goes into its server's RAM, and the job goes on later as if nothing had been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scheduling.cells.allocator import PlacementConflict
from scheduling.model.job import OPPORTUNISTIC, LeafUse, Standing
from scheduling.model.plan import Plan, Preempt, Start
from scheduling.simulator.loop import Addition, Happening, Loop, Run

SWITCH_MS = 15_000
"""What it takes to bring the memory of a large GPU into RAM, or back."""


class Home(StrEnum):
    """Where what is parked can go on: on its own GPUs (what drivers can do), on its own nodes, or anywhere."""

    GPU = "gpu"
    NODE = "node"
    ANY = "any"


class Price(StrEnum):
    """What a job that can be parked costs as a victim: the work that would be lost without; two switches; or two
    switches and the mean wait until others had their GPUs back."""

    WORK = "work"
    SWITCH = "switch"
    WAIT = "wait"


class Queueing(StrEnum):
    """How what is parked waits: in the queue for its home alone, holding up who comes later; aside, until its home is
    idle; or in the queue for any place, its home first, and without what was parked wherever else it starts."""

    QUEUE = "queue"
    ASIDE = "aside"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class ParkRule:
    """Who is parked, and how it waits.

    gpus: jobs of up to so many GPUs. room: GPUs whose memory a node's RAM takes. patience_ms: after so long it starts
    anywhere, from nothing (None: never); patience: the same as a multiple of its unsaved work. least_ms: unsaved work
    that is worth it. longest_ms: run time of the preemptor at most, as if it was known.
    """

    gpus: int
    home: Home = Home.GPU
    price: Price = Price.WORK
    queueing: Queueing = Queueing.FIRST
    room: int = 8
    patience_ms: int | None = None
    patience: float | None = None
    least_ms: int = 0
    longest_ms: int | None = None
    by_right: bool = False

    def waits_ms(self, work_ms: int) -> int | None:
        """For how long it waits for its home alone; None: for ever."""
        if self.patience is not None:
            return round(self.patience * work_ms)
        return self.patience_ms


@dataclass(slots=True)
class _Parked:
    """A job in RAM: since when, its GPUs and nodes, and the work that is lost if it starts elsewhere."""

    since_ms: int
    leaves: frozenset[str]
    nodes: frozenset[str]
    work_ms: int
    aside: bool


class Parking(Addition):
    """Parks victims by a rule, and brings them home."""

    def __init__(self, loop: Loop, rule: ParkRule) -> None:
        self._loop = loop
        self._rule = rule
        self._parked: dict[str, _Parked] = {}
        self._could: set[str] = set()
        self._held: dict[str, str] = {}
        self._room: dict[str, int] = {}
        self._waits: list[int] = [0, 0]  # how often, and how long in all, jobs waited for their homes
        self._freed: set[str] = set()

    def before(self, now: int) -> None:
        """Prices the running jobs, and brings home whose GPUs are idle."""
        if self._rule.price is not Price.WORK and self._loop.waiting:
            for name in sorted(self._could):
                self._set_price(now, self._loop.runs[name])
        for name, parked in list(self._parked.items()):
            run = self._loop.runs[name]
            if self._rule.home is not Home.ANY and (parked.aside or self._rule.queueing is Queueing.FIRST):
                self._come_home(now, run, parked)
        self._freed.clear()

    def _set_price(self, now: int, run: Run) -> None:
        price = 2 * SWITCH_MS
        if self._rule.price is Price.WAIT and self._waits[0]:
            price += self._waits[1] // self._waits[0]
        since = max(run.started_ms, now - price) if self._takes(now, run) else run.started_ms
        self._loop.engine.saved(run.request.id, since)

    def _takes(self, now: int, run: Run) -> bool:
        """Whether the job would be parked as a victim."""
        if run.outcome.job.gpus > self._rule.gpus or self._work(now, run) < self._rule.least_ms:
            return False
        return all(
            self._room.get(node, 0) + gpus <= self._rule.room for node, gpus in run.outcome.attempts[-1].nodes.items()
        )

    def _work(self, now: int, run: Run) -> int:
        """The run time that it need not do again."""
        return run.outcome.job.duration_ms - run.left_ms + (run.done_ms(now) if run.standing is not None else 0)

    # Coming and going

    def started(self, now: int, run: Run) -> None:
        """What was parked goes on at home, and is lost elsewhere."""
        name = run.request.id
        leaves = frozenset(run.leaves)
        self._held.update(dict.fromkeys(leaves, name))
        if 0 < run.outcome.job.gpus <= self._rule.gpus:
            self._could.add(name)
        parked = self._parked.pop(name, None)
        if parked is None:
            return
        self._take_room(parked, -1)
        nodes = frozenset(place.node for place in run.places)
        at_home = {Home.GPU: leaves == parked.leaves, Home.NODE: nodes == parked.nodes, Home.ANY: True}
        if at_home[self._rule.home]:
            run.outcome.lost_ms += 2 * SWITCH_MS
            run.left_ms += 2 * SWITCH_MS
            run.outcome.resumed += 1
            self._waits[0] += 1
            self._waits[1] += now - parked.since_ms
            return
        self._begin_anew(run)

    def _begin_anew(self, run: Run) -> None:
        run.outcome.lost_ms += run.outcome.job.duration_ms - run.left_ms
        run.left_ms = run.outcome.job.duration_ms

    def left(self, now: int, run: Run, happening: Happening) -> None:
        """Its GPUs are idle."""
        self._could.discard(run.request.id)
        for leaf in run.leaves:
            del self._held[leaf]
        self._freed.add(run.request.vc)

    def requeue(self, now: int, run: Run) -> bool:
        """Parks a victim, if the rule says so."""
        name = run.request.id
        work, longest = self._work(now, run), self._rule.longest_ms
        preemptor_ms = self._loop.runs[run.preemptor].outcome.job.duration_ms
        if not self._takes(now, run) or (longest is not None and preemptor_ms > longest):
            self._begin_anew(run)
            return False
        run.outcome.parked += 1
        run.left_ms -= run.done_ms(now)
        nodes = frozenset(run.outcome.attempts[-1].nodes)
        aside = self._rule.queueing is Queueing.ASIDE and self._rule.home is not Home.ANY
        parked = self._parked[name] = _Parked(now, frozenset(run.leaves), nodes, work, aside)
        self._take_room(parked, 1)
        waits = self._rule.waits_ms(work)
        if waits is not None:
            self._loop.call(now + waits, run, "elsewhere")
        self._loop.engine.finish(name, None if aside else run.request.wanted)
        if aside:
            pass
        elif self._rule.queueing is Queueing.QUEUE and self._rule.home is not Home.ANY and waits != 0:
            self._loop.submit(run, run.request._replace(only_nodes=nodes))
        else:
            self._loop.submit(run)
        self._loop.leave(now, Happening.STOP, run)
        return True

    def _take_room(self, parked: _Parked, sign: int) -> None:
        """RAM, counted on the nodes in equal parts."""
        for node in parked.nodes:
            gpus = -(-len(parked.leaves) // len(parked.nodes))
            self._room[node] = self._room.get(node, 0) + sign * gpus

    def called(self, now: int, run: Run, word: str) -> None:
        """Its patience is over: it waits for any place."""
        parked = self._parked.get(run.request.id)
        if word != "elsewhere" or parked is None:
            return
        waits = self._rule.waits_ms(parked.work_ms)
        if waits is not None and now - parked.since_ms >= waits and self._rule.queueing is not Queueing.FIRST:
            parked.aside = False
            self._loop.submit(run)

    # Coming home

    def _come_home(self, now: int, run: Run, parked: _Parked) -> None:
        """Starts it on its idle GPUs, inside its quota if that is free, else on loan."""
        if run.claims:
            return
        if any(leaf in self._held for leaf in parked.leaves):
            if parked.aside and self._rule.by_right and run.request.vc in self._freed:
                self._take_home(now, run, parked)
            return
        for start in self._ways(now, run, parked):
            try:
                self._loop.engine.start(start)
            except PlacementConflict:
                continue
            self._loop.start(start)
            return

    def _take_home(self, now: int, run: Run, parked: _Parked) -> None:
        """Takes its GPUs from who has them on loan, if its quota is free."""
        only = run.request._replace(only_nodes=parked.nodes)
        answer = self._loop.engine.decide(only, now)
        if (
            isinstance(answer, Preempt)
            and {use.leaf for one in answer.placements for use in one.leaves} == parked.leaves
        ):
            parked.aside = False
            self._loop.submit(run, only)
            self._loop.engine.preempt(answer)
            self._loop.carry_out(Plan(now, preemptions=(answer,)))

    def _ways(self, now: int, run: Run, parked: _Parked) -> Iterator[Start]:
        only = run.request._replace(only_nodes=parked.nodes)
        answer = self._loop.engine.decide(only, now, may_preempt=False)
        if isinstance(answer, Start) and {use.leaf for one in answer.placements for use in one.leaves} == parked.leaves:
            yield answer._replace(job=run.request)
        lent = self._loop.engine.decide(only._replace(priority=OPPORTUNISTIC), now)
        if isinstance(lent, Start) and len(lent.placements) == 1:
            (place,) = lent.placements
            uses = tuple(LeafUse(leaf, None, Standing.BORROWED) for leaf in sorted(parked.leaves))
            yield lent._replace(job=run.request, placements=(place._replace(leaves=uses),))
