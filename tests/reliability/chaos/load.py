"""The mixed load of a campaign: two teams that always have some jobs, of every kind whose end can be foretold."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from berth import BerthError, Conflict, Problem
from tests.support.people.person import OVER, Person, job_file

T = TypeVar("T")
TOO_MANY = 429
BEAT = 'read up rest </proc/uptime; echo "$up $i" >>"$BERTH_JOB_DIR/alive-$BERTH_ATTEMPT_ID"'
"""Says in the job's folder that this task attempt is alive now, by the kernel's clock, which nobody jumps, and which of
its lines comes next."""
WHOSE = "whose.txt"
OWN_CODE = f'[ "$(cat {WHOSE})" = "$PAI_JOB_NAME" ]'
"""Fails where the code is not the job's own: each has a folder of its own, which no node has fetched before."""
IDLE_GPUS = {"hivedScheduler": {"jobPriorityClass": "oppo"}}


def beating(every_s: float, lines: int, last: str = "") -> tuple[str, ...]:
    """Commands that beat and print a line, so many times; then ``last``."""
    loop = f"i=0; while [ $i -lt {lines} ]; do {BEAT}; echo line $i; sleep {every_s}; i=$((i+1)); done"
    return (loop, last) if last else (loop,)


@dataclass(frozen=True)
class Kind:
    """A sort of job: what its file says, how it must end, and what each task's last log is."""

    file: Callable[[random.Random], dict[str, Any]]
    ends: str = "succeeded"
    code: bool = False
    """Whether it brings a folder of code, and fails without what is in it."""
    lines: int = 0
    every_s: float = 0.2
    last: str = ""
    attempts: int = 1
    """How often it must have been run to its own end: retries of a failure included."""

    def text(self, chance: random.Random, name: str, vc: str) -> str:
        return job_file(*beating(self.every_s, self.lines, self.last), name=name, vc=vc, **self.file(chance))


KINDS = {
    "short": Kind(lambda chance: {"gpu": chance.choice((1, 2))}, lines=15),
    "long": Kind(lambda chance: {"gpu": chance.choice((1, 2))}, lines=120),
    "gang": Kind(lambda _: {"gpu": 2, "instances": 2}, lines=30),
    "across both nodes": Kind(lambda _: {"gpu": 2, "cpu": 2, "instances": 2}, lines=20),
    "without GPU": Kind(lambda _: {"gpu": 0}, lines=25),
    "with code": Kind(lambda _: {"gpu": 1}, code=True, lines=15, last=OWN_CODE),
    "on idle GPUs": Kind(lambda _: {"gpu": 2, "extras": IDLE_GPUS}, lines=40),
    "fails twice": Kind(
        lambda _: {"gpu": 1, "jobRetryCount": 1}, ends="failed", lines=8, last="exit 3", attempts=2,
    ),
    "is stopped": Kind(lambda _: {"gpu": 1}, ends="stopped", lines=100_000),
}  # fmt: skip
"""What is left out on purpose: time limits, which a jump of the portal's clock may rightly reach."""


@dataclass
class Sent:
    """A job of the load. ``stop_after``: how many seconds it may run before it is stopped; 0: to its own end."""

    id: int
    kind: str
    person: Person
    stop_after: float = 0.0


@dataclass
class Load:
    """Keeps ``at_once`` jobs of each person alive, whatever happens around; what cannot be asked now is asked again,
    with the same key, until the portal answers."""

    people: list[Person]
    seed: int
    at_once: int = 4
    sent: list[Sent] = field(default_factory=list)
    unanswered: int = 0
    """Requests that had to be sent again."""
    refused: list[str] = field(default_factory=list)
    """Answers that no fault explains."""

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(person, random.Random(f"{self.seed} {person.name}")), daemon=True)
            for person in self.people
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Submit nothing more. What is stopped by a person is stopped."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def counted(self) -> Counter[str]:
        return Counter(one.kind for one in self.sent)

    def _run(self, person: Person, chance: random.Random) -> None:
        mine: list[Sent] = []
        while not self._over.is_set():
            for one in [one for one in mine if self._is_over(one)]:
                mine.remove(one)
            if len(mine) < self.at_once:
                with suppress(Problem):  # noted as refused
                    mine.append(self._send(person, chance))
                    self.sent.append(mine[-1])
            self._over.wait(chance.uniform(0.3, 1.2))
        for one in mine:
            if KINDS[one.kind].ends == "stopped":
                self._stop(one)

    def _send(self, person: Person, chance: random.Random) -> Sent:
        kind = chance.choice(list(KINDS))
        key = uuid.UUID(int=chance.getrandbits(128)).hex
        name = f"{kind.replace(' ', '-')}-{key[:6]}"
        text = KINDS[kind].text(chance, name, person.vc)
        code = self._code(person, name) if KINDS[kind].code else None
        job = self._persist(lambda: person.submit(text, key=key, code=code))
        return Sent(job, kind, person, stop_after=chance.uniform(1, 12) if KINDS[kind].ends == "stopped" else 0.0)

    def _code(self, person: Person, name: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, WHOSE).write_text(name)
            return self._persist(lambda: person.berth.code.upload(folder)).id

    def _is_over(self, one: Sent) -> bool:
        state = self._persist(lambda: one.person.berth.jobs.get(one.id)).state
        if state in OVER:
            return True
        if one.stop_after and state == "running":
            self._over.wait(one.stop_after)
            one.stop_after = 0.0
            self._stop(one)
        return False

    def _stop(self, one: Sent) -> None:
        def once() -> None:
            with suppress(Conflict):  # its stop was taken though the answer did not come
                one.person.stop(one.id)

        self._persist(once)

    def _persist(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer, or a refusal that asking again would not change."""
        while True:
            try:
                return ask()
            except Problem as refusal:
                if refusal.status < 500 and refusal.status != TOO_MANY:
                    self.refused.append(f"{refusal.status} {refusal}")
                    raise
                self.unanswered += 1
            except BerthError:
                self.unanswered += 1
            time.sleep(0.5)
