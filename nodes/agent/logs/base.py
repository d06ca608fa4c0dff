"""Interface between runtimes and the log pipeline, and the status of a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from nodes.protocol.logs import LogRecord
from nodes.protocol.messages import Steps

MAX_PAYLOAD = 64 * 1024
"""Longest payload of one record in bytes; longer ones are split, so that an endless line needs no memory."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a container's output has been taken in; Berth's own MARK records do not count.

    ``last_time_ns``: the last record's time (unix ns, 0: nothing read); ``at_last``: how many records have that very
    time; ``payload_bytes``: bytes taken by stream (STDOUT, STDERR); ``newest_ns``: the greatest of all times, which
    differs from the last one where the clock was set back.
    """

    last_time_ns: int = 0
    at_last: int = 0
    payload_bytes: dict[int, int] = field(default_factory=dict)
    newest_ns: int = 0


@dataclass(frozen=True, slots=True)
class LogStatus:
    """Status of one log for the report. ``end`` is final once ``complete``.

    ``dropped_lines`` counts lines that found the spool full; ``tail``: the container's last output, at most 4 kB;
    ``frozen``: the container is paused until the reader has caught up; ``sent``: Redis has all of it;
    ``steps``: of the training that prints it.
    """

    end: int = 0
    complete: bool = False
    dropped_lines: int = 0
    tail: str = ""
    frozen: bool = False
    sent: bool = False
    steps: Steps | None = None


class OpenLine(NamedTuple):
    """A line that has no end yet, up to ``time_ns``. ``text``: its newest part as it came; ``new``: from where on none
    of it was given as a record; ``cut``: something unknown may stand before it."""

    time_ns: int
    text: bytes
    new: int = 0
    cut: bool = False


class FrameSource(Protocol):
    """Output of one container. A runtime makes one for ``LogPipeline.attach``."""

    def frames(self, after: Position) -> Iterator[LogRecord]:
        """Output after ``after``, in order, once each; blocks while the container lives.

        Returns when the log is read whole. Raises any ``Exception`` when the output cannot be read now: it is called
        again after a moment with a newer position. A source that resumes by time gives records of at most
        ``MAX_PAYLOAD`` bytes, since longer ones are split and each piece counts in ``Position.at_last``.
        """

    def freeze(self) -> None:
        """Pauses every process of the container (docker pause, SIGSTOP). Idempotent."""

    def thaw(self) -> None:
        """Resumes them. Idempotent; also called for a container that was never frozen."""

    def open_lines(self) -> Mapping[int, OpenLine]:
        """Unfinished lines by stream, which ``frames`` keeps back until they end; empty where it keeps none back."""

    def missing(self) -> str:
        """One line about what the log may lack at its end, though it was read whole; empty where it lacks nothing."""

    def close(self) -> None:
        """Makes a blocked ``frames`` end soon, from another thread. The container runs on."""
