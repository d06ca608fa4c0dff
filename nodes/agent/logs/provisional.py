"""What is shown of a line that has no end yet, until it has one."""

from __future__ import annotations

from nodes.agent.logs.base import OpenLine
from nodes.agent.logs.masks import Masks, hide
from nodes.protocol.logs import TAIL_BYTES


def provisional(line: OpenLine, masks: Masks) -> bytes:
    """The line's newest part, at most so many bytes, without secrets and without what may be the beginning of one.
    Where the line was written over, a carriage return and what stands behind the last one."""
    shown = bytearray(line.text)
    if masks:
        hide(shown, masks.spans(line.text))
        del shown[masks.open_at(line.text) :]
    first = max(line.new, masks.longest - 1 if masks and line.cut else 0)
    _, written_over, text = bytes(shown[first:]).rstrip(b"\r").rpartition(b"\r")
    return written_over + text[-TAIL_BYTES:]
