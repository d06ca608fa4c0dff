"""Xid errors as they happen: the driver reports each once, to whoever waits."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Mapping
from typing import Any

import pynvml
import structlog

from nodes.agent.hardware.gpus.health import USER_XIDS, Xid

WAIT_MS = 250
PAUSE_S, PAUSE_MOST_S = 1.0, 30.0
"""Pause between two tries where the driver's events fail: the first, and the longest; doubled each time."""
CALM_S = 60.0
"""After this long without a failure, the next one counts as new."""

logger = structlog.get_logger(__name__)


class XidWatch:
    """A thread that notes the newest hardware Xid of each GPU; those caused by a user's program are only logged.

    It listens to the GPUs last passed to ``watch``, also to those that come later or come back. Where the driver's
    events fail, it releases them and asks for new ones, less and less often; each reason is logged once. Where the
    driver offers none (older ones, some virtual GPUs), it notes nothing.
    """

    def __init__(self, *, pause_s: float = PAUSE_S, calm_s: float = CALM_S) -> None:
        self._pause_s, self._calm_s = pause_s, calm_s
        self._newest: dict[str, Xid] = {}
        self._handles: Mapping[str, Any] = {}
        self._registered: dict[str, Any] = {}
        self._logged: dict[str, str] = {}
        self._closing, self._stale = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-xids", daemon=True)
        self._thread.start()

    def watch(self, handles: Mapping[str, Any]) -> None:
        """Sets the GPUs that answer now: NVML's handle of each, by UUID."""
        self._handles = dict(handles)

    def renew(self) -> None:
        """Starts over after the driver was reloaded, which has forgotten its subscriptions."""
        self._stale.set()

    def newest(self, uuid: str) -> Xid | None:
        """The newest hardware Xid since the start, None: none."""
        return self._newest.get(uuid)

    def close(self) -> None:
        """Returns when the thread has released the driver, at most a moment after ``WAIT_MS``."""
        self._closing.set()
        self._thread.join(2 * WAIT_MS / 1000)

    def _run(self) -> None:
        pause = self._pause_s
        while not self._closing.is_set():
            self._stale.clear()
            began = time.monotonic()
            try:
                self._listen()
            except pynvml.NVMLError as error:
                if time.monotonic() - began > self._calm_s:
                    pause = self._pause_s
                self._say("", error, "xid_events_failed")
                self._closing.wait(pause)
                pause = min(2 * pause, PAUSE_MOST_S)

    def _listen(self) -> None:
        """Listens until the driver is reloaded, or this is closed. Raises NVMLError where its events cannot be had."""
        self._registered = {}
        events, asked, began = pynvml.nvmlEventSetCreate(), None, time.monotonic()
        try:
            while not (self._closing.is_set() or self._stale.is_set()):
                if asked is not self._handles:
                    asked = self._handles
                    self._register(events, asked)
                if not self._registered:
                    self._closing.wait(WAIT_MS / 1000)
                    continue
                with contextlib.suppress(pynvml.NVMLError_Timeout):
                    self._note(pynvml.nvmlEventSetWait_v2(events, WAIT_MS))
                if self._logged.get("") and time.monotonic() - began > self._calm_s:
                    logger.info("xid_events_again")
                    del self._logged[""]
        finally:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(events)

    def _register(self, events: Any, handles: Mapping[str, Any]) -> None:
        """Registers new GPUs; one that refuses is tried again at the next ``watch``. Raises NVMLError where the event
        set itself is broken."""
        self._registered = {uuid: handle for uuid, handle in self._registered.items() if uuid in handles}
        for uuid, handle in handles.items():
            if uuid in self._registered:
                continue
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError_Unknown:
                raise
            except pynvml.NVMLError as error:
                self._say(uuid, error, "xid_events_unavailable")
            else:
                self._registered[uuid] = handle
                self._logged.pop(uuid, None)

    def _say(self, uuid: str, error: pynvml.NVMLError, event: str) -> None:
        """Logs each reason once; ``uuid`` is empty where it concerns all GPUs."""
        if self._logged.get(uuid) != str(error):
            self._logged[uuid] = str(error)
            logger.warning(event, error=str(error), **({"gpu": uuid} if uuid else {}))

    def _note(self, event: Any) -> None:
        uuid, xid = self._uuid(event.device), int(event.eventData)
        logger.warning("gpu_xid", gpu=uuid, xid=xid, by_user=xid in USER_XIDS)
        if uuid and xid not in USER_XIDS:
            before = self._newest.get(uuid)
            self._newest[uuid] = Xid(xid, before.times + 1 if before else 1)

    def _uuid(self, device: Any) -> str:
        """The UUID as registered: a GPU that fell off the bus with this very error no longer names itself."""
        address = _address(device)
        known = next((uuid for uuid, handle in self._registered.items() if _address(handle) == address), "")
        if not known:
            with contextlib.suppress(pynvml.NVMLError):
                known = pynvml.nvmlDeviceGetUUID(device)
        return known


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
