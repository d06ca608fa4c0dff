"""Masks a task's secrets in its output, before any of it is kept or sent.

A secret is replaced by as many asterisks as it has bytes, so offsets are those of the task's own output, and however it
is split, the same bytes are masked. Records are given out whole and in order; one that ends in what may be the
beginning of a secret waits for the next of its stream, and the others behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nodes.agent.logs.masks import HIDDEN, Masks, hide
from nodes.protocol.logs import STDERR, STDOUT, LogRecord

HOLD_S = 0.5
"""How long a record waits for what comes behind it."""
HOLD_BYTES = 1 << 20
"""Most bytes that wait."""
SHOWN = 4
"""Bytes from which on the beginning of a secret is masked where nothing comes behind it: shorter ones end many a
line."""


class _Waiting(NamedTuple):
    since: float
    time_ns: int
    size: int


@dataclass(slots=True)
class _StreamBuffer:
    """Buffer of one stream. ``waiting``: bytes not given out yet, masked as far as known; ``open``: the raw end of
    what came, which may be the beginning of a secret; ``blind``: bytes of this line to mask whatever they are."""

    waiting: bytearray = field(default_factory=bytearray)
    open: bytes = b""
    blind: int = 0

    def take(self, payload: bytes, masks: Masks) -> None:
        data, first = self.open + payload, len(self.waiting)
        self.waiting += payload
        hide(self.waiting, masks.spans(data), first - len(self.open))
        if self.blind:
            line = payload.find(b"\n")
            length = min(self.blind, len(payload) if line < 0 else line)
            hide(self.waiting, [(first, first + length)])
            self.blind = self.blind - length if line < 0 else 0
        self.open = data[masks.open_at(data) :]

    def let_go(self) -> None:
        """Masks what may be the beginning of a secret, since it is not waited for any longer."""
        if len(self.open) >= SHOWN:
            hide(self.waiting, [(len(self.waiting) - len(self.open), len(self.waiting))])


class StreamMasker:
    """Masks both streams of one container. Not thread-safe. ``open_lines``: the last bytes of each stream's unfinished
    line as an earlier masker gave them out, whose agent may have died in the middle of a secret."""

    def __init__(self, masks: Masks, open_lines: Mapping[int, bytes]) -> None:
        self._masks = masks
        self._buffers = {STDOUT: _StreamBuffer(), STDERR: _StreamBuffer()}
        self._queue: deque[tuple[int, _Waiting]] = deque()
        for stream, end in open_lines.items() if masks else ():
            buffer = self._buffers[stream]
            buffer.blind = masks.longest - 1 if end.endswith(HIDDEN) else 0
            buffer.open = end[masks.open_at(end) :]

    def take(self, record: LogRecord, now: float) -> Iterable[LogRecord]:
        """Takes one record; gives those that are final. ``now``: monotonic seconds.

        A record is put back where the caller does not come for the one behind it, so none is lost where it cannot be
        written.
        """
        buffer, masks, payload = self._buffers[record.stream], self._masks, record.payload
        plain = not self._queue and not buffer.open and not buffer.blind and payload.endswith(b"\n")
        if not masks or (plain and not masks.may_have(payload)):
            return (record,)
        buffer.take(payload, masks)
        self._queue.append((record.stream, _Waiting(now, record.time_ns, len(payload))))
        full = sum(len(buffer.waiting) for buffer in self._buffers.values()) > HOLD_BYTES
        return self.rest() if full else self._given()

    def overdue(self, now: float) -> Iterator[LogRecord]:
        """Records that have waited long enough."""
        if self._queue and now - self._queue[0][1].since >= HOLD_S:
            yield from self.rest()

    def rest(self) -> Iterator[LogRecord]:
        """All waiting records."""
        for buffer in self._buffers.values():
            buffer.let_go()
        yield from self._given(undecided=True)

    def _given(self, *, undecided: bool = False) -> Iterator[LogRecord]:
        while self._queue:
            stream, first = self._queue[0]
            buffer = self._buffers[stream]
            if not undecided and first.size > len(buffer.waiting) - len(buffer.open):
                return
            yield LogRecord(first.time_ns, stream, bytes(buffer.waiting[: first.size]))
            del buffer.waiting[: first.size]
            self._queue.popleft()
