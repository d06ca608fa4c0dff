"""Why a file of the agent's cannot be written, in one sentence with its cure."""

from __future__ import annotations

import errno
from pathlib import Path

_CURES = {
    errno.ENOSPC: "no room is left on its disk: make room there, or name a folder on another in BERTH_NODE_STATE_DIR",
    errno.EDQUOT: "the quota of this user is used up: raise it, or name another folder in BERTH_NODE_STATE_DIR",
    errno.EROFS: "its disk is read-only: mount it to be written, or name another folder in BERTH_NODE_STATE_DIR",
    errno.EACCES: "this user may not: run it as root, or name a folder of this user in BERTH_NODE_STATE_DIR",
    errno.EPERM: "this user may not: run it as root, or name a folder of this user in BERTH_NODE_STATE_DIR",
}


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def cannot_write(error: OSError, folder: Path) -> str:
    """Of something below the state folder."""
    cure = _CURES.get(error.errno or 0, f"{error.strerror or error}: name another folder in BERTH_NODE_STATE_DIR")
    return f"{error.filename or folder} cannot be written: {cure}."


def is_known(error: OSError) -> bool:
    """Whether there is a cure for it."""
    return error.errno in _CURES
