"""Tells open browsers that something changed. A hint: who misses one reads the rows again."""

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
    """Sends ``payload`` (JSON values) to everybody who listens and may see it; call it after the commit.

    ``kind`` is ``job`` (payload: ``id``, ``vc`` and ``user``, as ids), ``node`` (``name``) or ``queue``.
    Never raises: one try, at most half a second, then a line in our log.
    """
    announce_all(kind, [payload])


def announce_all(kind: str, payloads: Iterable[Mapping[str, Any]]) -> None:
    """The same for several of one kind, in one message."""
    try:
        message = {"type": MESSAGE, "kind": kind, "payloads": [dict(payload) for payload in payloads]}
        asyncio.run_coroutine_threadsafe(_send(message), _loop(os.getpid())).result()
    except Exception as error:  # whatever is wrong with the broker must not undo what was just committed
        log.warning("live events of kind %s not sent: %r", kind, error)


@cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """A loop in a thread of its own, which keeps its connection: to open one takes ten times as long as to send. One
    for each process: in a forked one the thread is gone."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="live", daemon=True).start()
    return loop


async def _send(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await asyncio.wait_for(layer.group_send(GROUP, message), PATIENCE_S)
