"""Guests: one-GPU jobs that run on the GPU of another job, beside it or while it is parked.

The engine knows the host alone, so a guest takes nothing from anybody: it goes when its host's GPU goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scheduling.cells.allocator import PlacementConflict
from scheduling.model.job import Standing
from scheduling.model.plan import Start
from scheduling.simulator.loop import FULL_SPEED, Addition, Happening, Loop, Run, standing_of
from scheduling.simulator.parking import SWITCH_MS

HOUR_MS = 3_600_000
PERIOD_MS = 4 * HOUR_MS
"""A session computes at the beginning of every four hours, and is idle for the rest of them."""

IDLE_AFTER_MS = HOUR_MS
"""So long a session may be idle until something is done about it."""

QUANTUM_MS = 20 * SWITCH_MS
"""A turn, of which a switch is a twentieth."""

MOST_TURNS = 4


class Idle(StrEnum):
    """What is done about an idle session: nothing; it is stopped, and waits anew when its person comes back; or it is
    parked, its GPU is lent, and taken back when its person comes back."""

    HOLD = "hold"
    STOP = "stop"
    PARK = "park"


@dataclass(frozen=True, slots=True)
class SessionRule:
    """Which part of the one-GPU jobs are sessions, which part of their time they compute, what is done about others."""

    share: float
    busy: float = 0.25
    idle: Idle = Idle.STOP

    @property
    def busy_ms(self) -> int:
        """For how long of every four hours a session computes."""
        return round(self.busy * PERIOD_MS)

    def idle_until(self, position_ms: int) -> int:
        """How much of a session's first so many ms it is idle."""
        periods, rest = divmod(position_ms, PERIOD_MS)
        return periods * (PERIOD_MS - self.busy_ms) + max(0, rest - self.busy_ms)


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How many one-GPU jobs of a team may share a GPU, and how much slower each is (a fraction) while it is not alone;
    in turns they have it one after the other."""

    most: int
    slowdown: float = 0.0
    turns: bool = False

    def speed(self, members: int) -> int:
        """How fast each of so many is, in thousandths."""
        if members < 2:
            return FULL_SPEED
        if self.turns:
            return FULL_SPEED * (QUANTUM_MS - SWITCH_MS) // (QUANTUM_MS * members)
        return round(FULL_SPEED * (1 - self.slowdown))


class Guests(Addition):
    """What sessions and groups have in common: waiting one-GPU jobs that become guests, and go."""

    def __init__(self, loop: Loop, names: frozenset[str]) -> None:
        self._loop = loop
        self._names = names

    def _waiting(self) -> Iterator[Run]:
        """One-GPU jobs that wait, and for no victim, in the order of submission."""
        found = [one for name, one in self._loop.waiting.items() if name in self._names and not one.claims]
        yield from sorted(found, key=lambda run: (run.outcome.job.submit_ms, run.outcome.job.line))

    def _admit(self, now: int, guest: Run) -> None:
        """The job runs as a guest: it waits no longer, and holds nothing that the engine knows of."""
        del self._loop.waiting[guest.request.id]
        self._loop.engine.finish(guest.request.id)
        guest.standing = Standing.BORROWED
        self._loop.begin(now, guest, {})
        self._loop.note(now, Happening.START, guest)


class Sessions(Guests):
    """Sessions whose person comes and goes."""

    def __init__(self, loop: Loop, rule: SessionRule, sessions: frozenset[str], others: frozenset[str]) -> None:
        super().__init__(loop, others)
        self._rule = rule
        self._sessions = sessions
        self._since: dict[str, tuple[int, int]] = {}  # of each that runs: when and where in its time it started
        self._parked: dict[str, Run | None] = {}  # by session: the guest on its GPU
        self._asked: dict[str, int] = {}

    def _position(self, now: int, run: Run) -> int:
        """How much of its time has passed; what a restart costs comes on top."""
        left = run.left_ms - (run.done_ms(now) if run.standing is not None else 0)
        return max(0, run.outcome.job.duration_ms - left)

    def started(self, now: int, run: Run) -> None:
        """A session begins, or goes on."""
        name = run.request.id
        if name not in self._sessions:
            return
        asked = self._asked.pop(name, None)
        if asked is not None:
            run.outcome.returns_ms.append(now - asked)
        self._since[name] = now, max(0, run.outcome.job.duration_ms - run.left_ms)
        self._watch(now, run, self._since[name][1])

    def _watch(self, now: int, run: Run, position: int) -> None:
        """Asks to be called when it has been idle for too long."""
        idles = max(self._rule.busy_ms, position % PERIOD_MS) - position % PERIOD_MS
        if self._rule.idle is not Idle.HOLD and self._rule.busy_ms < PERIOD_MS:
            self._loop.call(now + idles + IDLE_AFTER_MS, run, f"idle {run.starts}")

    def called(self, now: int, run: Run, word: str) -> None:
        """A session is idle, or its person is back."""
        if word == f"idle {run.starts}" and run.standing is not None:
            position = self._position(now, run)
            if position % PERIOD_MS < self._rule.busy_ms:
                return  # its person came back within the hour
            away = PERIOD_MS - position % PERIOD_MS
            (self._park if self._rule.idle is Idle.PARK else self._stop)(now, run, away)
        elif word == f"back {run.starts}":
            (self._resume if self._rule.idle is Idle.PARK else self._ask_again)(now, run)

    def _park(self, now: int, run: Run, away: int) -> None:
        self._parked[run.request.id] = None
        run.outcome.parked += 1
        self._loop.note(now, Happening.IDLE, run)
        self._loop.call(now + away, run, f"back {run.starts}")

    def _resume(self, now: int, run: Run) -> None:
        """The GPU is taken back from whoever has it, and the memory comes back."""
        if run.request.id not in self._parked:
            return
        self._send_away(now, run)
        del self._parked[run.request.id]
        run.outcome.resumed += 1
        run.outcome.returns_ms.append(SWITCH_MS)
        run.outcome.lost_ms += SWITCH_MS
        self._loop.pace(now, run, FULL_SPEED)
        run.left_ms += SWITCH_MS
        self._loop.schedule(now, run)
        self._loop.note(now, Happening.BACK, run)
        self._watch(now, run, self._position(now, run))

    def _stop(self, now: int, run: Run, away: int) -> None:
        """It ends; its person's absence counts as time of the session all the same."""
        gone = min(away, run.left_ms - run.done_ms(now))
        run.left_ms -= run.done_ms(now) + gone
        self._loop.engine.finish(run.request.id)
        self._loop.leave(now, Happening.IDLE, run)
        self._loop.call(now + gone, run, f"back {run.starts}")

    def _ask_again(self, now: int, run: Run) -> None:
        """Its person wants a GPU anew, or never came back."""
        if run.left_ms <= 0:
            self._loop.over(now, run)
            return
        self._asked[run.request.id] = now
        self._loop.submit(run)
        self._loop.note(now, Happening.BACK, run)

    def left(self, now: int, run: Run, happening: Happening) -> None:
        """A session's GPU goes, and its guest with it; or a guest ends by itself."""
        name = run.request.id
        if name in self._since:
            since, position = self._since.pop(name)
            until = min(position + now - since, run.outcome.job.duration_ms)
            run.outcome.idle_ms += self._rule.idle_until(until) - self._rule.idle_until(position)
            if name in self._parked:
                self._send_away(now, run)
                del self._parked[name]
        for host, guest in self._parked.items():
            if guest is run:
                self._part(now, self._loop.runs[host], run)

    def _send_away(self, now: int, host: Run) -> None:
        guest = self._parked[host.request.id]
        if guest is not None:
            self._loop.stop(now, guest)

    def _part(self, now: int, host: Run, guest: Run) -> None:
        """What the guest computed on it was not idle."""
        self._parked[host.request.id] = None
        host.outcome.idle_ms -= now - guest.outcome.attempts[-1].start_ms

    def after(self, now: int) -> None:
        """Lends the GPUs of parked sessions to whoever has waited longest."""
        free = [name for name, guest in self._parked.items() if guest is None]
        for name, guest in zip(free, self._waiting() if free else (), strict=False):
            self._parked[name] = guest
            self._admit(now, guest)


