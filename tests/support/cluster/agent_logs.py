"""A container's output as the tests write it, and a reader that takes a log from Redis as the portal does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import redis

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.logs.masks import Masks
from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import MARK, STDOUT, LogRecord, records_decode, verified_batch
from nodes.protocol.names import log_stream
from tests.support.run.waiting import wait_until

NODE = "gpu07"
KEY = NodeKey.generate()
NO_MASKS = Masks()
Start = Callable[..., LogPipeline]


def line(time_ns: int, text: str, stream: int = STDOUT) -> LogRecord:
    return LogRecord(time_ns, stream, text.encode())


def lines(number: int, *, first: int = 0, width: int = 10) -> list[LogRecord]:
    """Numbered lines, each at its own time."""
    return [line(n + 1, f"{n:0{width - 1}d}\n") for n in range(first, first + number)]


class Printed:
    """A frame source over output that is kept as the Engine keeps it: it can be read again after a time."""

    def __init__(self, records: list[LogRecord] | None = None, *, ended: bool = False) -> None:
        self.records = list(records or [])
        self.frozen = self.closed = False
        self.failures: list[Exception] = []
        self.reads = 0
        self.open: dict[int, OpenLine] = {}
        self._ended = ended
        self._changed = threading.Condition()

    def print(self, *records: LogRecord) -> None:
        with self._changed:
            self.records.extend(records)
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def frames(self, after: Position) -> Iterator[LogRecord]:
        self.reads += 1
        if self.failures:
            raise self.failures.pop()
        at_last = 0
        for index in count():
            with self._changed:
                self._changed.wait_for(lambda: self.closed or self._ended or len(self.records) > index)  # noqa: B023
                if self.closed or len(self.records) <= index:
                    return
                record = self.records[index]
            if record.time_ns == after.last_time_ns:
                at_last += 1
            if (record.time_ns, at_last) > (after.last_time_ns, after.at_last) or not after.at_last:
                yield record

    def open_lines(self) -> dict[int, OpenLine]:
        return self.open

    def missing(self) -> str:
        return ""

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()


class Reader:
    """Takes a log from its stream, checks each entry's signature and that it follows the one before, and trims."""

    def __init__(self, client: redis.Redis, attempt: str, public: str) -> None:
        self._client, self._attempt, self._public = client, attempt, public
        self.key = log_stream(NODE, attempt)
        self.offset = 0
        self.data = b""

    def take(self, *, limit: int | None = None) -> int:
        """Reads up to ``limit`` entries beyond its offset; the new offset."""
        entries: Any = self._client.xrange(self.key, min=f"({self.offset}-0", count=limit)
        for entry_id, fields in entries:
            end = int(entry_id.split(b"-")[0])
            start, data = verified_batch(self._public, self._attempt, end, fields)
            if start > self.offset:
                raise AssertionError(f"bytes {self.offset} to {start} are missing")
            self.data += data[self.offset - start :]
            self.offset = end
        return self.offset

    def trim(self) -> None:
        self._client.xtrim(self.key, minid=f"{self.offset}-1", approximate=False)

    @property
    def records(self) -> list[LogRecord]:
        return list(records_decode(self.data))


def text_of(records: list[LogRecord], *, marks: bool = True) -> str:
    return b"".join(record.payload for record in records if marks or record.stream != MARK).decode()


def reader(client: redis.Redis, attempt: str = "a1") -> Reader:
    return Reader(client, attempt, KEY.public)


def take_all(reader: Reader, pipeline: LogPipeline, attempt: str = "a1") -> None:
    """Archives until the log is complete: reads, trims, acknowledges."""

    def done() -> bool:
        pipeline.ack(attempt, reader.take())
        reader.trim()
        status = pipeline.status(attempt)
        return status.complete and reader.offset == status.end

    wait_until(done, "the whole log", every_s=0.01)
