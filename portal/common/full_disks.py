"""Explains which disk is full, and the setting that names it."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from django.conf import settings

LITTLE = 1 << 20
"""Bytes; a disk with less free space is taken for the full one, where the error does not name it."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def disk_full(path: object = None) -> str:
    """One sentence about the disk that holds ``path``; without one, about the portal's first folder without room."""
    folders = [(Path(settings.DATA_DIR), "BERTH_DATA_DIR"), (Path(tempfile.gettempdir()), "TMPDIR")]
    below = [one for one in folders if str(path or "").startswith(str(one[0]))]
    full = [one for one in folders if _free(one[0]) < LITTLE]
    where = [f"with {folder} ({setting})" for folder, setting in below or ([] if path else full)]
    named = where[0] if where else f"with {path}" if path else "that this process writes to"
    return f"The disk {named} is full: make room there, or move it to a larger one."


def _free(folder: Path) -> int:
    """Free bytes; a missing folder is never the full one."""
    return shutil.disk_usage(folder).free if folder.is_dir() else LITTLE
