"""Who of a task's processes gets SIGTERM, and when.

Told all at once, ``tee`` is gone before the trainer: what that prints while it saves breaks the pipe, which ends it.
So whoever reads what another process of the task writes is told last.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

_UNWRITTEN = 5
"""Looks in a row that find nobody who writes into it, before a reader is told: it has that time to read the rest."""


class Terms:
    """Remembers of each task who is still to be told. After a restart of the agent nobody is: they end with their
    input, or by SIGKILL."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[psutil.Process, int]] = {}

    def begin(self, attempt: str, processes: Sequence[psutil.Process]) -> bool:
        """Tells all but those that read from a pipe into which another one writes. False where there is none to tell,
        or one that may not be told."""
        read = {process: _input(process.pid) for process in processes}
        written = _written(processes, {pipe for pipe in read.values() if pipe})
        waiting = {process: 0 for process, pipe in read.items() if written.get(pipe, set()) - {process.pid}}
        if waiting:
            self._waiting[attempt] = waiting
        told = [_tell(process) for process in processes if process not in waiting]
        return bool(told) and all(told)

    def rest(self, attempt: str, processes: Sequence[psutil.Process], *, last: bool) -> bool:
        """Tells those into whose pipes nobody writes any more, or all (``last``). Whether some are still to be told."""
        waiting = {one: looks for one, looks in self._waiting.pop(attempt, {}).items() if one.is_running()}
        read = {process: _input(process.pid) for process in waiting}
        written = _written(processes, {pipe for pipe in read.values() if pipe}) if waiting and not last else {}
        left: dict[psutil.Process, int] = {}
        for process, looks in waiting.items():
            looks = 0 if written.get(read[process], set()) - {process.pid} else looks + 1
            if last or looks >= _UNWRITTEN:
                _tell(process)
            else:
                left[process] = looks
        if left:
            self._waiting[attempt] = left
        return bool(left)

    def forget(self, attempt: str) -> None:
        """The task is gone."""
        self._waiting.pop(attempt, None)


def group_of(processes: Iterable[psutil.Process], leader: int) -> list[psutil.Process]:
    """Those in the process group of ``leader``."""
    found = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == leader:
                found.append(process)
    return found


def _tell(process: psutil.Process) -> bool:
    try:
        process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return True


def _input(pid: int) -> int:
    """The pipe that is its standard input; 0 where that is something else."""
    with contextlib.suppress(OSError):
        told = os.stat(f"/proc/{pid}/fd/0")
        return told.st_ino if stat.S_ISFIFO(told.st_mode) else 0
    return 0


def _written(processes: Iterable[psutil.Process], pipes: set[int]) -> dict[int, set[int]]:
    """Of each of these pipes who can write into it."""
    found: dict[int, set[int]] = {}
    for process in processes if pipes else ():
        with contextlib.suppress(OSError):
            for opened in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if opened.lstat().st_mode & stat.S_IWUSR and (pipe := opened.stat().st_ino) in pipes:
                        found.setdefault(pipe, set()).add(process.pid)
    return found
