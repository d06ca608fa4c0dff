"""Order of SIGTERM among a task's processes.

If all got it at once, ``tee`` would be gone before the trainer, whose output while it saves would break the pipe and
end it. So readers of what another process of the task writes get it last.
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
"""Checks in a row that find no writer before a reader gets SIGTERM: it has that time to read the rest."""


class SigtermSequence:
    """Remembers the readers of each task that are still to get SIGTERM. After a restart of the agent there are none:
    they end with their input, or by SIGKILL."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[psutil.Process, int]] = {}

    def begin(self, attempt: str, processes: Sequence[psutil.Process]) -> bool:
        """Signals all but those that read from a pipe into which another process writes. False where there was nothing
        to signal, or a process may not be signalled."""
        read = {process: _input(process.pid) for process in processes}
        written = _written(processes, {pipe for pipe in read.values() if pipe})
        waiting = {process: 0 for process, pipe in read.items() if written.get(pipe, set()) - {process.pid}}
        if waiting:
            self._waiting[attempt] = waiting
        sent = [_send_sigterm(process) for process in processes if process not in waiting]
        return bool(sent) and all(sent)

    def rest(self, attempt: str, processes: Sequence[psutil.Process], *, last: bool) -> bool:
        """Signals readers into whose pipes nobody writes any more. Whether some are left. With ``last``, none is left:
        all are signalled but those whose writer is among them and about to save."""
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
        """Drops what is remembered of a task."""
        self._waiting.pop(attempt, None)


def sigterm_targets(processes: Iterable[psutil.Process], command: int) -> list[psutil.Process]:
    """Processes in the session of a task's ``command``, whatever process group ``timeout`` or job control put them in.
    Not ``timeout`` itself, which signals its whole group at once, and ends with what it runs."""
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
    """The pipe that is a process' standard input; 0 where that is something else."""
    with contextlib.suppress(OSError):
        facts = os.stat(f"/proc/{pid}/fd/0")
        return facts.st_ino if stat.S_ISFIFO(facts.st_mode) else 0
    return 0


def _written(processes: Iterable[psutil.Process], pipes: set[int]) -> dict[int, set[int]]:
    """The processes that can write into each of these pipes."""
    found: dict[int, set[int]] = {}
    for process in processes if pipes else ():
        with contextlib.suppress(OSError):
            for opened in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if opened.lstat().st_mode & stat.S_IWUSR and (pipe := opened.stat().st_ino) in pipes:
                        found.setdefault(pipe, set()).add(process.pid)
    return found
