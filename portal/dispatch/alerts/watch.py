"""Looks at the alerts again and again, in a thread of the workers that take the ``control`` queue.

Regular tasks come from the scheduler's process by way of Redis: that the one has stopped, or the other is away, is what
must be told, so that this waits for neither, and sends what it tells by itself.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery import bootsteps
from django.db import close_old_connections
from django.utils import timezone

from portal.dispatch.alerts.telling import LOOK_S, alerts_look
from portal.notices.lanes import send_deliveries, send_mails

QUEUE = "control"

log = logging.getLogger(__name__)


class AlertThread:
    """One look each ``pause_s`` seconds, until it is closed."""

    def __init__(self, pause_s: float = LOOK_S) -> None:
        self._pause_s = pause_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the look at hand is done, at most a few seconds later."""
        self._closing.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if alerts_look(now=timezone.now()):
                    send_mails()
                    send_deliveries()
            except Exception as error:  # whatever is wrong now (Redis, database), the next look is soon
                log.warning("alerts not looked at, again in %s s: %r", self._pause_s, error)
            finally:
                close_old_connections()
            self._closing.wait(self._pause_s)


class AlertsStep(bootsteps.StartStopStep):
    """Runs the thread in every worker that takes the ``control`` queue."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._thread: AlertThread | None = None

    def include_if(self, parent: Any) -> bool:
        return QUEUE in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        self._thread = AlertThread()
        self._thread.start()

    def stop(self, parent: Any) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None
