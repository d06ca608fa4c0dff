"""Write errors of the agent's files, as one sentence with the cure."""

from __future__ import annotations

import errno
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

from nodes.agent.log_throttle import LogThrottle

_CURES = {
    errno.ENOSPC: "no room is left on its disk: make room there, or name a folder on another in BERTH_NODE_STATE_DIR",
    errno.EDQUOT: "the quota of this user is used up: raise it, or name another folder in BERTH_NODE_STATE_DIR",
    errno.EROFS: "its disk is read-only: mount it to be written, or name another folder in BERTH_NODE_STATE_DIR",
    errno.EACCES: "this user may not: run it as root, or name a folder of this user in BERTH_NODE_STATE_DIR",
    errno.EPERM: "this user may not: run it as root, or name a folder of this user in BERTH_NODE_STATE_DIR",
}


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def cannot_write(error: OSError, folder: Path) -> str:
    """The sentence for a file below the state folder."""
    cure = _CURES.get(error.errno or 0, f"{error.strerror or error}: name another folder in BERTH_NODE_STATE_DIR")
    return f"{error.filename or folder} cannot be written: {cure}."


def is_known(error: OSError) -> bool:
    """Whether there is a cure for the error."""
    return error.errno in _CURES


class NoRoomOnce:
    """structlog processor: failures from a full disk are logged once, and again after a while, instead of a traceback
    for each of the many retries."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._throttle = folder, LogThrottle()

    def __call__(self, logger: object, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = sys.exception() if entry.get("exc_info") is True else None
        if not (isinstance(error, OSError) and error.errno in NO_ROOM):
            return entry
        if not self._throttle.new(why := cannot_write(error, self._folder)):
            raise structlog.DropEvent
        del entry["exc_info"]
        entry["reason"] = why
        return entry
