"""What may come in by a queue. Every node may push to the queue of reports, and what it pushes are bytes of its making
where Kombu and Celery expect a message of their own: by one that is none a worker would end, and one that is could name
other tasks, callbacks, and the queue to which it goes back. So of what lies there only a report's words are taken.
"""

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
    """A Celery message of the portal's own making with the task, its words and its expiry, and nothing else of what was
    pushed. Raises ValueError for what is no report."""
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
"""What is no fault of a message."""


class LaneChannel(redis.Channel):
    """Goes on after what is no message at all."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # not told by Kombu's types
        except _OF_THE_WAY:
            raise
        except Exception as error:  # whatever a parser says of bytes that anybody may have pushed
            log.warning("what lay in a queue is no message, and was dropped: %r", error)
            return True


class LaneTransport(redis.Transport):
    """Kombu's own, as the portal's workers use it."""

    Channel = LaneChannel

    def _deliver(self, message: Any, queue: str | None) -> None:
        super()._deliver(report_message(message) if queue == REPORTS_QUEUE else message, queue)
