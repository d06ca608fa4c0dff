"""Container events of the Engine: they make the agent look at once instead of at its next poll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from docker.types import CancellableStream

from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.faults import engine_failures
from nodes.protocol.names import LABEL

log = structlog.get_logger(__name__)

RETRY_S = 1.0


class ContainerEvents:
    """A thread that calls ``changed(attempt)`` whenever a container of this node starts, ends or is removed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = threading.Event()
        self._events: CancellableStream[dict[str, Any]] | None = None

    def open(self, changed: Callable[[str], None]) -> None:
        threading.Thread(target=self._run, args=(changed,), name="docker-events", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        events = self._events
        if events is not None:
            with suppress(Exception):
                events.close()

    def _run(self, changed: Callable[[str], None]) -> None:
        filters = {"type": "container", "label": self._engine.labels, "event": ["start", "die", "destroy"]}
        throttle = LogThrottle()
        while not self._closed.is_set():
            try:
                with engine_failures():
                    self._events = self._engine.client().events(filters=filters, decode=True)
                    throttle.over()
                    for event in self._events:
                        changed(str(event["Actor"]["Attributes"].get(LABEL.ATTEMPT, "")))
            except RuntimeUnavailable as unavailable:
                if throttle.new(str(unavailable)):
                    log.info("events broke off", error=str(unavailable))
            self._closed.wait(RETRY_S)
