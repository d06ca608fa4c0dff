"""Output of a container from Docker: raw frames, both streams in the order in which Docker wrote them."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

import docker
import requests
import urllib3
from docker.errors import APIError, NotFound

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.logs.sidecar import position_after
from nodes.agent.runtimes.base import RuntimeUnavailable, records_beyond
from nodes.agent.runtimes.docker.faults import EngineUnavailable, engine_errors
from nodes.agent.runtimes.docker.lost_exits import ended_unread, engine_began_s
from nodes.agent.runtimes.docker.open_lines import OpenLines, frames_in
from nodes.protocol.logs import LogRecord

CROSSING_NS = 1_000_000_000
"""How far the times of Docker's two streams may cross: each is stamped before it waits for the other."""

NEVER_ROTATED_BYTES = 8 << 20
"""Output that fits into Docker's 4 x 256 MB even as one-byte lines, each of which takes some 90 bytes there."""

ENDED_UNSEEN = "The container engine was away when this task ended: what it printed last may be missing."


_STAMP = 30
"""``2026-11-21T00:07:57.123456789Z``: Docker writes all nine digits."""


class DockerOutput:
    """``FrameSource`` over one container. ``connect`` makes a client of its own, for the read blocks for days;
    ``engine_age_s``: how long the Engine has run; ``open_lines`` hears the unfinished lines that it keeps back;
    ``freeze`` and ``thaw`` are the runtime's.

    A log that cannot have been rotated yet is read from its start, and the bytes taken of each stream are skipped. A
    longer one is resumed at the newest record taken: Docker's file keeps its order, so everything behind that record is
    new, although times of the streams cross. Where the clock was set back, times do not help: that record is searched
    for in all that may hold it.

    Output printed while the Engine is away waits in a pipe, which it reads when it comes back (live-restore), unless
    the container has ended by then: that much is lost, and ``missing`` says so, where the Engine's process is younger
    than the container and the end came before it read on; where no such process can be seen, where a read of the
    running container broke off. An Engine that is killed also loses what it has read and not yet written; nobody can
    see that.
    """

    def __init__(
        self,
        container: str,
        connect: Callable[[], docker.APIClient],
        engine_age_s: Callable[[], float | None],
        open_lines: OpenLines,
        *,
        freeze: Callable[[], None],
        thaw: Callable[[], None],
    ) -> None:
        self.freeze, self.thaw = freeze, thaw
        self._container, self._open_lines = container, open_lines
        self._engine_age_s = engine_age_s
        self._connect = connect
        self._closed = threading.Event()
        self._response: requests.Response | None = None
        self._running = self._cut = self._ended_unseen = False

    def frames(self, after: Position) -> Iterator[LogRecord]:
        """Ends after a read that began when the container had ended and found nothing new: an Engine that shuts down
        ends a read early without an error."""
        with engine_errors():
            client = self._connect()
        try:
            fresh = True
            while fresh and not self._closed.is_set():
                state = client.inspect_container(self._container)["State"]
                self._running = fresh = bool(state["Running"])
                if self._running:
                    self._open_lines.attach(started=True)
                if not self._running and not self._ended_unseen:
                    self._ended_unseen = self._may_be_cut(client, state)
                self._cut = False
                for record in self._read(client, after):
                    fresh, after = True, position_after(after, (record,))
                    yield record
        except NotFound:
            return
        except (APIError, requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            self._cut |= self._running
            if not self._closed.is_set():
                why = str(error) if isinstance(error, EngineUnavailable) else type(error).__name__
                raise RuntimeUnavailable(f"the log cannot be read now ({why})") from error
        finally:
            client.close()

    def open_lines(self) -> dict[int, OpenLine]:
        return self._open_lines.lines() if self._running else {}

    def missing(self) -> str:
        return ENDED_UNSEEN if self._ended_unseen else ""

    def close(self) -> None:
        self._closed.set()
        response = self._response
        if response is not None:
            response_shut_down(response)

    def _read(self, client: docker.APIClient, after: Position) -> Iterator[LogRecord]:
        fresh, since_ns, now_ns = records_after, after.last_time_ns - CROSSING_NS, time.time_ns()
        if sum(after.payload_bytes.values()) <= NEVER_ROTATED_BYTES:
            fresh, since_ns = records_beyond, 0
        elif clock_set_back(after, now_ns):
            fresh, since_ns = records_after_position, since_ns if after.last_time_ns <= now_ns else 0
            with contextlib.closing(self._records(client, since_ns, follow=False)) as kept:
                after = after if contains_position(kept, after) else replace(after, at_last=0)
        with contextlib.closing(self._records(client, since_ns)) as records:
            yield from fresh(records, after)

    def _records(self, client: docker.APIClient, since_ns: int, *, follow: bool = True) -> Generator[LogRecord]:
        self._response = response = open_log(client, self._container, since_ns, follow=follow)
        try:
            if not self._closed.is_set():
                yield from _records(response)
        finally:
            response.close()

    def _may_be_cut(self, client: docker.APIClient, state: dict[str, Any]) -> bool:
        """Whether the Engine that read the container's pipe was gone at its end, by the Engine's own clock."""
        began_s = engine_began_s(client, self._engine_age_s())
        return self._cut if began_s is None else ended_unread(state, began_s)


class Stamps:
    """Parser of Docker's time stamps; the part down to the second is parsed once per second."""

    def __init__(self) -> None:
        self._second, self._base_ns = b"", 0

    def time_ns(self, stamp: bytes) -> int:
        """Unix ns. Raises ValueError."""
        second = stamp[:19]
        if second != self._second:
            moment = datetime.fromisoformat(second.decode() + "+00:00")
            self._second, self._base_ns = second, int(moment.timestamp()) * 1_000_000_000
        return self._base_ns + int(stamp[20:29])


def open_log(client: docker.APIClient, container: str, since_ns: int, *, follow: bool) -> requests.Response:
    """The stream of a container's log from ``since_ns`` on; with ``follow`` until it has ended. Raises APIError."""
    params: dict[str, str | int] = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(follow), "tail": "all"}
    if since_ns:
        params["since"] = f"{since_ns // 1_000_000_000}.{since_ns % 1_000_000_000:09d}"
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/logs"
    response = client.get(url, params=params, stream=True, timeout=None)
    if response.status_code == 404:
        response.close()
        raise NotFound("no such container", response=response)
    response.raise_for_status()
    return response


