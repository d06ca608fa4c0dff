"""Watch for ends of wrappers, also of those an earlier agent started: by pidfd, without polling."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable


class ProcessWatch:
    """A thread that calls ``ended(attempt)`` for each added process once it is gone."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._poll = select.poll()
        self._attempts: dict[int, str] = {}
        self._lock = threading.Lock()
        self._bell_out, self._bell_in = os.pipe()
        self._closed = False
        self._poll.register(self._bell_out, select.POLLIN)
        threading.Thread(target=self._run, name="process-watch", daemon=True).start()

    def add(self, attempt: str, pid: int) -> None:
        """Watches a process; one that is gone already is reported at once. Idempotent."""
        with self._lock:
            if attempt in self._attempts.values():
                return
            try:
                watched = os.pidfd_open(pid)
            except ProcessLookupError:
                watched = None
            if watched is not None:
                self._attempts[watched] = attempt
                self._poll.register(watched, select.POLLIN)
        if watched is None:
            self._ended(attempt)
        self._ring()

    def close(self) -> None:
        self._closed = True
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._bell_in, b"!")

    def _run(self) -> None:
        while not self._closed:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._bell_out:
                    os.read(self._bell_out, 4096)
                else:
                    self._tell(descriptor)
        os.close(self._bell_out)
        os.close(self._bell_in)

    def _tell(self, descriptor: int) -> None:
        with self._lock:
            attempt = self._attempts.pop(descriptor)
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._ended(attempt)
