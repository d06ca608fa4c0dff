"""Filters what nodes push to the report queue. Any node may push any bytes there, where Kombu and Celery expect a
message of their own: a malformed one would end a worker, and a well-formed one could name other tasks, callbacks and a
queue to return to. So only a report's arguments are taken from it."""

from __future__ import annotations

import base64
import logging
from datetime import datetime
from queue import Empty
from typing import Any

import msgspec
from kombu.transport import redis

from nodes.protocol.decoding import converted
from nodes.protocol.names import REPORTS_QUEUE
from portal.common.wake import celery_message

REPORT_TASKS = "reports."

log = logging.getLogger(__name__)


class _Headers(msgspec.Struct):
    task: str
    expires: datetime | None = None


class _Pushed(msgspec.Struct):
    headers: _Headers
    body: str


_BODY = msgspec.json.Decoder(tuple[tuple[str, ...], dict[str, Any], dict[str, Any] | None])


def report_message(pushed: object) -> dict[str, Any]:
    """A new Celery message with only the task, arguments and expiry of what was pushed. Raises ValueError if it is no
    report."""
    try:
        found = converted(pushed, _Pushed)
        words, _, _ = _BODY.decode(base64.b64decode(found.body))
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if not found.headers.task.startswith(REPORT_TASKS):
        raise ValueError(f"the task {found.headers.task[:100]!r} is none of reports")
    expires = found.headers.expires
    return celery_message(found.headers.task, words, expires.isoformat() if expires else None, REPORTS_QUEUE)


_OF_THE_WAY: tuple[type[BaseException], ...] = (
    Empty,
    *redis.Transport.connection_errors,
    *redis.Transport.channel_errors,
)
"""Errors of the transport, not of a message."""


class LaneChannel(redis.Channel):
    """Drops what is no message at all, and goes on."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # untyped in Kombu
        except _OF_THE_WAY:
            raise
        except Exception as error:  # any parser error: anybody may have pushed these bytes
            log.warning("what lay in a queue is no message, and was dropped: %r", error)
            return True


class LaneTransport(redis.Transport):
    """Kombu's Redis transport for the portal's workers, with reports filtered."""

    Channel = LaneChannel

    def _deliver(self, message: Any, queue: str | None) -> None:
        super()._deliver(report_message(message) if queue == REPORTS_QUEUE else message, queue)
