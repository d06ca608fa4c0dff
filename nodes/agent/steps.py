"""Steps of a training, read from its log or from the file that it rewrites: the newest number, and the time of one."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

from nodes.protocol.logs import MARK, LogRecord
from nodes.protocol.messages import Steps
from nodes.protocol.states import StepFault
from nodes.protocol.steps import HIGHEST_STEP, steps_pattern

LONGEST_LINE = 4096
"""Bytes of a line that are searched, from its beginning."""
SEARCH_S, SEARCH_SHARE = 0.5, 0.05
"""Seconds of a core that the search in one log may take at once, and of each second of the log. An ordinary pattern
takes microseconds a line; RE2 grows with the line alone, but by up to 0.1 ms a byte where so many of its states are
possible at once that it remembers none."""
_ENDS = re.compile(rb"[\r\n]")


class StepClock:
    """The newest step and how long one takes, measured from one ``read`` to the next. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: tuple[int, float] | None = None
        self._newest: tuple[int, float] | None = None
        self._step_ms: float | None = None

    def seen(self, step: int, at_ms: float) -> None:
        """Takes in a step at its time. A number that goes back, as in a new epoch, starts the measure anew."""
        with self._lock:
            if self._newest is None or step < self._newest[0]:
                self._first = (step, at_ms)
            if self._newest is None or step != self._newest[0]:
                self._newest = (step, at_ms)

    def read(self, fault: StepFault | None = None) -> Steps | None:
        """What is known now; None before the first step, unless there is a fault to tell."""
        with self._lock:
            if self._newest is None or self._first is None:
                return Steps(fault=fault) if fault else None
            steps, ms = self._newest[0] - self._first[0], self._newest[1] - self._first[1]
            if steps > 0 and ms >= 0:
                self._step_ms, self._first = round(ms / steps, 3), self._newest
            return Steps(step=self._newest[0], at_ms=int(self._newest[1]), step_ms=self._step_ms, fault=fault)


class LogSteps:
    """Finds the steps in a log, line by line; a carriage return ends a line too. ``take`` is called by one thread."""

    def __init__(self, pattern: str) -> None:
        self._pattern = steps_pattern(pattern)
        self._clock = StepClock()
        self._heads: dict[int, bytes] = {}
        self._fault: StepFault | None = None
        self._first_ns: int | None = None
        self._searched_s = 0.0

    def take(self, record: LogRecord) -> None:
        """Takes in the next record of the log."""
        if record.stream == MARK:
            return
        *lines, rest = _ENDS.split(record.payload)
        for line in lines:
            self._look(self._headed(record.stream, line), record.time_ns)
            self._heads.pop(record.stream, None)
        if rest:
            self._heads[record.stream] = self._headed(record.stream, rest)

    def read(self) -> Steps | None:
        """What is known now."""
        return self._clock.read(self._fault)

    def _headed(self, stream: int, part: bytes) -> bytes:
        head = self._heads.get(stream, b"")
        return head + part[: LONGEST_LINE - len(head)]

    def _look(self, line: bytes, time_ns: int) -> None:
        if not (found := self._search(line, time_ns)):
            return
        number = found.group(1) or b""
        if not number.isdigit() or len(number) >= 20 or (step := int(number)) > HIGHEST_STEP:
            self._fault = StepFault.NUMBER
        elif found.end(1) < LONGEST_LINE:  # else its other digits may be beyond what is kept of the line
            self._fault = None
            self._clock.seen(step, time_ns / 1e6)

    def _search(self, line: bytes, time_ns: int) -> Any:
        self._first_ns = time_ns if self._first_ns is None else self._first_ns
        if self._searched_s > SEARCH_S + SEARCH_SHARE * (time_ns - self._first_ns) / 1e9:
            self._fault = StepFault.SLOW
            return None
        began = time.thread_time()
        found = self._pattern.search(line)
        self._searched_s += time.thread_time() - began
        return found
