"""Threads of the workers that take the ``control`` queue: what must not wait for a regular task.

Regular tasks come from the scheduler's process by way of Redis, some seconds late at best, and not at all while one of
the two is away.
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
    """Calls ``turn`` again and again with ``pause_s`` seconds between, whatever it raises, until it is closed."""

    name: str
    """The thread's; said in the log."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @abstractmethod
    def turn(self) -> None:
        """What is done. One that lasts ends soon after ``closing`` is set."""

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the turn at hand is done, at most ``CLOSE_S`` later."""
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
    """Runs one thread in every worker that takes the ``control`` queue, from its start to its end."""

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
