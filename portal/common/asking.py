"""Calls with a deadline into a file system whose server may be away: on a hard mount they block until that server
answers, and a blocked thread cannot be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Asking(Generic[Answer]):
    """Runs ``ask`` in a thread of its own and waits at most ``limit_s`` for it. Callers meanwhile share the same call:
    while one hangs, no further thread is started and the deadline is not extended."""

    def __init__(self, ask: Callable[[], Answer], limit_s: float) -> None:
        self._ask, self._limit_s = ask, limit_s
        self._lock = threading.Lock()
        self._asked: Future[Answer] | None = None
        self._began = 0.0

    def answer(self) -> Answer:
        """The result. Raises TimeoutError, whatever ``ask`` raises, and RuntimeError where no thread can be started."""
        with self._lock:
            if self._asked is None or self._asked.done():
                new: Future[Answer] = Future()
                # Assigned only after start() succeeded: if it failed, the next caller tries again.
                threading.Thread(target=self._run, args=(new,), name="asking", daemon=True).start()
                self._asked, self._began = new, monotonic()
            asked, left = self._asked, self._began + self._limit_s - monotonic()
        return asked.result(max(0.0, left))

    def _run(self, asked: Future[Answer]) -> None:
        try:
            asked.set_result(self._ask())
        except BaseException as error:  # an unfinished future would block all later calls
            asked.set_exception(error)
