"""Deletes folders in which users wrote as they liked: as deep and as full as they are, with whatever cannot be deleted.

Every step is taken from a folder that is open, and no link is followed. What is to be emptied is renamed first: a mount
point cannot be, so nothing is entered that is mounted there, be it of the same file system. Folders within it are moved
up beside it before they are emptied, so that however deep they lie two descriptors and no recursion are enough
(``shutil.rmtree`` recurses before Python 3.13, and enters what is mounted). Killed at any moment, the next one goes on
where it was; two at once do no harm.
"""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from nodes.agent.storage.folders import FOLDER

DELETING = ".being-deleted"
"""Behind the name of a folder that is being deleted."""
TIMEOUT_S = 600.0
"""So long the end of a task waits at most for its folder: who still writes there could keep it for ever."""
AGAIN_EVERY_S = 3600.0
_MOVED = re.compile(r"moved-[0-9a-f]{32}")
_THERE = (errno.ENOTEMPTY, errno.EEXIST)

log = structlog.get_logger(__name__)


def folder_remove_or_log(folder: Path) -> None:
    """Takes a folder within one of the agent's own away; nothing happens when there is none. Raises nothing, since a
    task is over whatever it has left behind: the log says what stays, and where ``LeftoverFolders`` finds it."""
    aside = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{DELETING}")
    try:
        folder.rename(aside)  # so that what is half deleted is taken for nothing else
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("a folder cannot be deleted", path=str(folder), why=error.strerror)
    else:
        _delete_or_say(aside)


class LeftoverFolders:
    """Deletes what is left of folders within these: at the agent's start, whose last one may have been killed, and each
    hour, when what stood against it may be gone."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._closed = threading.Event()

    def open(self) -> None:
        threading.Thread(target=self._run, name="leftovers", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def look(self) -> None:
        for folder in self._folders:
            for left in folder.glob(f"*{DELETING}"):
                _delete_or_say(left)

    def _run(self) -> None:
        self.look()
        while not self._closed.wait(AGAIN_EVERY_S):
            self.look()


def folder_delete(above: int, name: str, within_s: float = math.inf) -> str:
    """Deletes the folder ``name`` of the folder ``above``, which is open. Returns why something of it stays, empty once
    it is gone. Raises OSError."""
    try:
        top = os.open(name, FOLDER, dir_fd=above)
    except FileNotFoundError:
        return ""
    try:
        if os.fstat(top).st_dev != os.fstat(above).st_dev:
            return "it lies on another file system"
        until = time.monotonic() + within_s
        while not _gone(above, name):
            sweep = _Sweep(top, until)
            sweep.all()
            if sweep.late:
                return f"it takes longer than {within_s:.0f} s"
            if not sweep.done and not _gone(above, name):
                return sweep.why or "it is written to"
        return ""
    finally:
        os.close(top)


def _delete_or_say(folder: Path) -> None:
    try:
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            why = folder_delete(above, folder.name, TIMEOUT_S)
        finally:
            os.close(above)
    except OSError as error:
        why = str(error.strerror)
    if why:
        log.warning("a folder cannot be deleted whole", path=str(folder), why=why)


def _gone(above: int, name: str) -> bool:
    """Whether the folder is gone, by this at the latest: one that is not empty stays. Raises OSError."""
    try:
        os.rmdir(name, dir_fd=above)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in _THERE:
            return False
        raise
    return True


class _Sweep:
    """One way through the folder, until that time of the monotonic clock. ``done``: names that are gone, or nearer to
    it; ``why`` another one is not; ``late``: it was left before its end."""

    def __init__(self, top: int, until: float) -> None:
        self._top, self._device, self._until = top, os.fstat(top).st_dev, until
        self.done, self.why, self.late = 0, "", False

    def all(self) -> None:
        with os.scandir(self._top) as names:
            for one in names:
                if self._is_late():
                    return
                if one.is_dir(follow_symlinks=False):
                    self._empty(one.name)
                else:
                    self._out_of(self._top, one.name, is_folder=False)

    def _empty(self, name: str) -> None:
        """Deletes the files of a folder, moves its folders up beside it, and deletes it."""
        if not _MOVED.fullmatch(name):
            return self._up(self._top, name)
        try:
            folder = os.open(name, FOLDER, dir_fd=self._top)
        except OSError as error:
            self._note(error)
            return
        try:
            if os.fstat(folder).st_dev != self._device:
                self.why = self.why or "another file system lies in it"
                return
            with os.scandir(folder) as names:
                for one in names:
                    if self._is_late():
                        return
                    self._out_of(folder, one.name, is_folder=one.is_dir(follow_symlinks=False))
        finally:
            os.close(folder)
        self._try(lambda: os.rmdir(name, dir_fd=self._top))

    def _is_late(self) -> bool:
        self.late = self.late or time.monotonic() >= self._until
        return self.late

    def _out_of(self, folder: int, name: str, *, is_folder: bool) -> None:
        if is_folder:
            self._up(folder, name)
        else:
            self._try(lambda: os.unlink(name, dir_fd=folder))

    def _up(self, folder: int, name: str) -> None:
        """Once: whoever renamed while it reads the names could read them for ever."""
        moved = f"moved-{secrets.token_hex(16)}"
        self._try(lambda: os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=self._top))

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            self._note(error)
        else:
            self.done += 1

    def _note(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            self.done += 1  # another process was faster
        else:
            self.why = self.why or str(error.strerror)
