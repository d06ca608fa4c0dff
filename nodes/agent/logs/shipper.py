"""Shipper of spools to their Redis streams: one thread for all logs of a node, one pipeline per round."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes.agent.connecting import redis_fault
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.logs.spool import Spool
from nodes.agent.logs.stream_state import TAIL_KEPT_S, StreamState
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import signed_batch, signed_tail
from nodes.protocol.names import WAKE_CHANNEL, log_stream, log_tail

CHECK_S = 5.0
"""How often a quiet stream is checked."""
FULL_FIRST_S, FULL_LAST_S = 0.01, 0.25
"""How often a full window is checked."""
AWAY_FIRST_S, AWAY_LAST_S = 0.1, 5.0
PACE_S = 0.02
"""Pause between two rounds: a lone line goes at once, a stream of lines in batches with one hint each."""

logger = structlog.get_logger(__name__)


class Shipper:
    """Keeps at most ``window`` bytes beyond the acknowledged offset of every log in Redis.

    It never trims. Whatever breaks (connection, restart, an empty or an older Redis), it asks Redis again what is there
    and goes on from that; a stream that vanished is filled from the acknowledged offset.
    """

    def __init__(
        self, *, node: str, key: NodeKey, redis_url: str, window: int, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._node, self._key, self._window, self._now_ns = node, key, window, now_ns
        self._redis_url = redis_url
        self._streams: dict[str, StreamState] = {}
        self._lock = threading.Lock()
        self._woken, self._closing = threading.Event(), threading.Event()
        self._connects = 0
        self._client = redis.Redis.from_url(
            redis_url,
            socket_timeout=5,
            socket_connect_timeout=2,
            health_check_interval=0,
            retry=Retry(NoBackoff(), 0),  # a retry inside the client would hide that the server was another one
            redis_connect_func=self._connected,
        )
        self._seen_connects = 0
        self._checked_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, attempt: str, spool: Spool) -> None:
        """Starts sending a log. Idempotent."""
        with self._lock:
            if attempt not in self._streams:
                self._streams[attempt] = StreamState(attempt, log_stream(self._node, attempt), spool, self._window)
        self.wake()

    def tail(self, attempt: str, end: int, data: bytes) -> None:
        """Sets the unfinished lines behind the log's ``end``; they replace the earlier ones."""
        with self._lock:
            stream = self._streams.get(attempt)
            if stream is None:
                return
            stream.tail.wanted = end, data
            due = stream.tail.due(time.monotonic())
        if due:
            self.wake()

    def has_sent(self, attempt: str) -> bool:
        """Whether Redis has all that the log has now."""
        with self._lock:
            stream = self._streams.get(attempt)
        return stream is None or (stream.shipped is not None and stream.shipped >= stream.spool.end)

    def drop(self, attempt: str) -> None:
        """Stops sending a log. Its stream stays: the portal removes it."""
        with self._lock:
            self._streams.pop(attempt, None)

    def acknowledge(self, attempt: str, archived: int) -> None:
        with self._lock:
            stream = self._streams.get(attempt)
            if stream is None or stream.archived == archived:
                return
            stream.archive_rewound |= stream.archived is not None and archived < stream.archived
            stream.archived = archived
        self.wake()

    def wake(self) -> None:
        """Signals new work. Cheap: may be called per line."""
        if not self._woken.is_set():
            self._woken.set()

    def close(self) -> None:
        self._closing.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(10)
        self._client.close()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        away, full, pause, throttle = AWAY_FIRST_S, FULL_FIRST_S, 0.0, LogThrottle()
        while not self._closing.wait(PACE_S):
            self._woken.wait(pause)
            self._woken.clear()
            try:
                moved = self._round()
            except Exception as error:  # whatever it is, the thread is the only one that sends
                self._say(throttle, error)
                self._forget()
                self._closing.wait(away)
                away, pause = min(2 * away, AWAY_LAST_S), 0.0
                continue
            throttle.over()
            away = AWAY_FIRST_S
            full = FULL_FIRST_S if moved else min(2 * full, FULL_LAST_S)
            pause = 0.0 if moved else full if self._any_waiting() else CHECK_S

    def _say(self, throttle: LogThrottle, error: Exception) -> None:
        known = isinstance(error, redis.RedisError | OSError)
        why = redis_fault(error, self._redis_url, now_ms=self._now_ns() // 1_000_000) if known else repr(error)
        if throttle.new(why):
            logger.warning("logs are not sent", reason=why, exc_info=not known)

    def _round(self) -> bool:
        """One look at every log; True when something was sent and there may be more."""
        streams = self._current()
        self._same_server(streams)
        for stream in streams:
            if stream.archive_rewound:
                stream.archive_rewound = False
                stream.lost()
        self._ask([stream for stream in streams if stream.shipped is None])
        if time.monotonic() - self._checked_at >= CHECK_S:
            self._checked_at = time.monotonic()
            self._check([stream for stream in streams if stream.pending])
        return self._send(streams)

    def _send(self, streams: list[StreamState]) -> bool:
        pipe = self._client.pipeline(transaction=False)
        calls: list[Callable[[Any], None]] = []
        for stream in streams:
            exists, end = stream.exists, None
            for start, data in _readable(stream):
                end = start + len(data)
                fields: Any = signed_batch(self._key, stream.attempt, start, data)
                pipe.xadd(stream.key, fields, id=f"{end}-0", nomkstream=exists)
                calls.append(_on_added(stream, start, end))
                exists = True
            if end is not None:
                pipe.publish(WAKE_CHANNEL, f"{stream.attempt} {end}")
                calls.append(_ignored)
            if end is not None or stream.full:
                pipe.xlen(stream.key)
                calls.append(_on_length(stream))
            calls += self._send_tail(pipe, stream)
        before = [stream.shipped for stream in streams]
        for call, answer in zip(calls, pipe.execute(raise_on_error=False), strict=True):
            call(answer)
        return any(stream.shipped not in (None, old) for stream, old in zip(streams, before, strict=True))

    def _send_tail(self, pipe: Any, stream: StreamState) -> list[Callable[[Any], None]]:
        """Sends the tail; returns a handler for the answer of each call. A tail that Redis did not take is sent again
        like any unchanged one."""
        tail, now = stream.tail, time.monotonic()
        if not tail.due(now):
            return []
        tail.sent, tail.sent_at = tail.wanted, now
        key = log_tail(self._node, stream.attempt)
        pipe.xadd(key, signed_tail(self._key, stream.attempt, *tail.sent), maxlen=1, approximate=False)
        pipe.expire(key, TAIL_KEPT_S)
        pipe.publish(WAKE_CHANNEL, f"{stream.attempt} tail")
        return [_ignored] * 3

    def _ask(self, streams: list[StreamState]) -> None:
        """Asks what Redis holds of logs whose stream is unknown."""
        pipe = self._client.pipeline(transaction=False)
        for stream in streams:
            pipe.xinfo_stream(stream.key)
        for stream, answer in zip(streams, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(answer, Exception):
                _raise_unless_missing(answer)
            try:
                self._take_up(stream, None if isinstance(answer, Exception) else answer)
            except redis.RedisError:
                raise
            except Exception as error:
                _wait_alone(stream, error)

    def _take_up(self, stream: StreamState, info: dict[str, Any] | None) -> None:
        last = _offset(info["last-generated-id"]) if info else 0
        if stream.spool.tail_uncertain:
            if stream.archived is None:
                return
            stream.spool.resume_at(max(last, stream.archived), self._now_ns())
        elif stream.acknowledged > stream.spool.end:
            stream.spool.resume_at(stream.acknowledged, self._now_ns())
        if info is not None and stream.is_foreign(last):
            logger.error("log_stream_not_ours", attempt=stream.attempt, last=last)
            self._client.delete(stream.key)
            info = None
        if info is None:
            stream.missing()
            return
        first = info["first-entry"]
        start = _offset(first[0]) - len(first[1].get(b"data", b"")) if first else last
        stream.found(last, start, info["length"])

    def _check(self, streams: list[StreamState]) -> None:
        """Finds streams that vanished while their logs were silent."""
        pipe = self._client.pipeline(transaction=False)
        for stream in streams:
            pipe.exists(stream.key)
            pipe.xlen(stream.key)
        answers = pipe.execute()
        for stream, there, length in zip(streams, answers[::2], answers[1::2], strict=True):
            if there:
                stream.trimmed_to(length)
            else:
                stream.lost()

    def _same_server(self, streams: list[StreamState]) -> None:
        """Forgets all after a new connection, which may lead to another server or to one that lost its newest data."""
        pool = self._client.connection_pool
        pool.release(pool.get_connection())
        if self._connects != self._seen_connects:
            self._seen_connects = self._connects
            for stream in streams:
                stream.lost()

    def _connected(self, connection: Any) -> None:
        connection.on_connect()
        self._connects += 1

    def _current(self) -> list[StreamState]:
        with self._lock:
            return list(self._streams.values())

    def _forget(self) -> None:
        for stream in self._current():
            stream.lost()

    def _any_waiting(self) -> bool:
        return any(stream.full or stream.shipped is None for stream in self._current())


def _readable(stream: StreamState) -> Iterator[tuple[int, bytes]]:
    """What may be sent of one log and can be read."""
    try:
        yield from stream.batches()
        if stream.shipped is not None:
            stream.throttle.over()
    except Exception as error:
        _wait_alone(stream, error)


def _wait_alone(stream: StreamState, error: Exception) -> None:
    """Notes the error of one log, which holds up no other; each round tries it again."""
    if stream.throttle.new(why := repr(error)):
        known = isinstance(error, OSError)
        logger.error("a log is not sent", attempt=stream.attempt, reason=why, exc_info=not known)


def _offset(entry_id: bytes | str) -> int:
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    return int(text.partition("-")[0])


def _on_added(stream: StreamState, start: int, end: int) -> Callable[[Any], None]:
    def added(answer: Any) -> None:
        if answer is None or isinstance(answer, Exception):
            if not isinstance(answer, redis.ResponseError | None):
                raise answer
            stream.lost()
        elif stream.shipped is not None:
            stream.sent(start, end)

    return added


def _on_length(stream: StreamState) -> Callable[[Any], None]:
    def counted(answer: Any) -> None:
        if isinstance(answer, int) and stream.shipped is not None:
            stream.trimmed_to(answer)

    return counted


def _ignored(answer: Any) -> None:
    """Ignores a hint's count of listeners."""


def _raise_unless_missing(error: Exception) -> None:
    if "no such key" not in str(error):
        raise error