def response_shut_down(response: requests.Response) -> None:
    """Ends a read that blocks in another thread."""
    connection = getattr(response.raw, "_connection", None) or getattr(response.raw, "connection", None)
    connection_shut_down(connection)


def connection_shut_down(connection: Any) -> None:
    """Ends what is read or written by a connection to the Engine, where it has begun."""
    sock = getattr(connection, "sock", None)
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _records(response: requests.Response) -> Iterator[LogRecord]:
    stamps = Stamps()
    for stream, frame in frames_in(response.raw.stream(1 << 16)):
        yield LogRecord(stamps.time_ns(frame[:_STAMP]), stream, frame[_STAMP + 1 :])


def records_after(records: Iterator[LogRecord], after: Position) -> Iterator[LogRecord]:
    """Records behind the newest one of ``after``; where that one is gone, younger ones."""
    waiting: list[LogRecord] = []
    left = after.at_last
    for record in records:
        if not left:
            yield record
        elif record.time_ns == after.last_time_ns:
            left -= 1
            waiting = waiting if left else []
        elif record.time_ns > after.last_time_ns:
            waiting.append(record)
            if record.time_ns > after.last_time_ns + CROSSING_NS:
                left = 0
                yield from waiting
                waiting = []
    yield from waiting


def clock_set_back(after: Position, now_ns: int) -> bool:
    """Whether the clock was set back since the newest record taken, and has not caught up."""
    return min(after.last_time_ns, now_ns) < after.newest_ns - CROSSING_NS


def contains_position(records: Iterator[LogRecord], after: Position) -> bool:
    """Whether the last record of ``after`` is still among them."""
    same = (record for record in records if record.time_ns == after.last_time_ns)
    return sum(1 for _ in islice(same, after.at_last)) == after.at_last


def records_after_position(records: Iterator[LogRecord], after: Position) -> Iterator[LogRecord]:
    """Records behind the last one of ``after``, whatever the times: that one is among them, or ``after`` has none."""
    left = after.at_last
    for record in records:
        if not left:
            yield record
        elif record.time_ns == after.last_time_ns:
            left -= 1