class Groups(Guests):
    """One-GPU jobs of a team on one GPU, in parts of it or in turns."""

    def __init__(self, loop: Loop, rule: GroupRule, names: frozenset[str]) -> None:
        super().__init__(loop, names)
        self._rule = rule
        self._members: dict[str, list[Run]] = {}  # by host, which is the first of them
        self._host: dict[str, str] = {}

    def started(self, now: int, run: Run) -> None:
        """A job with a GPU of its own, which others may join."""
        name = run.request.id
        if name in self._names:
            self._members[name], self._host[name] = [run], name

    def left(self, now: int, run: Run, happening: Happening) -> None:
        """One goes: the host by its end, and the next has the GPU; the host as a victim, and all go; or a guest."""
        host = self._host.pop(run.request.id, None)
        if host is None:
            return
        members = self._members[host]
        members.remove(run)
        if host == run.request.id:
            del self._members[host]
            if members and not (happening is Happening.FINISH and self._inherit(now, run, members)):
                for guest in members:
                    del self._host[guest.request.id]
                    self._loop.stop(now, guest)
        else:
            self._pace(now, members)

    def _inherit(self, now: int, run: Run, members: list[Run]) -> bool:
        """The first guest has the place of the job that ended, inside the quota or on loan as that was."""
        heir, (place,) = members[0], run.places
        start = Start(heir.request, (place._replace(task=heir.request.wanted[0]),), now)
        try:
            self._loop.engine.start(start)
        except PlacementConflict:
            return False
        name = heir.request.id
        self._members[name] = members
        self._host.update((one.request.id, name) for one in members)
        heir.places, heir.standing = start.placements, standing_of(start.placements)
        heir.starts += 1
        self._loop.pace(now, heir, heir.speed)
        heir.outcome.attempts[-1].end_ms = now
        self._loop.begin(now, heir, {place.node: len(place.leaves)})
        self._loop.note(now, Happening.RESIZE, heir)
        self._pace(now, members)
        return True

    def _pace(self, now: int, members: list[Run]) -> None:
        speed = self._rule.speed(len(members))
        for one in members:
            if one.speed != speed:
                self._loop.pace(now, one, speed)

    def after(self, now: int) -> None:
        """Whoever found no GPU joins the smallest group of its team."""
        open_groups: dict[str, list[list[Run]]] = {}
        for members in self._members.values():
            if len(members) < self._rule.most:
                open_groups.setdefault(members[0].request.vc, []).append(members)
        for guest in self._waiting() if open_groups else ():
            groups = open_groups.get(guest.request.vc)
            if groups:
                self._join(now, guest, groups)

    def _join(self, now: int, guest: Run, groups: list[list[Run]]) -> None:
        members = min(groups, key=len)
        host = members[0].request.id
        if self._rule.turns and not guest.outcome.attempts:
            guest.outcome.first_output_ms = now + QUANTUM_MS
        members.append(guest)
        self._host[guest.request.id] = host
        self._admit(now, guest)
        self._pace(now, members)
        if len(members) == self._rule.most:
            groups.remove(members)
