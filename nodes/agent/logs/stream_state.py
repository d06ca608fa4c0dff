"""Shipping state of one log: how far it was sent, and what of it lies in its Redis stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from nodes.agent.log_throttle import LogThrottle
from nodes.agent.logs.spool import BATCH, Spool

MOST = 16 * BATCH
"""Bytes of one log in one round, so that a flood does not hold up the others."""

TAIL_S, TAIL_AGAIN_S, TAIL_KEPT_S = 0.5, 20.0, 60
"""How often a new tail is sent, how soon an unchanged one is sent again, and how long Redis keeps it."""


@dataclass(slots=True)
class Block:
    """``count`` neighbouring stream entries, from offset ``start`` to ``end``."""

    count: int
    start: int
    end: int


@dataclass(slots=True)
class Tail:
    """Unfinished lines to send, and as sent last, each with the log's end: at most every 0.5 s, and again before Redis
    forgets them."""

    wanted: tuple[int, bytes] = (0, b"")
    sent: tuple[int, bytes] = (0, b"")
    sent_at: float = float("-inf")

    def due(self, now: float) -> bool:
        wanted, sent = self.wanted, self.sent
        new = wanted[1] != sent[1] or (bool(wanted[1]) and wanted != sent)
        return now - self.sent_at >= (TAIL_S if new else TAIL_AGAIN_S) and bool(wanted[1] or sent[1])


@dataclass(slots=True)
class StreamState:
    """What the shipper knows of one log. ``shipped``: offset up to which the stream was filled, None: unknown, ask
    Redis; ``archived``: acknowledged offset, None: not heard yet; ``archive_rewound``: that offset has become smaller,
    as after a restore of the archive; ``exists``: the stream is there; ``full``: the window is; ``throttle``: of this
    log's own errors; ``tail``: its unfinished lines."""

    attempt: str
    key: str
    spool: Spool
    window: int
    archived: int | None = None
    archive_rewound: bool = False
    shipped: int | None = None
    exists: bool = False
    full: bool = False
    blocks: deque[Block] = field(default_factory=deque)
    throttle: LogThrottle = field(default_factory=LogThrottle)
    tail: Tail = field(default_factory=Tail)

    @property
    def acknowledged(self) -> int:
        return self.archived or 0

    @property
    def pending(self) -> bool:
        """Whether something unacknowledged lies in the stream."""
        return self.shipped is not None and self.shipped > self.acknowledged

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """(start, whole records) that may be sent now; sets ``full``."""
        self.full = False
        if self.shipped is None:
            return
        at, used = self.shipped, self._in_stream()
        most = at + MOST
        while at < most:
            start, data = self.spool.read(at, min(BATCH, max(1, self.window - used)))
            if not data:
                return
            if used and used + len(data) > self.window:
                self.full = True
                return
            yield start, data
            at, used = start + len(data), used + len(data)

    def sent(self, start: int, end: int) -> None:
        """Notes an entry with the bytes from ``start`` to ``end``."""
        self.blocks.append(Block(1, start, end))
        self.shipped, self.exists = end, True

    def lost(self) -> None:
        """Forgets what Redis holds."""
        self.shipped, self.full = None, False
        self.tail.sent_at = float("-inf")
        self.blocks.clear()

    def found(self, last: int, first: int, count: int) -> None:
        """Notes that Redis holds ``count`` entries from offset ``first`` to ``last`` (its last id, of an empty stream
        too)."""
        self.blocks = deque([Block(count, first, last)] if count else [])
        self._start_at(max(last, self.acknowledged), exists=True)

    def missing(self) -> None:
        """Notes that Redis holds no such stream, which is then filled from the acknowledged offset."""
        self.blocks.clear()
        self._start_at(self.acknowledged, exists=False)

    def is_foreign(self, last: int) -> bool:
        """Whether the stream's last id is none of ours: the spool, which has all that was ever sent, knows no such
        end."""
        return last > self.spool.end or self.spool.boundary_from(last) != last

    def trimmed_to(self, length: int) -> None:
        """Notes the stream's length: the archiver has removed the oldest entries."""
        trimmed = sum(block.count for block in self.blocks) - length
        while self.blocks and trimmed >= self.blocks[0].count:
            trimmed -= self.blocks.popleft().count
        if trimmed > 0:
            self.lost()

    def _start_at(self, offset: int, *, exists: bool) -> None:
        self.shipped, self.exists = self.spool.boundary_from(offset), exists

    def _in_stream(self) -> int:
        """Bytes in the stream not known to be archived."""
        if not self.blocks:
            return 0
        return max(0, self.blocks[-1].end - max(self.blocks[0].start, self.acknowledged))
