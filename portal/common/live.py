"""Live events: tells open browsers that something changed. Only a hint: a client that misses one rereads the rows."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from channels.layers import get_channel_layer

GROUP = "events"
MESSAGE = "berth.event"
PATIENCE_S = 0.5

log = logging.getLogger(__name__)


def announce(kind: str, payload: Mapping[str, Any]) -> None:
    """Sends ``payload`` (JSON values) to all listeners who may see it; call it after the commit.

    ``kind`` is ``job`` (payload: ``id``, ``vc`` and ``user``, as ids), ``node`` (``name``) or ``queue``. Never raises:
    one try of at most half a second, then a line in the log.
    """
    announce_all(kind, [payload])


def announce_all(kind: str, payloads: Iterable[Mapping[str, Any]]) -> None:
    """Sends several payloads of one kind in one message."""
    try:
        message = {"type": MESSAGE, "kind": kind, "payloads": [dict(payload) for payload in payloads]}
        asyncio.run_coroutine_threadsafe(_send(message), _loop(os.getpid())).result()
    except Exception as error:  # whatever is wrong with the broker must not undo what was just committed
        log.warning("live events of kind %s not sent: %r", kind, error)


@cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """An event loop in its own thread, which keeps its connection: opening one takes ten times as long as sending. One
    per process: after a fork the thread is gone."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="live", daemon=True).start()
    return loop


async def _send(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await asyncio.wait_for(layer.group_send(GROUP, message), PATIENCE_S)
