"""Tells open browsers that something changed. A hint: who misses one reads the rows again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

GROUP = "events"
MESSAGE = "berth.event"
PATIENCE_S = 0.5

log = logging.getLogger(__name__)


def announce(kind: str, payload: Mapping[str, Any]) -> None:
    """Sends ``payload`` (JSON values) to everybody who listens and may see it; call it after the commit.

    ``kind`` is ``job`` (payload: ``id``, ``vc`` and ``user``, as ids), ``node`` (``name``) or ``queue``.
    Never raises: one try, at most half a second, then a line in our log.
    """
    announce_all(kind, [payload])


def announce_all(kind: str, payloads: Iterable[Mapping[str, Any]]) -> None:
    """The same for several of one kind, in one message."""
    try:
        async_to_sync(_send)({"type": MESSAGE, "kind": kind, "payloads": [dict(payload) for payload in payloads]})
    except Exception as error:  # whatever is wrong with the broker must not undo what was just committed
        log.warning("live events of kind %s not sent: %r", kind, error)


async def _send(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await asyncio.wait_for(layer.group_send(GROUP, message), PATIENCE_S)
