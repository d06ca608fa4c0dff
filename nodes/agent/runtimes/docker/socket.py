"""The Engine's socket: how long the Engine has run, and whether an agent in a container still reaches it.

Such an agent has the very file that existed when its container started. An Engine that recreates its socket at a
restart (without systemd's ``docker.socket``) is out of its reach for good, also where containers outlive that restart.
Restarted, the agent gets the new file.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import psutil
import structlog

log = structlog.get_logger(__name__)

ENGINE = "dockerd"
_PEER = struct.Struct("3i")
"""Process, user and group at the other end (unix(7), SO_PEERCRED)."""


def socket_is_gone(path: str) -> bool:
    """Whether the socket bound here has no name outside any more; a socket that is merely missing may come back."""
    try:
        return os.stat(path).st_nlink == 0
    except OSError:
        return False


def socket_watch(url: str, *, gone: Callable[[], None], every_s: float = 5.0) -> threading.Thread:
    """Calls ``gone`` once, from a thread of its own, when this Engine's socket is gone."""
    path = urlsplit(url).path

    def run() -> None:
        never = threading.Event()
        while not socket_is_gone(path):
            never.wait(every_s)
        log.warning("the Docker Engine has a new socket, which this container is given by a restart: the agent ends")
        gone()

    thread = threading.Thread(target=run, name="docker-socket", daemon=True)
    thread.start()
    return thread


def engine_age_s(url: str) -> float | None:
    """How long the Engine at this address has run; None where its process cannot be seen, as in a container with its
    own process namespace. Behind systemd's socket it is the youngest Engine of this machine."""
    listening = _listening(urlsplit(url).path)
    ages = {one.pid: _age_s(one) for one in psutil.process_iter(["name", "create_time"]) if one.info["name"] == ENGINE}
    return ages.get(listening, min(ages.values(), default=None))


def _listening(path: str) -> int:
    """The process that made this socket; 0 where it cannot be seen."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            asked = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except OSError:
            return 0
    return int(_PEER.unpack(asked)[0])


def _age_s(process: psutil.Process) -> float:
    """Age of a process, by a clock that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - float(process.info["create_time"] - psutil.boot_time())
