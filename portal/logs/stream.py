"""Reads a log's Redis stream; only entries signed by its node count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from redis import Redis, ResponseError
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes.protocol.envelope import EnvelopeForged
from nodes.protocol.logs import verified_batch, verified_tail
from nodes.protocol.names import log_stream, log_tail
from portal.common.told import LONGEST_LOG
from portal.logs.records import Run, is_whole

PAGE = 64
"""Entries fetched at once; an entry holds at most one batch of 64 kB or one record."""


@dataclass(frozen=True, slots=True)
class LogOf:
    """Identifies a log: task attempt (UUID text), the node that writes it, and that node's registered key."""

    attempt: str
    node: str
    public_key: str

    @property
    def key(self) -> str:
        return log_stream(self.node, self.attempt)


class ForgedEntry(Exception):
    """A stream entry not signed by the log's node, or without valid records, or a key that is no stream: nodes may
    write what they like under their own keys. ``entry`` is its id."""

    def __init__(self, log: LogOf, entry: str) -> None:
        super().__init__(f"entry {entry} of the log of {log.attempt} is not {log.node}'s")
        self.log, self.entry = log, entry


@cache
def streams_client() -> Redis:
    """The client for the Redis that holds the streams; it keeps connections. Gives up soon: archived logs can be read
    without it."""
    return Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=1, retry=Retry(NoBackoff(), 1))


def read_stream(redis: Redis, log: LogOf, after: int, limit: int) -> Run:
    """Records beyond offset ``after``: about ``limit`` bytes, empty if there are none.

    Begins at the last record boundary not beyond ``after``; if the bytes before it are not in the stream, it is the
    stream's first entry alone. Raises ForgedEntry if the very first entry is forged; a later one ends the run.
    """
    run, page = Run(after, b""), 1
    while len(run.data) < limit and run.start <= after:
        try:
            entries: Any = redis.xrange(log.key, min=f"({run.end}-0", count=page)
        except ResponseError as error:
            raise ForgedEntry(log, str(error)) from error
        for entry_id, fields in entries:
            try:
                entry = _verified(log, entry_id, fields)
            except ForgedEntry:
                if run.data:
                    return run
                raise
            if not run.data:
                run = entry.after(after)
            elif entry.start != run.end:
                return run
            else:
                run = run.joined(entry)
        if len(entries) < page:
            break
        page = PAGE
    return run.within(limit) if limit < len(run.data) else run


def read_tail(redis: Redis, log: LogOf) -> Run:
    """The unfinished lines that the node sent last, as records without an offset: ``start`` is the log's end then.
    Empty if there is nothing, or it is not signed by the node."""
    newest: Any = redis.xrevrange(log_tail(log.node, log.attempt), count=1)
    try:
        run = Run(*verified_tail(log.public_key, log.attempt, newest[0][1])) if newest else Run(0, b"")
    except EnvelopeForged:
        return Run(0, b"")
    return run if is_whole(run.data) else Run(0, b"")


def stream_end(redis: Redis, log: LogOf) -> int | None:
    """End offset of the newest entry; None if the stream is empty or missing. Unverified: only a hint."""
    newest: Any = redis.xrevrange(log.key, count=1)
    return _offset(newest[0][0]) if newest else None


def _verified(log: LogOf, entry_id: bytes, fields: dict[bytes, bytes]) -> Run:
    try:
        start, data = verified_batch(log.public_key, log.attempt, _offset(entry_id), fields)
    except EnvelopeForged as error:
        raise ForgedEntry(log, entry_id.decode()) from error
    if not data or start < 0 or start + len(data) > LONGEST_LOG or not is_whole(data):
        raise ForgedEntry(log, entry_id.decode())
    return Run(start, data)


def _offset(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])
