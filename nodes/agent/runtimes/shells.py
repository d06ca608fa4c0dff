"""Programs beside a task, for both runtimes: their command and their end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

import psutil
import structlog

from nodes.protocol.sessions import ShellRequest

MARK = "berth-shell"
"""Name of the starting shell, by which such programs are recognized."""
END_WITHIN_S = 1.0
READ = 64 * 1024
_OWN = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
_GIVEN = 'exec "$@"'

log = structlog.get_logger(__name__)


def shell_command(command: Sequence[str]) -> list[str]:
    """The command to execute: the given one, or the best shell there is."""
    return ["/bin/sh", "-c", _GIVEN if command else _OWN, MARK, *command]


def shell_variables(request: ShellRequest) -> dict[str, str]:
    """Variables that the program gets besides the task's own."""
    return {"TERM": request.term} if request.tty else {}


def tree_end(pid: int) -> None:
    """Ends a program with all its descendants: SIGHUP, as when a terminal is lost, and SIGKILL for what remains."""
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        everything = [first, *first.children(recursive=True)]
        for number in (signal.SIGHUP, signal.SIGKILL):
            for one in everything:
                _signal(one, number)
            _, everything = psutil.wait_procs(everything, timeout=END_WITHIN_S)


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:
        log.warning("a shell cannot be ended: the agent may not signal it", pid=process.pid, uid=os.geteuid())
