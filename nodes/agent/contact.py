"""How long ago the portal last heard of this node for certain: whoever it has given up begins nothing any more."""

from __future__ import annotations

import threading
from collections import deque

from nodes.agent.clock import Clock

_MARGIN_S = 15.0
"""Kept of the time after which the portal gives a node up: for the start itself to come to pass, and for the answer to
a report of this agent's life before, which is valid for so long and may bear the number of one of this life."""
_KEPT = 2000
"""Reports of more than a minute at their fastest pace."""


class Contact:
    """Counts from the moment at which the newest report that a list has answered was *sent*: the portal heard of the
    node then or later, however late reports and lists are in coming, and nobody's clock but this machine's has a part
    in it. All methods may be called from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._newest = 0
        self._good_until: float | None = None

    def sent(self, seq: int) -> None:
        """A report is about to go out. ``seq`` grows with each."""
        with self._lock:
            self._newest = seq
            self._sent.append((seq, self._clock.monotonic()))

    def answered(self, seq: int, *, lost_after_s: float) -> None:
        """A list that answers that report was taken in, with every order in it. ``lost_after_s``: how long a node may
        be silent before it is given up."""
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
