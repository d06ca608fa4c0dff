"""Why the stack does not start."""

from __future__ import annotations

import errno
from pathlib import Path


class CannotStart(Exception):
    """Something that the operator has given, or a folder, cannot be used; the text is one sentence with its cure."""


def cannot_write(error: OSError, folder: Path, setting: str) -> CannotStart:
    """Why a folder, which the operator names by ``setting``, cannot be written."""
    place = error.filename or folder
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CannotStart(f"{place}: no room is left on its disk; make room there, or name another by {setting}.")
    if error.errno == errno.EROFS:
        return CannotStart(f"{place}: its disk is read-only; mount it to be written, or name another by {setting}.")
    return CannotStart(
        f"{place}: {error.strerror}; {setting} must be a folder of the user 10001: run  chown -R 10001:10001  on it."
    )
