"""Threads of the workers that take the ``control`` queue, for work that must not wait for a periodic task.

Periodic tasks come from the scheduler process through Redis: seconds late at best, and not at all while either is down.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import Any

from celery import bootsteps
from django.db import close_old_connections

QUEUE = "control"
CLOSE_S = 10.0

log = logging.getLogger(__name__)


class ControlThread(ABC):
    """Calls ``turn`` in a loop, pausing ``pause_s`` seconds between calls whatever it raises, until closed."""

    name: str
    """The thread's name, used in the log."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @abstractmethod
    def turn(self) -> None:
        """One round of the work. A long one must end soon after ``closing`` is set."""

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops the loop; returns when the current turn is done, after ``CLOSE_S`` at most."""
        self.closing.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self.closing.is_set():
            try:
                self.turn()
            except Exception as error:  # whatever is wrong now (Redis, database, disk), the next turn is soon
                log.warning("%s failed, again in %s s: %r", self.name, self._pause_s, error)
            finally:
                close_old_connections()
            self.closing.wait(self._pause_s)


class ControlStep(bootsteps.StartStopStep):
    """Celery bootstep that runs one thread in every worker of the ``control`` queue for as long as it lives."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._thread: ControlThread | None = None

    def thread(self) -> ControlThread:
        """The thread to run, made when the worker starts."""
        raise NotImplementedError

    def include_if(self, parent: Any) -> bool:
        return QUEUE in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        self._thread = self.thread()
        self._thread.start()

    def stop(self, parent: Any) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None
