"""Contact with the portal: how long ago it certainly heard of this node. A node that may have been given up starts
nothing."""

from __future__ import annotations

import threading
from collections import deque

from nodes.agent.clock import Clock

_MARGIN_S = 15.0
"""Subtracted from the time after which the portal gives a node up: for the start itself, and for the answer to a report
of the agent's previous run, which may bear the number of a report of this one."""
_KEPT = 2000
"""More than a minute of reports at their fastest pace."""


class Contact:
    """Counts from the moment at which the newest answered report was *sent*: the portal heard of the node then or
    later, however late reports and lists are, and by this machine's clock alone. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._newest = 0
        self._good_until: float | None = None

    def sent(self, seq: int) -> None:
        """Notes that a report is about to go out. ``seq`` grows with each."""
        with self._lock:
            self._newest = seq
            self._sent.append((seq, self._clock.monotonic()))

    def answered(self, seq: int, *, lost_after_s: float) -> None:
        """Notes that a list answering that report was taken in, with every order in it. ``lost_after_s``: how long a
        node may be silent before it is given up."""
        with self._lock:
            if seq > self._newest:  # of an earlier life of this agent
                return
            while self._sent and self._sent[0][0] <= seq:
                number, at = self._sent.popleft()
                if number == seq:
                    self._good_until = at + lost_after_s - min(_MARGIN_S, lost_after_s / 4)

    def holds(self) -> bool:
        """Whether the portal cannot have given this node up. False before the first answer."""
        with self._lock:
            return self._good_until is not None and self._clock.monotonic() < self._good_until
