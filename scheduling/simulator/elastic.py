"""Elastic jobs: they start with half their GPUs and grow into idle ones, which they give back to whoever wants them.

What they grow into is no business of the engine's: it decides as if those GPUs were idle, and what it starts there
ends the grown tasks first. So nobody waits for a job that has grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2, pow

from scheduling.model.cluster import Cluster
from scheduling.model.job import Job, Role, all_tasks
from scheduling.simulator.loop import FULL_SPEED, Addition, Happening, Loop, Run

GROW_EVERY_MS = 600_000
RESIZE_MS = 30_000
"""What each change of size costs in run time: the tasks meet anew, and go on from what was saved last."""

FEWEST_GPUS, MOST_GPUS = 2, 8


@dataclass(frozen=True, slots=True)
class ElasticRule:
    """Which part of the jobs of 2 to 8 GPUs is elastic, and how much of a second half's speed is had of it: with an
    efficiency of 0.8, twice the GPUs are 1.6 times as fast."""

    share: float
    efficiency: float = 0.8

    def speed(self, gpus: int, whole: int) -> int:
        """How fast a job is with so many of its GPUs, in thousandths."""
        return round(FULL_SPEED * pow(gpus / whole, log2(2 * self.efficiency)))


def is_elastic(job: Job, gpus: int) -> bool:
    """Whether a job can be halved: one role of 2 to 8 GPUs."""
    return len(job.roles) == 1 and FEWEST_GPUS <= gpus <= MOST_GPUS


def halved(job: Job) -> Job:
    """The same job with half its tasks, or, if it is one task, half its GPUs."""
    (role,) = job.roles
    tasks = -(-role.count // 2)
    part = replace(role, count=tasks) if role.count > 1 else _half(role)
    return job._replace(roles=(part,), wanted=all_tasks((part,)))


def _half(role: Role) -> Role:
    gpus = -(-role.gpus // 2)
    return replace(
        role,
        gpus=gpus,
        cpu_milli=-(-role.cpu_milli * gpus // role.gpus),
        memory_mb=-(-role.memory_mb * gpus // role.gpus),
    )


class Elastic(Addition):
    """Grows elastic jobs into GPUs that are idle once the engine has decided, and shrinks them as it gives these
    away."""

    def __init__(self, loop: Loop, rule: ElasticRule, cluster: Cluster, names: frozenset[str]) -> None:
        self._loop = loop
        self._rule = rule
        self._names = names
        self._nodes = {leaf.id: node.id for node in cluster.nodes for leaf in node.leaves}
        self._idle = dict.fromkeys(self._nodes)
        self._grown: dict[str, list[str]] = {}  # of each elastic job that runs, the GPUs beyond what it was given
        self._changed_ms: dict[str, int] = {}
        self._wanted: set[str] = set()

    def started(self, now: int, run: Run) -> None:
        """Its GPUs are no longer idle."""
        for leaf in run.leaves:
            del self._idle[leaf]
        name = run.request.id
        if name in self._names:
            self._grown[name] = []
            self._changed_ms[name] = now - GROW_EVERY_MS
            run.speed = self._speed(run)

    def left(self, now: int, run: Run, happening: Happening) -> None:
        """Its GPUs are idle again, with those that it had grown into."""
        self._idle.update(dict.fromkeys(run.leaves))
        self._grown.pop(run.request.id, None)

    def _speed(self, run: Run) -> int:
        return self._rule.speed(self._size(run), run.outcome.job.gpus)

    def _size(self, run: Run) -> int:
        return len(run.leaves) + len(self._grown[run.request.id])

    def after(self, now: int) -> None:
        """Shrinks whose GPUs were given away, then grows who has fewer than it asks for, the smallest first."""
        taken = {leaf for grown in self._grown.values() for leaf in grown}
        for name, grown in self._grown.items():
            stay = [leaf for leaf in grown if leaf in self._idle]
            if len(stay) < len(grown):
                self._resize(now, self._loop.runs[name], stay)
        free = [leaf for leaf in self._idle if leaf not in taken]
        if free:
            for run in self._hungry(now):
                if not free:
                    break
                self._grow(now, run, free)

    def _hungry(self, now: int) -> Iterator[Run]:
        """Who may grow now, whoever has the smallest part of its GPUs first; and a call for who may later."""
        found = []
        for number, name in enumerate(self._grown):
            run = self._loop.runs[name]
            if self._size(run) == run.outcome.job.gpus:
                continue
            if now - self._changed_ms[name] >= GROW_EVERY_MS:
                found.append((self._size(run) / run.outcome.job.gpus, number, run))
            elif name not in self._wanted:
                self._wanted.add(name)
                self._loop.call(self._changed_ms[name] + GROW_EVERY_MS, run, "grow")
        for *_, run in sorted(found, key=lambda one: one[:2]):
            yield run

    def called(self, now: int, run: Run, word: str) -> None:
        """Ten minutes have passed: `after` looks at it."""
        if word == "grow":
            self._wanted.discard(run.request.id)

    def _grow(self, now: int, run: Run, free: list[str]) -> None:
        """Onto its own nodes first."""
        mine = {place.node for place in run.places}
        free.sort(key=lambda leaf: (self._nodes[leaf] not in mine, leaf))
        more = run.outcome.job.gpus - self._size(run)
        self._resize(now, run, [*self._grown[run.request.id], *free[:more]])
        del free[:more]

    def _resize(self, now: int, run: Run, grown: list[str]) -> None:
        """It goes on with these GPUs beside its own: another attempt in its history, none for the engine."""
        name, outcome = run.request.id, run.outcome
        fresh = now == outcome.attempts[-1].start_ms
        self._grown[name] = grown
        self._changed_ms[name] = now
        self._loop.pace(now, run, self._speed(run))
        nodes: dict[str, int] = {}
        for leaf in (*run.leaves, *grown):
            nodes[self._nodes[leaf]] = nodes.get(self._nodes[leaf], 0) + 1
        if fresh:
            outcome.attempts[-1].nodes = nodes
        else:
            outcome.resizes += 1
            outcome.lost_ms += RESIZE_MS
            run.left_ms += RESIZE_MS
            outcome.attempts[-1].end_ms = now
            self._loop.begin(now, run, nodes)
        self._loop.note(now, Happening.RESIZE, run)
