"""What must hold after a campaign, asked of the database, the Engine, the logs, and the tasks' own notes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import portal.jobs.wordings  # noqa: F401  declares what jobs say
from nodes.agent.runtimes.docker.logs import ENDED_UNSEEN
from nodes.agent.runtimes.docker.lost_exits import STATUS_LOST
from nodes.protocol.logs import MARK
from nodes.protocol.names import LABEL
from nodes.protocol.wording import told
from tests.reliability.chaos.load import KINDS, Load, Sent
from tests.reliability.chaos.plant import NODES, Plant
from tests.support.people.person import OVER

CLEARED_WITHIN_S = 180
OUTSIDE = ("from outside", STATUS_LOST)
"""In the cause of a task that not Berth has stopped: Docker does, when it is stopped as a container starts; and of one
whose exit status it has lost."""
OF_A_STOP = ("Terminated", "[WARN  tini (1)] Child was dead when forwarding signal")
"""What the task's own shells and its container's first process say when they are stopped; not always at the end."""
TRUE_CAUSES = frozenset({"node_lost", "node_fault", "preempted", "start_failed"})
"""Why an attempt may have ended before its own end, in this load."""


@dataclass(frozen=True)
class Alive:
    """A task attempt by its own notes in the job's folder: first and last, in seconds of the kernel's clock, and the
    numbers of the lines that it was about to print."""

    attempt: str
    first: float
    last: float
    lines: tuple[int, ...]


class Verdict:
    """``findings`` yields a line for each thing that does not hold."""

    def __init__(self, plant: Plant, load: Load) -> None:
        self.plant, self.load = plant, load
        self._alive: dict[str, Alive] = {}

    def findings(self) -> Iterator[str]:
        stuck = self._wait_for_ends()
        yield from (f"job {one.id} ({one.kind}) is stuck: {state}" for one, state in stuck)
        over = [one for one in self.load.sent if one.id not in {late.id for late, _ in stuck}]
        yield from self._uncleared()
        for one in over:
            found = [*self._of_job(one), *self._of_logs(one)]
            yield from (f"job {one.id} ({one.kind}): {finding}" for finding in found)
            yield from (f"    {line}" for line in (self._story(one) if found else ()))
        yield from self._two_writers()
        yield from self._begun_twice()
        yield from self._gpu_twice()
        yield from self._orphans()
        yield from (f"refused: {sentence}" for sentence in self.load.refused)

    # ------------------------------------------------------------ nothing stuck

    def _wait_for_ends(self) -> list[tuple[Sent, str]]:
        """Jobs that are not over although nothing is broken any more, and all of them had time to run."""
        sql = "SELECT id, state FROM jobs_job"
        waits_s = 120 + 4 * self.load.at_once * len(self.load.people) * 10
        end = time.monotonic() + waits_s
        while True:
            states = dict(self.plant.stack.sql(sql))
            live = [(one, states.get(one.id, "unknown")) for one in self.load.sent if states.get(one.id) not in OVER]
            if not live or time.monotonic() > end:
                return live
            time.sleep(1)

    def _uncleared(self) -> Iterator[str]:
        rows = """SELECT n.name, t.id, count(a.id) FROM jobs_taskattempt t JOIN hardware_node n ON n.id = t.node_id
                  LEFT JOIN jobs_allocation a ON a.task_attempt_id = t.id AND a.released_at IS NULL
                  WHERE t.removed_at IS NULL OR a.id IS NOT NULL GROUP BY n.name, t.id"""
        for node, attempt, held in _after(lambda: self.plant.stack.sql(rows)):
            yield f"task attempt {attempt} on {node} is not removed, or is over and holds {held} GPUs"

    def _orphans(self) -> Iterator[str]:
        def left() -> list[str]:
            with self.plant.services.docker.client() as client:
                found = [client.containers.list(all=True, filters={"label": f"{LABEL.NODE}={name}"}) for name in NODES]
                return [one.name or "" for containers in found for one in containers]

        yield from (f"container {name} is left" for name in _after(left))

    # ------------------------------------------------------------ ended once, with a true cause

    def _of_job(self, one: Sent) -> Iterator[str]:
        sql = self.plant.stack.sql
        kind = KINDS[one.kind]
        state, reason, said = sql("SELECT state, end_reason, end_message FROM jobs_job WHERE id = %s", one.id)[0]
        message = told(said)
        codes = [row[0] for row in sql("SELECT code FROM jobs_jobevent WHERE job_id = %s ORDER BY id", one.id)]
        if (ends := [code for code in codes if code in OVER]) != [state]:
            yield f"is {state} and ended as {ends}"
        if state != kind.ends:
            yield f"{state} ({reason}: {message}) where it had to be {kind.ends}"
        if not message:
            yield "has no cause in words"
        if kind.last.startswith("exit") and kind.last.split()[1] not in message:
            yield f"its cause does not name its exit code: {message}"
        attempts = sql(
            "SELECT number, state, end_reason, end_message FROM jobs_jobattempt WHERE job_id = %s ORDER BY number",
            one.id,
        )
        if [row[0] for row in attempts] != list(range(1, len(attempts) + 1)):
            yield f"its attempts are numbered {[row[0] for row in attempts]}"
        own = "stopped" if kind.ends == "stopped" else kind.ends
        causes = [row[2] for row in attempts if not _from_outside(told(row[3]))]
        if bad := [cause for cause in causes if cause not in TRUE_CAUSES | {own}]:
            yield f"attempts ended as {bad}"
        if kind.ends != "stopped" and causes.count(own) != kind.attempts:
            yield f"came to its own end {causes.count(own)} times, not {kind.attempts}: {causes}"

    def _story(self, one: Sent) -> Iterator[str]:
        """What Berth tells of a job, beside what was found wrong with it."""
        rows = self.plant.stack.sql("SELECT at, code, data FROM jobs_jobevent WHERE job_id = %s ORDER BY id", one.id)
        yield from (f"{at:%H:%M:%S} {code}: {told(data)}" for at, code, data in rows)
        for (attempt,) in self.plant.stack.sql(
            """SELECT t.id FROM jobs_taskattempt t JOIN jobs_jobattempt a ON a.id = t.job_attempt_id
               WHERE a.job_id = %s""",
            one.id,
        ):
            records = self._records(one, str(attempt))
            marks = [text.strip() for _, stream, text in records if stream == MARK]
            yield f"log of {attempt}: Berth's own lines: {marks}; it begins with {records[:5]}"

    # ------------------------------------------------------------ every line once

    def _of_logs(self, one: Sent) -> Iterator[str]:
        kind = KINDS[one.kind]
        rows = self.plant.stack.sql(
            """SELECT t.id, a.end_reason, a.end_message, t.lost_at IS NOT NULL, t.started_at IS NOT NULL
               FROM jobs_taskattempt t JOIN jobs_jobattempt a ON a.id = t.job_attempt_id WHERE a.job_id = %s""",
            one.id,
        )
        for attempt, reason, said, lost, started in rows:
            own = reason == kind.ends != "stopped" and not _from_outside(told(said))
            records = self._records(one, str(attempt))
            lines = _printed(records)
            whole = [f"line {number}" for number in range(kind.lines)]
            if lines != whole[: len(lines)]:
                wrong = next(n for n, line in enumerate(lines) if n >= len(whole) or line != whole[n])
                yield f"log of {attempt}: line {wrong} is {lines[wrong]!r} after {lines[max(0, wrong - 1)]!r}"
            elif len(lines) == len(whole) or not own or lost or not started:
                continue
            elif not any(stream == MARK and ENDED_UNSEEN in text for _, stream, text in records):
                yield f"log of {attempt}: {len(lines)} of {len(whole)} lines"

    def _records(self, one: Sent, attempt: str) -> list[tuple[int, int, str]]:
        records, offset = [], 0
        while True:
            answer = one.person.get(f"/jobs/{one.id}/logs?task_attempt={attempt}&offset={offset}")
            records += [(at, stream, text) for at, stream, text in answer["records"]]
            if answer["complete"] or answer["next_offset"] <= offset:
                return records
            offset = answer["next_offset"]

    # ------------------------------------------------------------ no two at once, by the tasks' own notes

    def _two_writers(self) -> Iterator[str]:
        """Of one job, attempts that wrote into its folder at the same time."""
        numbers = dict(
            self.plant.stack.sql(
                "SELECT t.id, a.number FROM jobs_taskattempt t JOIN jobs_jobattempt a ON a.id = t.job_attempt_id"
            )
        )
        by_number = {str(attempt): number for attempt, number in numbers.items()}
        for folder in sorted(self.plant.stack.jobs_root.glob("*/*")):
            spans: dict[int, list[Alive]] = defaultdict(list)
            for alive in _notes(folder):
                self._alive[alive.attempt] = alive
                spans[by_number[alive.attempt]].append(alive)
            merged = [
                (number, min(one.first for one in spans[number]), max(one.last for one in spans[number]))
                for number in sorted(spans)
            ]
            for (before, _, last), (after, first, _) in pairwise(merged):
                if last > first:
                    yield f"{folder.name}: attempt {before} wrote until {last}, attempt {after} from {first}"

    def _begun_twice(self) -> Iterator[str]:
        """Task attempts whose container ran more than once: only one that was never started may be started."""
        for alive in self._alive.values():
            if alive.lines != tuple(range(len(alive.lines))):
                yield f"task attempt {alive.attempt} counted {alive.lines}"

    def _gpu_twice(self) -> Iterator[str]:
        """GPUs whose holders, by the books, were alive at the same time, by their own notes."""
        holders: dict[int, list[Alive]] = defaultdict(list)
        for leaf, attempt in self.plant.stack.sql("SELECT leaf_id, task_attempt_id FROM jobs_allocation"):
            if alive := self._alive.get(str(attempt)):
                holders[leaf].append(alive)
        for leaf, alive_ones in holders.items():
            for before, after in pairwise(sorted(alive_ones, key=lambda one: one.first)):
                if before.attempt != after.attempt and before.last > after.first:
                    yield f"GPU row {leaf} was used by {before.attempt} and {after.attempt} at once"


def _printed(records: Iterable[tuple[int, int, str]]) -> list[str]:
    """What a task printed, line by line, without what its shells and its first process say of a stop."""
    lines = "".join(text for _, stream, text in records if stream != MARK).splitlines()
    return [line for line in lines if line not in OF_A_STOP]


def _after(ask: Callable[[], list[tuple[object, ...]] | list[str]]) -> list:  # type: ignore[type-arg]
    """What is still there after everything had its time to go."""
    end = time.monotonic() + CLEARED_WITHIN_S
    while (left := ask()) and time.monotonic() < end:
        time.sleep(1)
    return left


def _notes(folder: Path) -> Iterator[Alive]:
    for file in folder.glob("alive-*"):
        notes = [line.split() for line in file.read_text().splitlines()]
        if notes:
            times, lines = [float(time) for time, _ in notes], tuple(int(number) for _, number in notes)
            yield Alive(file.name.removeprefix("alive-"), min(times), max(times), lines)


def _from_outside(message: str) -> bool:
    return any(words in message for words in OUTSIDE)
