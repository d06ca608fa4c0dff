"""Preview of an unfinished line, shown until the line ends."""

from __future__ import annotations

from nodes.agent.logs.base import OpenLine
from nodes.agent.logs.masks import Masks, hide
from nodes.protocol.logs import TAIL_BYTES


def provisional(line: OpenLine, masks: Masks) -> bytes:
    """The line's newest part, at most ``TAIL_BYTES``, without secrets and what may be the beginning of one. Of a line
    that was overwritten, a carriage return and what stands behind the last one."""
    shown = bytearray(line.text)
    if masks:
        hide(shown, masks.spans(line.text))
        del shown[masks.open_at(line.text) :]
    first = max(line.new, masks.longest - 1 if masks and line.cut else 0)
    _, written_over, text = bytes(shown[first:]).rstrip(b"\r").rpartition(b"\r")
    return written_over + text[-TAIL_BYTES:]
