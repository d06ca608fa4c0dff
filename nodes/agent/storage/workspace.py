"""The workspace of one task attempt: its code, unpacked whole or not at all, gone with its container."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nodes.agent.runtimes.base import AttemptFailed, CodeFolder
from nodes.agent.storage.delete_tree import folder_remove_or_log
from nodes.protocol import wordings
from nodes.protocol.messages import Code
from nodes.protocol.packed import Bounds, Entry, Kind, PackedInvalid, packed_read
from nodes.protocol.states import Cause
from nodes.protocol.wording import Wording

_FULL = (errno.ENOSPC, errno.EDQUOT)


def workspace_make(archive: IO[bytes], code: Code, target: CodeFolder) -> None:
    """Unpacks the archive into the folder, as its owner's. Unpacked beside it first: what a killed agent began is begun
    anew. Raises ``AttemptFailed``."""
    fresh = _fresh(target.folder)
    folder_remove_or_log(fresh)
    try:
        target.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.mkdir(mode=0o700)  # nobody else may be inside before all is there: no link can appear under our feet
        for entry, data in packed_read(archive, Bounds(unpacked=_tar_bytes(code), entries=code.entries)):
            _put(fresh, entry, data, target)
        _give(fresh, target)
        fresh.chmod(target.mode)
        fresh.rename(target.folder)
    except PackedInvalid as invalid:
        raise AttemptFailed(Cause.CODE_MISSING, wordings.NOT_UNPACKED(why=invalid.reason)) from invalid
    except OSError as error:
        raise disk_failure(wordings.NOT_UNPACKED, error) from error


def workspace_remove(folder: Path) -> None:
    """Deletes the folder, also a half-made one; does nothing when there is none. What cannot be deleted is logged."""
    for made in (folder, _fresh(folder)):
        folder_remove_or_log(made)


def disk_failure(what: Wording, error: OSError) -> AttemptFailed:
    """A failed write as the node's fault."""
    cause = Cause.NO_SPACE if error.errno in _FULL else Cause.ENGINE_FAULT
    return AttemptFailed(cause, what(why=error.strerror or str(error)))


def _tar_bytes(code: Code) -> int:
    """Bytes that the archive may take as a tar: its files with headers, long names and padding."""
    return code.unpacked + (code.entries + 1) * 4096 + (1 << 20)


def _fresh(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.new")


def _put(root: Path, entry: Entry, data: Iterator[bytes], target: CodeFolder) -> None:
    path = root / entry.path
    _folders(root, path if entry.kind is Kind.FOLDER else path.parent, target)
    if entry.kind is Kind.LINK:
        path.symlink_to(entry.target)
        _give(path, target)
    elif entry.kind is Kind.FILE:
        mode = 0o755 if entry.executable else 0o644
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            for piece in data:
                file.write(piece)
        path.chmod(mode)
        _give(path, target)


def _folders(root: Path, path: Path, target: CodeFolder) -> None:
    """Makes the missing folders down to ``path``."""
    if path == root or path.is_dir():
        return
    _folders(root, path.parent, target)
    path.mkdir()
    path.chmod(0o755)
    _give(path, target)


def _give(path: Path, target: CodeFolder) -> None:
    if target.uid is not None and target.gid is not None and os.geteuid() == 0:
        os.chown(path, target.uid, target.gid, follow_symlinks=False)
