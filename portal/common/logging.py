"""One readable line per log entry of our own processes (structlog); never a secret."""

from __future__ import annotations

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

_stamp: list[Processor] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def line_formatter() -> ProcessorFormatter:
    """Time, level, logger's name and message of any logger's entries, on one line."""
    # Plain tracebacks: pretty ones show the values of local variables, and with them secrets.
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
    )
    processors: list[Processor] = [ProcessorFormatter.remove_processors_meta, renderer]
    return ProcessorFormatter(processors=processors, foreign_pre_chain=_stamp)
