"""Sends the full report every few seconds, and soon after a change. Never blocks the supervisor.

A report that cannot be sent is dropped: the next one says everything anew. So is one that would only lengthen a queue
that nobody reads: it would fill the memory of Redis, and everything else would stop with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from kombu import Connection
from redis.exceptions import NoPermissionError

from nodes.agent.attempts.supervisor import View
from nodes.agent.clock import Clock
from nodes.agent.connecting import redis_fault
from nodes.agent.contact import Contact
from nodes.agent.log_throttle import LogThrottle
from nodes.protocol.envelope import Envelope, NodeKey, envelope_seal
from nodes.protocol.messages import Inventory, Report, Sample, encode
from nodes.protocol.names import REPORT_TASK, REPORTS_QUEUE

log = structlog.get_logger(__name__)

COALESCE_S = 0.05
"""Least time between two reports."""
SOON_S = 0.25
"""How long a change that nobody waits for may wait for more: each report costs the portal some work."""
EXPIRES_S = 30
_RETRY_S = 1.0
_QUIET_AFTER_S, _QUIET_EVERY_S = 600.0, 15.0
"""After ten minutes without an answer reports become rarer: an overwhelmed portal needs its time."""
MOST_WAITING = 5000
"""Most reports of all nodes in Redis: more than 800 nodes send before the first has expired, and of 20 kB each (a full
node's) they take 100 MB."""
FULL = (
    f"{MOST_WAITING} reports wait in Redis, and none more is sent until some are taken in: see that the portal's "
    "worker for reports runs (celery -A portal worker -Q reports) and reaches Redis."
)


class Reporter:
    """Sends reports from a thread of its own. ``change`` may be called from any thread, however often. The file
    ``reported`` is touched with each report that went out, or that only the queue's length kept back: health checks
    look at its age."""

    def __init__(
        self,
        *,
        app: Celery,
        cluster: str,
        node: str,
        key: NodeKey,
        boot: int,
        view: Callable[[], View],
        sample: Callable[[], Sample | None],
        inventory: Callable[[], Inventory],
        clock: Clock,
        contact: Contact,
        every_s: float,
        reported: Path,
    ) -> None:
        self._app, self._cluster, self._node, self._key, self._boot = app, cluster, node, key, boot
        self._view, self._sample, self._inventory, self._clock = view, sample, inventory, clock
        self._contact, self._every_s = contact, every_s
        self._reported = reported
        self._seq = self._answers = 0
        self._answered_at = clock.monotonic()
        self._changed, self._at_once = threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._connection: Connection | None = None
        self._throttle = LogThrottle(clock.monotonic)
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread after the current report."""
        self._closed.set()
        self.change(True)
        self._thread.join(2)

    def change(self, at_once: bool) -> None:
        """Requests a report soon, or at once where the portal waits for it."""
        if at_once:
            self._at_once.set()
        self._changed.set()

    def report(self) -> Report:
        """Builds the next report. Raises nothing of the network."""
        view = self._view()
        self._seq += 1
        self._contact.sent(self._seq)
        if view.answers != self._answers:
            self._answers, self._answered_at = view.answers, self._clock.monotonic()
        return Report(
            cluster=self._cluster,
            node=self._node,
            boot=self._boot,
            seq=self._seq,
            generation=view.generation,
            sent_ms=self._clock.now_ms(),
            inventory=self._inventory(),
            containers=view.containers,
            specs_known=view.specs_known,
            sample=self._sample(),
        )

    def _run(self) -> None:
        while not self._closed.is_set():
            self._changed.clear()  # before the look: what changes from here on asks for another report
            self._at_once.clear()
            began = self._clock.monotonic()
            sent = self._send_guarded()
            self._changed.wait(self._pause() if sent else _RETRY_S)
            if not sent:
                self._closed.wait(_RETRY_S)
            elif self._changed.is_set():
                self._at_once.wait(SOON_S)
            self._closed.wait(max(0.0, began + COALESCE_S - self._clock.monotonic()))

    def _pause(self) -> float:
        quiet = self._clock.monotonic() - self._answered_at > _QUIET_AFTER_S
        return max(self._every_s, _QUIET_EVERY_S) if quiet else self._every_s

    def _send_guarded(self) -> bool:
        try:
            if not self._has_room():
                self._reported.touch()
                self._say(FULL)
                return False
            self._send(self.report())
            self._reported.touch()
        except Exception as error:
            self._say(redis_fault(error, self._app.conf.broker_write_url, now_ms=self._clock.now_ms()))
            self._drop_connection()
            return False
        if self._throttle.over():
            log.info("reports are sent again")
        return True

    def _has_room(self) -> bool:
        """Whether the queue takes one more. Nodes that ask at once may each add one."""
        channel: Any = self._open().default_channel  # Redis's own, of which the common type does not know
        with channel.conn_or_acquire() as client:
            try:
                return int(client.llen(REPORTS_QUEUE)) < MOST_WAITING
            except NoPermissionError:  # a portal of the release before lets nobody ask
                return True

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._app.connection_for_write()
        return self._connection

    def _say(self, why: str) -> None:
        if self._throttle.new(why):
            log.warning("reports are not sent", reason=why)

    def _send(self, report: Report) -> None:
        """Sends one Celery message, which the portal drops when it comes too late."""
        expires_ms = report.sent_ms + EXPIRES_S * 1000
        body = encode(report).decode()
        envelope = Envelope(sender=self._node, to="portal", kind="report", expires_ms=expires_ms, body=body)
        with self._app.amqp.Producer(self._open().default_channel, auto_declare=False) as producer:
            self._app.send_task(
                REPORT_TASK,
                args=[envelope_seal(self._key, envelope)],
                queue=REPORTS_QUEUE,
                expires=EXPIRES_S,
                producer=producer,
                retry=False,
                declare=(),  # its account may push to the queue; what a queue is bound to is the portal's
            )

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        try:
            if connection is not None:
                connection.close()
        except Exception as error:
            log.debug("closing a dead connection", error=str(error))
