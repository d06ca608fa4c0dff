"""One readable line per log entry of our own processes (structlog); never a secret."""

from __future__ import annotations

import structlog
from structlog.typing import EventDict, WrappedLogger

_stamper = structlog.processors.TimeStamper(fmt="iso", utc=True)
_renderer = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)


def stamp(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """Adds time, level and logger name."""
    event = structlog.stdlib.add_log_level(logger, name, event)
    return _stamper(logger, name, structlog.stdlib.add_logger_name(logger, name, event))


def drop_meta(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """Removes what structlog keeps for itself."""
    return structlog.stdlib.ProcessorFormatter.remove_processors_meta(logger, name, event)


def render(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """The line."""
    return str(_renderer(logger, name, event))
