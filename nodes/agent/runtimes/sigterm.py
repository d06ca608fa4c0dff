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


class SigtermSequence:
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
        sent = [_send_sigterm(process) for process in processes if process not in waiting]
        return bool(sent) and all(sent)

    def rest(self, attempt: str, processes: Sequence[psutil.Process], *, last: bool) -> bool:
        """Tells those into whose pipes nobody writes any more. Whether some are still to be told. ``last``: nobody is
        afterwards; told are all but those into whose pipes one of these writes, who is about to save."""
        waiting = {one: looks for one, looks in self._waiting.pop(attempt, {}).items() if one.is_running()}
        read = {process: _input(process.pid) for process in waiting}
        written = _written(processes, {pipe for pipe in read.values() if pipe}) if waiting else {}
        writers = {process: written.get(pipe, set()) - {process.pid} for process, pipe in read.items()}
        if last:
            pids = {process.pid for process in waiting}
            first = [process for process in waiting if not writers[process] & pids]
            for process in first or waiting:
                _send_sigterm(process)
            return False
        left: dict[psutil.Process, int] = {}
        for process, looks in waiting.items():
            looks = 0 if writers[process] else looks + 1
            if looks >= _UNWRITTEN:
                _send_sigterm(process)
            else:
                left[process] = looks
        if left:
            self._waiting[attempt] = left
        return bool(left)

    def forget(self, attempt: str) -> None:
        """The task is gone."""
        self._waiting.pop(attempt, None)


def sigterm_targets(processes: Iterable[psutil.Process], command: int) -> list[psutil.Process]:
    """Those in the session of a task's ``command``, whatever group ``timeout`` or a shell with job control has put them
    in. Not ``timeout`` itself, which tells its whole group at once, and ends with what it runs."""
    found = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == os.getsid(command) and not _tells_its_group(process):
                found.append(process)
    return found


def _tells_its_group(process: psutil.Process) -> bool:
    return process.name() == "timeout" and os.getpgid(process.pid) == process.pid


def _send_sigterm(process: psutil.Process) -> bool:
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
        facts = os.stat(f"/proc/{pid}/fd/0")
        return facts.st_ino if stat.S_ISFIFO(facts.st_mode) else 0
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
