"""Deletes folders in which users wrote as they liked, however deep and full they are.

Every step is taken from an open folder, and no link is followed. What is to be emptied is renamed first: a mount point
cannot be renamed, so nothing mounted is entered, even of the same file system. Folders inside are moved up beside it
before they are emptied, so that two descriptors and no recursion are enough at any depth (``shutil.rmtree`` recurses
before Python 3.13, and enters what is mounted). Killed at any moment, the next one continues; two at once do no harm.
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
"""Suffix of a folder that is being deleted."""
TIMEOUT_S = 600.0
"""How long the end of a task waits for its folder: whoever still writes there could keep it for ever."""
AGAIN_EVERY_S = 3600.0
_MOVED = re.compile(r"moved-[0-9a-f]{32}")
_THERE = (errno.ENOTEMPTY, errno.EEXIST)

log = structlog.get_logger(__name__)


def folder_remove_or_log(folder: Path) -> None:
    """Deletes a folder within one of the agent's own; does nothing when there is none. Raises nothing, since a task is
    over whatever it left behind: the log says what stays, and where ``LeftoverFolders`` finds it."""
    renamed = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{DELETING}")
    try:
        folder.rename(renamed)  # so that what is half deleted is taken for nothing else
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("a folder cannot be deleted", path=str(folder), why=error.strerror)
    else:
        _delete_or_log(renamed)


class LeftoverFolders:
    """Deletes leftovers within these folders: at the agent's start, for its previous run may have been killed, and each
    hour, when what prevented it may be gone."""

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
                _delete_or_log(left)

    def _run(self) -> None:
        self.look()
        while not self._closed.wait(AGAIN_EVERY_S):
            self.look()


def folder_delete(above: int, name: str, within_s: float = math.inf) -> str:
    """Deletes the folder ``name`` of the open folder ``above``. Returns why something of it stays, empty once it is
    gone. Raises OSError."""
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


def _delete_or_log(folder: Path) -> None:
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
    """Removes the folder if it is empty; whether it is gone. Raises OSError."""
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
    """One pass through the folder, until that time of the monotonic clock. ``done``: names that are gone or moved;
    ``why`` another one is not; ``late``: the pass ran out of time."""

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
        """Moves a folder up, once: whoever renamed while it reads the names could read them for ever."""
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
