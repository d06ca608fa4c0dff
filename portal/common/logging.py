"""Log format of our own processes (structlog): one readable line per entry, never a secret."""

from __future__ import annotations

import re

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

_stamp: list[Processor] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def line_formatter() -> ProcessorFormatter:
    """Formats any logger's entries as one line of time, level, logger and message; a traceback follows. Text from
    servers and people (reasons, names) can neither start a line of its own nor control the reader's terminal."""
    # Plain tracebacks: pretty ones show the values of local variables, and with them secrets.
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
    )
    processors: list[Processor] = [ProcessorFormatter.remove_processors_meta, _on_one_line, renderer, _shown]
    return ProcessorFormatter(processors=processors, foreign_pre_chain=_stamp)


def _on_one_line(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    return {**entry, "event": str(entry["event"]).replace("\n", "\\n")}


def _shown(_logger: WrappedLogger, _method: str, text: EventDict) -> str:
    """Escapes control characters in the rendered entry."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(text))
