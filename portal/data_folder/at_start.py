"""At the start of web and workers: no process goes on with a data folder that is not the database's, and each holds its
own against a restore."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from threading import Thread
from typing import Any

from celery import bootsteps
from django.db import DatabaseError, connections

from portal.data_folder.services import FolderApart, data_folder_hold, data_folder_settle

log = logging.getLogger(__name__)

AGAIN_S = 5.0
"""Between two tries while the database does not answer."""
PATIENCE_S = 2.0
"""Of a web process that begins, before it serves."""

Message = MutableMapping[str, Any]
Lifespan = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Coroutine[Any, Any, None]
]


def folder_fault_at_start() -> str:
    """The sentence; empty where the folder is the database's. While the database does not answer the process goes on,
    which serves nothing then, and a thread of its own asks again: it ends the process where it must."""
    try:
        return _asked()
    except (DatabaseError, OSError) as error:
        log.warning("whether the data folder is the database's is not known yet: %s", error)
        Thread(target=_asked_until_answered, name="data-folder", daemon=True).start()
        return ""
    finally:
        connections.close_all()


def _asked() -> str:
    try:
        data_folder_settle()
        data_folder_hold()
    except FolderApart as apart:
        return str(apart)
    return ""


def _asked_until_answered() -> None:
    while True:
        time.sleep(AGAIN_S)
        try:
            fault = _asked()
            break
        except (DatabaseError, OSError):
            continue
        finally:
            connections.close_all()
    _end(fault)


class FolderStep(bootsteps.StartStopStep):
    """Of a worker, before it takes tasks in."""

    def start(self, parent: Any) -> None:
        if fault := folder_fault_at_start():
            sys.exit(f"berth: {fault}")


def folder_first(started: Lifespan) -> Lifespan:
    """ASGI's lifespan of a web process, which serves nothing where its folder is not the database's. For a database
    that does not answer it waits no longer than that: it serves, and ends when it knows."""

    async def first(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        asking = asyncio.create_task(asyncio.to_thread(folder_fault_at_start))
        known, _ = await asyncio.wait({asking}, timeout=PATIENCE_S)
        if not known:
            asking.add_done_callback(lambda told: _end(told.result()))
        elif fault := asking.result():
            await receive()
            await send({"type": "lifespan.startup.failed", "message": f"berth: {fault}"})
            return
        await started(scope, receive, send)

    return first


def _end(fault: str) -> None:
    if fault:
        log.critical("berth: %s", fault)
        os.kill(os.getpid(), signal.SIGTERM)
