"""Sidecar of a spool's segments: a small file with what the records themselves do not tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from nodes.agent.atomic_file import file_replace
from nodes.agent.logs.base import Position
from nodes.agent.logs.drops import DroppedLines
from nodes.agent.logs.segments import LOST
from nodes.protocol.decoding import decoded
from nodes.protocol.logs import MARK, LogRecord

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Sidecar:
    """State of a spool at byte ``offset``; everything beyond is learned from the records' headers. ``boot`` names the
    machine's boot in which it was written: after another one, bytes may have been lost."""

    boot: str
    offset: int = 0
    position: Position = field(default_factory=Position)
    drops: DroppedLines = field(default_factory=DroppedLines)


def sidecar_read(path: Path) -> Sidecar | None:
    """The sidecar; None when there is none that can be decoded. Raises OSError when it cannot be read now."""
    try:
        return decoded(path.read_bytes(), Sidecar)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno not in LOST:
            raise
        logger.error("the state of a log cannot be read", path=str(path), reason=str(error))
        return None


def sidecar_write(path: Path, sidecar: Sidecar) -> None:
    """Replaces the file atomically."""
    file_replace(path, msgspec.json.encode(sidecar))


def position_after(position: Position, records: Iterable[LogRecord]) -> Position:
    """``position`` moved past ``records``."""
    last, count, taken = position.last_time_ns, position.at_last, dict(position.payload_bytes)
    newest = max(position.newest_ns, last)
    for record in records:
        if record.stream == MARK:
            continue
        count = count + 1 if record.time_ns == last else 1
        last = record.time_ns
        newest = max(newest, last)
        taken[record.stream] = taken.get(record.stream, 0) + len(record.payload)
    return Position(last, count, taken, newest)
