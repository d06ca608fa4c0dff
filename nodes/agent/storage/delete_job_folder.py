"""Deletes a job folder for good, in a process of its own, since touching a dead file server hangs.

``python -m nodes.agent.storage.delete_job_folder`` takes a ``Removal`` as JSON from standard input. Killed at any
moment, it continues when it is asked again; two at once, on two servers too, do no harm. See
``docs/decisions/job-folders.md``.

The folder belongs to a hostile user. Every step is taken from an open folder, and no link is followed; how it is
emptied: ``nodes/agent/storage/delete_tree.py``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from nodes.agent.config.policy import Policy
from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.delete_tree import DELETING, folder_delete
from nodes.agent.storage.folders import FOLDER, FolderGone, lease_at, mount_open
from nodes.protocol.decoding import decoded
from nodes.protocol.messages import Mount

LONGEST = 200
"""Characters of a name to which the suffix is added."""
MARK = ".berth"
"""The folder of leases, which each job's folder has before its first container is made."""
KEPT = 3
"""Exit status when the folder is kept; standard output says why."""
_JOB = re.compile(r".+-[1-9][0-9]*", re.DOTALL)


class FolderKept(Exception):
    """The folder is not deleted, or not all of it. Its text is one sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A deletion request. ``mount``: the job's folder as its source; ``roots``: the mount roots of the server's policy;
    ``unwritten_s``: how long ago the folder's leases must have been written; ``still_s``: how long they must not change
    from now on."""

    mount: Mount
    roots: tuple[str, ...]
    still_s: float
    unwritten_s: float


def folder_remove(removal: Removal, sleep: Callable[[float], object] = time.sleep) -> None:
    """Deletes the folder; returns once it is gone. Raises FolderKept."""
    mount, name = removal.mount, _name(removal)
    above = replace(mount, source=str(PurePosixPath(mount.source).parent), create=False)
    try:
        with mount_open(above, uid=0, gid=0) as user:
            _finish(user, name, mount)  # what an earlier process had begun
            if _may_go(user, name, removal, sleep):
                with suppress(FileNotFoundError):  # another process was faster
                    os.rename(name, deleting_name(name), src_dir_fd=user, dst_dir_fd=user)
                _finish(user, name, mount)
    except FolderGone:
        return
    except AttemptFailed as failed:
        raise FolderKept(f"{failed.message[:1].upper()}{failed.message[1:]}.") from failed
    except OSError as error:
        raise FolderKept(f"{mount.source} cannot be deleted: {error.strerror}.") from error


def deleting_name(name: str) -> str:
    """Name of the folder while it is being deleted: no job's folder ends so, for its run number stands last."""
    return (name if len(name) <= LONGEST else hashlib.sha256(name.encode()).hexdigest()) + DELETING


def _name(removal: Removal) -> str:
    """The folder's name, once its path is one that Berth makes below a root that this server allows."""
    mount = removal.mount
    if not Policy(mount_roots=removal.roots).allows_root(mount.root):
        raise FolderKept(f"The node's policy does not allow files from {mount.root}.")
    path, root = PurePosixPath(mount.source), PurePosixPath(mount.root)
    steps = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if len(steps) != 2 or ".." in path.parts or str(path) != mount.source or not _JOB.fullmatch(steps[1]):
        raise FolderKept(f"{mount.source} is no job's folder of the storage {mount.storage}.")
    return steps[1]


def _may_go(user: int, name: str, removal: Removal, sleep: Callable[[float], object]) -> bool:
    """Whether there is something to delete: the folder is there, has the mark of a job's folder, and nobody writes its
    leases any more. Raises FolderKept, OSError."""
    source = removal.mount.source
    try:
        folder = os.open(name, FOLDER, dir_fd=user)
    except FileNotFoundError:
        return False
    try:
        before = _leases(folder)
        if before is None:
            return _is_begun(user, name, source)
        if time.time() - before.newest < removal.unwritten_s:
            written = time.strftime("%Y-%m-%d %H:%M", time.gmtime(before.newest))
            raise FolderKept(f"A lease in {source} was written at {written} UTC, which is not long enough ago.")
        sleep(removal.still_s)
        if _leases(folder) != before and _is_there(user, name):  # else another process is deleting it
            raise FolderKept(f"{source} is still written to: a lease in it changed within {removal.still_s:.0f} s.")
    finally:
        os.close(folder)
    return True


def _is_there(user: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=user, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_begun(user: int, name: str, source: str) -> bool:
    """Deletes a folder without the mark where it is empty; whether another process is deleting it. Raises
    FolderKept."""
    try:
        os.rmdir(name, dir_fd=user)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise FolderKept(f"{source} has no folder {MARK}, as each job's folder has, and is left alone.") from error
    return False


class _Leases(NamedTuple):
    """Content of a folder's leases as one number, and when the newest was written, in unix seconds."""

    content: int
    newest: float


def _leases(folder: int) -> _Leases | None:
    """Leases in the folder; None without the mark. Raises OSError."""
    try:
        mark = os.open(MARK, FOLDER, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    try:
        content, newest = 0, os.fstat(mark).st_mtime
        with os.scandir(mark) as names:
            for one in names:
                lease = lease_at(mark, one.name)
                content ^= hash((one.name, lease))
                newest = max(newest, lease[0] / 10**9) if lease else newest
        return _Leases(content, newest)
    finally:
        os.close(mark)


def _finish(user: int, name: str, mount: Mount) -> None:
    """Deletes what was renamed for deletion; returns where there is nothing. Raises FolderKept, OSError."""
    why = folder_delete(user, deleting_name(name))
    if why:
        raise FolderKept(f"{PurePosixPath(mount.source).parent}/{deleting_name(name)} cannot be deleted whole: {why}.")


def main() -> int:
    removal = decoded(sys.stdin.buffer.read(), Removal)
    try:
        folder_remove(removal)
    except FolderKept as kept:
        sys.stdout.write(str(kept))
        return KEPT
    return 0


if __name__ == "__main__":
    sys.exit(main())
