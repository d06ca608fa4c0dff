"""A campaign: rounds of one to three faults at random moments of the load, and how long each takes to be over."""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from typing import Any

import psycopg

from tests.reliability.chaos.faults import Fault, drawn
from tests.reliability.chaos.load import Load
from tests.reliability.chaos.plant import Plant

STUCK_AFTER_S = 180
"""Longer than everything that waits for a time: a node's silence, a lease's stillness, a grace, back-off of brokers."""


class Stuck(Exception):
    """The whole did not come back after a fault. The message says what is missing."""


@dataclass
class Campaign:
    """``seconds``: of each kind of fault how long, after it had ended, until the whole was well again; only of rounds
    that had no other fault."""

    plant: Plant
    load: Load
    faults: int
    seed: int
    only: str = ""
    done: int = 0
    ended: list[str] = field(default_factory=list)
    """What ended though no fault ended it."""
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def play(self) -> None:
        """Raises Stuck."""
        chance = random.Random(self.seed)
        begun = time.monotonic()
        while self.done < self.faults:
            round_ = self._round(chance)
            time.sleep(chance.uniform(0.0, 1.5))
            healed_at = self._break_and_heal(round_)
            took, last = self._recovered(healed_at, [fault.kind for fault in round_])
            for fault in round_:
                self.counts[fault.kind] += 1
            if len(round_) == 1:
                self.seconds[round_[0].kind].append(took)
            self.done += len(round_)
            self._tell(time.monotonic() - begun, round_, took, last)

    def table(self) -> Iterator[str]:
        """Lines of the table of kinds: how many, how many of these alone, seconds until all was well after them."""
        yield f"{'fault':<52}{'times':>6}{'alone':>7}{'median s':>10}{'p95 s':>8}{'slowest s':>11}"
        for kind in sorted(self.counts):
            alone = sorted(self.seconds[kind])
            line = f"{kind:<52}{self.counts[kind]:>6}{len(alone):>7}"
            if alone:
                line += f"{median(alone):>10.1f}{alone[ceil(0.95 * len(alone)) - 1]:>8.1f}{alone[-1]:>11.1f}"
            yield line

    def _round(self, chance: random.Random) -> list[Fault]:
        (count,) = chance.choices((1, 2, 3), weights=(70, 22, 8)) if not self.only else (1,)
        found: dict[str, Fault] = {}
        while len(found) < min(count, self.faults - self.done):
            fault = drawn(self.plant, chance, self.only)
            found.setdefault(fault.on, fault)
        return list(found.values())

    def _break_and_heal(self, faults: list[Fault]) -> float:
        """All begin within a second and end each at its time. Returns when the last one had ended."""
        for fault in faults:
            fault.begin()
            time.sleep(min(0.3, fault.lasts_s))
        begun = time.monotonic()
        for fault in sorted(faults, key=lambda fault: fault.lasts_s):
            time.sleep(max(0.0, begun + fault.lasts_s - time.monotonic()))
            fault.end()
        return time.monotonic()

    def _recovered(self, since: float, kinds: list[str]) -> tuple[float, str]:
        """Seconds from ``since`` until everything works, and what came last. Raises Stuck."""
        signs = self._signs()
        before: dict[str, Any] = {}
        fresh: set[str] = set()
        while True:
            self._start_again()
            for name, sign in signs.items():
                if name in fresh:
                    continue
                with suppress(psycopg.Error, OSError):
                    value = sign()
                    if value is not None and before.setdefault(name, value) != value:
                        fresh.add(name)
                        if len(fresh) == len(signs):
                            return time.monotonic() - since, name
            if time.monotonic() - since > STUCK_AFTER_S:
                missing = ", ".join(name for name in signs if name not in fresh)
                raise Stuck(f"{STUCK_AFTER_S} s after {', '.join(kinds)} there is no sign of: {missing}")
            time.sleep(0.1)

    def _start_again(self) -> None:
        """Starts what ended by itself, as systemd does, and notes it: no fault is begun now."""
        for name, process in self.plant.stack.processes.items():
            if not process.is_running():
                said = process.tail()[-2000:]
                self.ended.append(f"{name} ended by itself with status {process.wait_exit()}; it said: {said}")
                process.start()

    def _signs(self) -> dict[str, Callable[[], Any]]:
        """What moves while all is well: each must be seen to move. None: it does not work now."""
        stack = self.plant.stack

        def row(sql: str, *values: Any) -> Any:
            return next(iter(stack.sql(sql, *values)), None)

        def reports(node: str) -> Any:
            return row("SELECT boot, seq FROM hardware_node WHERE name = %s AND health = 'healthy'", node)

        return {
            "the web process": lambda: time.monotonic() if stack.answers() else None,
            "the scheduler": lambda: row("SELECT until FROM scheduler_cyclelease"),
            **{f"reports of {agent.name}": lambda name=agent.name: reports(name) for agent in stack.agents},  # type: ignore[misc]
            "the archive of logs": lambda: row("SELECT sum(archived_to) FROM jobs_taskattempt"),
        }

    def _tell(self, passed_s: float, faults: list[Fault], took: float, last: str) -> None:
        what = " + ".join(f"{fault.kind} ({fault.on}, {fault.lasts_s:.1f} s)" for fault in faults)
        jobs = len(self.load.sent)
        print(
            f"{passed_s:7.0f} s {self.done:5}/{self.faults} jobs {jobs:4}  {took:5.1f} s to {last}  {what}",
            file=sys.stderr,
        )
