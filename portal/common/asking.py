"""Questions to a file system whose server may be away: where it is mounted hard, it answers no sooner than that server,
and who asked cannot be called back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Asking(Generic[Answer]):
    """Asks in a thread of its own, and waits no longer than ``limit_s`` for it. Who asks meanwhile gets the same
    answer; while one hangs no other thread is begun, and nobody waits for it anew."""

    def __init__(self, ask: Callable[[], Answer], limit_s: float) -> None:
        self._ask, self._limit_s = ask, limit_s
        self._lock = threading.Lock()
        self._asked: Future[Answer] | None = None
        self._began = 0.0

    def answer(self) -> Answer:
        """Raises TimeoutError, what the question raises, and RuntimeError where no thread can be begun."""
        with self._lock:
            if self._asked is None or self._asked.done():
                new: Future[Answer] = Future()
                # Kept once it runs: where no thread can be begun just then, the next who asks begins one.
                threading.Thread(target=self._run, args=(new,), name="asking", daemon=True).start()
                self._asked, self._began = new, monotonic()
            asked, left = self._asked, self._began + self._limit_s - monotonic()
        return asked.result(max(0.0, left))

    def _run(self, asked: Future[Answer]) -> None:
        try:
            asked.set_result(self._ask())
        except BaseException as error:  # whoever waits must hear of it: nobody asks anew while this one is open
            asked.set_exception(error)
