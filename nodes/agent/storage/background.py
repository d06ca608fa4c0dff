"""Background calls on files of storages. When their file server dies, such a call hangs, and no signal ends it; so it
runs in a thread that may hang, never in the one that has to stop a task.

Not ``nodes.agent.storage.probe``: that would be a process for each task and five seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Generic, TypeVar

import structlog

from nodes.agent.runtimes.base import Cancelled

log = structlog.get_logger(__name__)

TIMEOUT_S = 0.5
"""How long a result is waited for; a healthy file server takes milliseconds."""
_POLL_EVERY_S = 0.2
T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """A small repeated call on the files of one storage, for one controller. ``last``: its last result."""

    def __init__(self, root: str, work: Callable[[], T], last: T) -> None:
        self.root, self.last = root, last
        self._work = work
        self._done = threading.Event()
        self._done.set()

    def begin(self) -> bool:
        """False while it is still running."""
        begins = self._done.is_set()
        self._done.clear()
        return begins

    def do(self) -> None:
        try:
            self.last = self._work()
        except Exception:
            log.exception("a look at a storage failed", root=self.root)
        self._done.set()

    def wait(self) -> None:
        self._done.wait(TIMEOUT_S)


class BackgroundCalls:
    """Runs the calls of all controllers: one thread per storage, so that a dead one blocks no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[Callable[[], None] | None]] = {}

    def run(self, call: BackgroundCall[T]) -> T:
        """Runs the call once more and returns its result; where that takes longer than a moment, the last one. A call
        that is still running is neither begun anew nor waited for."""
        queue = self._queue(call.root)
        if call.begin():
            queue.put(call.do)
            call.wait()
        return call.last

    def close(self) -> None:
        """Ends the threads, a hanging one when its server answers. The agent's end waits for none of them."""
        with self._lock:
            queues, self._queues = self._queues, {}
        for queue in queues.values():
            queue.put(None)

    def _queue(self, root: str) -> SimpleQueue[Callable[[], None] | None]:
        with self._lock:
            if root not in self._queues:
                queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
                threading.Thread(target=_serve, args=(queue,), name=f"storage {root}", daemon=True).start()
                self._queues[root] = queue
            return self._queues[root]


def _serve(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := queue.get()) is not None:
        work()


def run_cancellable(work: Callable[[], T], cancelled: Callable[[], bool]) -> T:
    """Runs ``work`` in a thread of its own and returns or raises what it does; the thread is abandoned as soon as
    ``cancelled``. Raises Cancelled then."""
    future: Future[T] = Future()
    threading.Thread(target=_fulfil, args=(future, work), name="storage", daemon=True).start()
    while not wait([future], _POLL_EVERY_S).done:
        if cancelled():
            raise Cancelled
    return future.result()


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
