"""Log pipeline of a node: one spool and one follower per task attempt, one shipper for all of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from nodes.agent.log_throttle import LogThrottle
from nodes.agent.logs.base import FrameSource, LogStatus
from nodes.agent.logs.follower import Follower
from nodes.agent.logs.masks import MOST, Masks
from nodes.agent.logs.orphans import orphans_delete
from nodes.agent.logs.shipper import Shipper
from nodes.agent.logs.spool import Spool
from nodes.agent.steps import LogSteps
from nodes.protocol.envelope import NodeKey

TICK_S = 0.25
AWAY_S = 30.0
"""Time without an acknowledgement after which the portal counts as away."""

TOO_MANY = f"… this job's secrets can be written in more than {MOST} ways: some of them are not hidden in this log\n"

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Log:
    spool: Spool
    follower: Follower | None = None
    finished: bool = False
    throttle: LogThrottle = field(default_factory=LogThrottle)

    @property
    def complete(self) -> bool:
        return self.finished or (self.follower is not None and self.follower.complete)


class LogPipeline:
    """Container -> spool -> Redis stream, for all task attempts of a node. Thread-safe.

    ``folder``: where the spools lie, one folder per attempt; ``spool_limit``: bytes of one log kept while the portal is
    away; ``node_limit``: bytes of all of them, beyond which each log has only an equal share; ``window``: bytes of one
    log beyond the acknowledged offset in Redis; ``now_ns``: unix time.
    """

    def __init__(
        self,
        *,
        folder: Path,
        node: str,
        key: NodeKey,
        redis_url: str,
        spool_limit: int = 1 << 30,
        node_limit: int = 20 << 30,
        window: int = 1 << 20,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder, self._now_ns = folder, now_ns
        self._spool_limit, self._node_limit = spool_limit, node_limit
        self._heard_at = float("-inf")
        self._logs: dict[str, _Log] = {}
        self._archived: dict[str, int] = {}
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._shipper = Shipper(node=node, key=key, redis_url=redis_url, window=window, now_ns=now_ns)
        self._shipper.start()
        self._ticker = threading.Thread(target=self._tick, name="log-ticker", daemon=True)
        self._ticker.start()

    def attach(self, attempt: str, source: FrameSource, masks: Masks, steps: LogSteps | None = None) -> None:
        """Starts following a container, from the end of its spool, with ``masks`` applied; ``steps`` reads along.
        Idempotent: a second source is closed.

        Raises OSError where the spool cannot be opened: on a disk that is full or broken.
        """
        with contextlib.ExitStack() as unless_followed:
            unless_followed.callback(source.close)
            with self._lock:
                log = self._open(attempt)
                if log.follower is None and not log.finished:
                    if masks.incomplete and not log.spool.position.last_time_ns:
                        log.spool.mark(TOO_MANY, self._now_ns())
                    marker = self._folder / attempt / "frozen"
                    follower = Follower(
                        attempt, source, log.spool, masks=masks, steps=steps, marker=marker,
                        wake=self._shipper.wake, now_ns=self._now_ns,
                    )  # fmt: skip
                    follower.start()
                    log.follower = follower
                    unless_followed.pop_all()

    def ack(self, attempt: str, archived: int) -> None:
        """Notes that the archive holds everything before ``archived``, and nothing behind it where it held more before:
        it was restored. Also of a log that has not begun."""
        self._heard_at = time.monotonic()
        with self._lock:
            self._archived[attempt] = archived
            log = self._logs.get(attempt)
        if log is not None:
            self._shipper.acknowledge(attempt, archived)
            log.spool.acknowledge(archived)

    def status(self, attempt: str) -> LogStatus:
        """Status of a log; all zero for one that never began."""
        with self._lock:
            log = self._logs.get(attempt)
        if log is None:
            return LogStatus()
        complete = log.complete
        return LogStatus(
            end=log.spool.end,
            complete=complete,
            dropped_lines=log.spool.dropped_lines,
            tail=log.spool.tail,
            frozen=log.follower is not None and log.follower.frozen,
            sent=self._shipper.has_sent(attempt),
            steps=log.follower.steps if log.follower is not None else None,
        )

    def note(self, attempt: str, text: str) -> None:
        """Adds a line of Berth's own to the log; nothing once the log is complete, whose end is final.

        On a full disk the line goes to the agent's own log instead.
        """
        try:
            with self._lock:
                log = self._open(attempt)
            if log.complete:
                return
            log.spool.mark(text if text.endswith("\n") else f"{text}\n", self._now_ns())
        except OSError as error:
            logger.error("note_lost", attempt=attempt, note=text, error=str(error))
        self._shipper.wake()

    def finish(self, attempt: str) -> None:
        """Completes the log of an attempt without a container, with the notes it has. Does nothing for a followed
        one."""
        with self._lock:
            log = self._open(attempt)
            log.finished = log.follower is None
        self._shipper.wake()

    def remove(self, attempt: str) -> None:
        """Forgets the log and deletes its spool; everything of it is archived."""
        with self._lock:
            self._archived.pop(attempt, None)
            log = self._logs.pop(attempt, None) or _Log(self._spool(attempt))
        self._shipper.drop(attempt)
        if log.follower is not None:
            log.follower.close()
        log.spool.remove()

    def sweep(self, *, known: Collection[str], removed: Collection[str]) -> None:
        """Deletes orphaned spools: those of ``removed`` attempts at once, those of attempts that are not ``known`` a
        week after their last line. Called at the agent's start."""
        with self._lock:
            orphans_delete(self._folder, known={*known, *self._logs}, removed=removed, now_s=self._now_ns() / 1e9)

    def close(self) -> None:
        """Detaches from everything: containers run on, and a later pipeline on the same folder goes on."""
        self._closing.set()
        with self._lock:
            logs = list(self._logs.values())
        for log in logs:
            if log.follower is not None:
                log.follower.close()
        self._shipper.close()
        self._ticker.join(5)
        for log in logs:
            with contextlib.suppress(OSError):  # what the disk does not take now is read again from the container
                log.spool.close()

    def _open(self, attempt: str) -> _Log:
        log = self._logs.get(attempt)
        if log is None:
            log = self._logs[attempt] = _Log(self._spool(attempt))
            self._shipper.add(attempt, log.spool)
            if attempt in self._archived:
                self._shipper.acknowledge(attempt, self._archived[attempt])
        return log

    def _spool(self, attempt: str) -> Spool:
        return Spool(self._folder / attempt, limit=self._spool_limit, away=self._away)

    def _away(self) -> bool:
        return time.monotonic() - self._heard_at > AWAY_S

    def _tick(self) -> None:
        """Writes what waits in memory, and thaws containers whose output has been read to its end."""
        while not self._closing.wait(TICK_S):
            with self._lock:
                logs = dict(self._logs)
            for attempt, log in logs.items():
                self._tick_one(attempt, log)
            self._share_out([log.spool for log in logs.values()])

    def _tick_one(self, attempt: str, log: _Log) -> None:
        """Contains failures: one log's end neither the thread nor the turn of the others."""
        try:
            with contextlib.suppress(OSError):  # the follower waits for the disk; nothing is lost
                log.spool.flush()
            if log.follower is not None:
                log.follower.tick()
                self._shipper.tail(attempt, *log.follower.tail())
        except Exception as error:
            if log.throttle.new(repr(error)):
                logger.exception("a log cannot be looked after")
        else:
            log.throttle.over()

    def _share_out(self, spools: Sequence[Spool]) -> None:
        """While all spools together exceed the node's limit, those larger than an equal share take nothing new."""
        over = sum(spool.used for spool in spools) > self._node_limit
        limit = min(self._spool_limit, self._node_limit // len(spools)) if over else self._spool_limit
        for spool in spools:
            spool.limit = limit
