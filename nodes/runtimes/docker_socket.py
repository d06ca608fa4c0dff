"""The Engine's socket as an agent in a container has it: the very file that was there when the container started.

An Engine that makes its socket anew at its own restart (without systemd's ``docker.socket``) is out of reach for such a
container for good, also where containers outlive that restart. Started once more, it gets the new file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog

log = structlog.get_logger(__name__)


def socket_is_gone(path: str) -> bool:
    """Whether what is bound here has no name any more outside; a socket that is just not there may come back."""
    try:
        return os.stat(path).st_nlink == 0
    except OSError:
        return False


def socket_watch(url: str, *, gone: Callable[[], None], every_s: float = 5.0) -> threading.Thread:
    """Calls ``gone`` once, from a thread of its own, when the socket of this Engine's address has gone."""
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
