"""Output of a task of the ``process`` runtime: the wrapper's segments, read as they grow."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.runtimes.base import records_beyond
from nodes.agent.runtimes.process.wrapper import SEGMENT_BYTES
from nodes.protocol.logs import STDERR, STDOUT, LogRecord, records_decode

_WAIT_FIRST_S, _WAIT_LONGEST_S = 0.01, 0.1
_READ = 1 << 20
_ASK_EVERY = 20
_KEPT_BEHIND = 2
"""Segments kept behind the one being read: what was handed on may not be in the spool yet."""


class Segment(NamedTuple):
    """One file of records; ``taken``: bytes that each stream had written before it."""

    number: int
    taken: dict[int, int]
    path: Path


class ProcessOutput:
    """``FrameSource`` over a task's folder. It resumes by bytes per stream, so nothing is lost or doubled.

    ``has_ended``: whether the wrapper has ended; ``send`` signals all processes of the task.
    """

    def __init__(self, folder: Path, has_ended: Callable[[], bool], send: Callable[[int], None]) -> None:
        self._out, self._exit = folder / "out", folder / "exit.json"
        self._has_ended = has_ended
        self._send = send
        self._closed = threading.Event()

    def frames(self, after: Position) -> Iterator[LogRecord]:
        first = self._first(after)
        if first is not None:
            yield from records_beyond(self._records(first.number), after, first.taken)

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def open_lines(self) -> dict[int, OpenLine]:
        return {}  # the wrapper writes whatever it reads

    def missing(self) -> str:
        return ""

    def close(self) -> None:
        self._closed.set()

    def _records(self, number: int) -> Iterator[LogRecord]:
        """All records from one segment on."""
        while not self._closed.is_set():
            segment = self._segment(number)
            if segment is None:
                return
            yield from self._follow(segment)
            self._drop_before(number - _KEPT_BEHIND)
            number += 1

    def _follow(self, segment: Segment) -> Iterator[LogRecord]:
        """Records of one segment until the next one exists, or the task has ended and nothing is left."""
        rest, idle, wait_s = b"", 0, _WAIT_FIRST_S
        with segment.path.open("rb", buffering=0) as file:
            while not self._closed.is_set():
                last = self._is_last_read(segment, file.tell(), idle)
                data = file.read(_READ)
                if data:
                    rest, idle, wait_s, whole = rest + data, 0, _WAIT_FIRST_S, 0
                    for record in records_decode(rest, partial=True):
                        whole += record.size
                        yield record
                    rest = rest[whole:]
                elif last:
                    return
                else:
                    self._closed.wait(wait_s)
                    idle, wait_s = idle + 1, min(2 * wait_s, _WAIT_LONGEST_S)

    def _is_last_read(self, segment: Segment, position: int, idle: int) -> bool:
        """Whether nothing can follow what the next read finds: cheap checks often, expensive ones seldom."""
        if self._exit.exists() or (idle % _ASK_EVERY == _ASK_EVERY - 1 and self._has_ended()):
            return True
        return position >= SEGMENT_BYTES and self._segment(segment.number + 1) is not None

    def _segments(self) -> list[Segment]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(_segment_named(path) for path in self._out.iterdir())
        return []

    def _segment(self, number: int) -> Segment | None:
        return next((s for s in self._segments() if s.number == number), None)

    def _first(self, after: Position) -> Segment | None:
        """The newest segment before which nothing is wanted; waits for the first one."""
        while not self._closed.is_set():
            ended, segments = self._has_ended(), self._segments()
            behind = [s for s in segments if all(s.taken[n] <= after.payload_bytes.get(n, 0) for n in s.taken)]
            if behind or segments or ended:
                return next(iter(behind[-1:] or segments), None)
            self._closed.wait(_WAIT_FIRST_S)
        return None

    def _drop_before(self, number: int) -> None:
        for segment in self._segments():
            if segment.number < number:
                segment.path.unlink(missing_ok=True)


def _segment_named(path: Path) -> Segment:
    number, out, err = (int(part) for part in path.stem.split("-"))
    return Segment(number, {STDOUT: out, STDERR: err}, path)
