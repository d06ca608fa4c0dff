"""Watches for listeners without authentication, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container

import structlog

from nodes.agent.listeners.scan import Scan, scan
from nodes.agent.runtimes.ports import Listening
from nodes.protocol.messages import Listener

log = structlog.get_logger(__name__)

KNOWN_AFTER_S = 20.0
"""Time after its start in which an agent learns of the tasks that were there before, whose listeners are left out."""
QUIET_LOOKS = 6
"""Scans after which a listener of no known kind is asked again: each question appears in its log."""


class ListenerWatch:
    """Scans every ``every_s``, never where that is 0. ``state``: what the last scan found. ``of_job`` and ``held`` are
    those of ``scan``."""

    def __init__(
        self,
        *,
        of_job: Callable[[int], bool],
        held: Callable[[], Container[int]],
        changed: Callable[[bool], None],
        every_s: float,
    ) -> None:
        self._of_job, self._held, self._changed, self._every_s = of_job, held, changed, every_s
        self._quiet: dict[Listening, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listeners", daemon=True)
        self.state: tuple[Listener, ...] = ()

    def open(self) -> None:
        if self._every_s:
            self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def look(self) -> None:
        """Scans once and reports what changed."""
        looked = scan(of_job=self._of_job, held=self._held().__contains__, quiet=self._quiet, ended=self._closed.is_set)
        self._remember(looked)
        if looked.found != self.state:
            log.info("answer without authentication", found=[f"{one.kind} {one.port}" for one in looked.found])
            self.state = looked.found
            self._changed(False)

    def _remember(self, looked: Scan) -> None:
        waiting = {one: left - 1 for one, left in self._quiet.items() if left > 1}
        self._quiet = waiting | {one.socket: QUIET_LOOKS - 1 for one in looked.asked if one.kind is None}

    def _run(self) -> None:
        self._closed.wait(min(KNOWN_AFTER_S, self._every_s))
        while not self._closed.is_set():
            try:
                self.look()
            except Exception:
                log.exception("what listens here cannot be looked at")
            self._closed.wait(self._every_s)
