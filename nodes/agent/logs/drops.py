"""Dropped lines of a full spool: whole lines are dropped and counted, and a MARK record stands in their place."""

from __future__ import annotations

from dataclasses import dataclass, field

ENDS = 3
"""Bytes kept of the end of an unfinished line."""


@dataclass(slots=True)
class DroppedLines:
    """Accounting of dropped lines; kept in the spool's sidecar, so that a restart forgets none.

    ``total``: lines dropped ever; ``pending``: those without a mark yet; ``active``: the spool is full now; ``away``:
    the portal was away when it became full; ``open``: streams whose newest kept byte is no line end, ``ends``: the last
    bytes of these; ``cut``: streams inside a dropped line.
    """

    total: int = 0
    pending: int = 0
    active: bool = False
    away: bool = True
    open: set[int] = field(default_factory=set)
    ends: dict[int, bytes] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)

    def kept(self, stream: int, payload: bytes) -> None:
        """Notes that ``payload`` went into the spool."""
        if not payload:
            return
        self.cut.discard(stream)
        if payload.endswith(b"\n"):
            self._closed(stream)
        else:
            self.open.add(stream)
            self.ends[stream] = (self.ends.get(stream, b"") + payload)[-ENDS:]

    def dropped(self, stream: int, payload: bytes) -> None:
        """Counts the lines of ``payload``; the rest of a line already dropped counts nothing."""
        if not payload:
            return
        lines = payload.count(b"\n") + (not payload.endswith(b"\n")) - (stream in self.cut)
        self.total += lines
        self.pending += lines
        if payload.endswith(b"\n"):
            self.cut.discard(stream)
        else:
            self.cut.add(stream)
        self._closed(stream)

    def _closed(self, stream: int) -> None:
        self.open.discard(stream)
        self.ends.pop(stream, None)

    def split_full(self, stream: int, payload: bytes) -> tuple[bytes, bytes]:
        """(kept, dropped) of a payload that finds the spool full: only the rest of an unfinished line is kept."""
        return _split_line(payload) if stream in self.open else (b"", payload)

    def split_free(self, stream: int, payload: bytes) -> tuple[bytes, bytes]:
        """(dropped, kept) of a payload once there is room again: the rest of a dropped line is dropped too."""
        if stream not in self.cut:
            return b"", payload
        head, rest = _split_line(payload)
        return (head, rest) if head else (payload, b"")

    def mark(self) -> str:
        """Text of the mark for the pending lines."""
        why = "the portal was away" if self.away else "they came faster than the portal takes them"
        return f"… {self.pending} {'line' if self.pending == 1 else 'lines'} dropped here: {why}\n"


def _split_line(payload: bytes) -> tuple[bytes, bytes]:
    """(up to and with the first line end, the rest); ("", all) without one."""
    cut = payload.find(b"\n") + 1
    return payload[:cut], payload[cut:]
