"""Xid errors as they happen: the driver tells them once, to whoever waits."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pynvml
import structlog

from nodes.gpus.health import USER_XIDS, Xid

WAIT_MS = 250

logger = structlog.get_logger(__name__)


class XidWatch:
    """A thread that notes the newest hardware Xid of each GPU; what a user's program causes is logged only.

    Where the driver offers no events (older ones, some virtual GPUs), it notes nothing.
    """

    def __init__(self, handles: Iterable[Any]) -> None:
        self._newest: dict[str, Xid] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            events = pynvml.nvmlEventSetCreate()
            for handle in handles:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        except pynvml.NVMLError as error:
            logger.warning("xid_events_unavailable", error=str(error))
            return
        self._thread = threading.Thread(target=self._run, args=(events,), name="gpu-xids", daemon=True)
        self._thread.start()

    def newest(self, uuid: str) -> Xid | None:
        """The newest hardware Xid since the start, None: none."""
        return self._newest.get(uuid)

    def close(self) -> None:
        """Returns when the thread has let the driver go, at most a moment after ``WAIT_MS``."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(2 * WAIT_MS / 1000)

    def _run(self, events: Any) -> None:
        while not self._closing.is_set():
            try:
                event = pynvml.nvmlEventSetWait_v2(events, WAIT_MS)
                self._note(event.device, int(event.eventData))
            except pynvml.NVMLError_Timeout:
                continue
            except pynvml.NVMLError as error:
                logger.warning("xid_events_failed", error=str(error))
                self._closing.wait(WAIT_MS / 1000)
        pynvml.nvmlEventSetFree(events)

    def _note(self, handle: Any, xid: int) -> None:
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        logger.warning("gpu_xid", gpu=uuid, xid=xid, by_user=xid in USER_XIDS)
        if xid not in USER_XIDS:
            before = self._newest.get(uuid)
            self._newest[uuid] = Xid(xid, before.times + 1 if before else 1)
