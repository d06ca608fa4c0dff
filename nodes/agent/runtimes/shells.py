"""What both runtimes share of programs beside a task: what is started, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

import psutil
import structlog

from nodes.protocol.sessions import ShellRequest

MARK = "berth-shell"
"""Name of the starting shell, by which such programs are known."""
END_WITHIN_S = 1.0
READ = 64 * 1024
_OWN = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
_GIVEN = 'exec "$@"'

log = structlog.get_logger(__name__)


def shell_command(command: Sequence[str]) -> list[str]:
    """The words to be executed: the given command, or where there is none the best shell there is."""
    return ["/bin/sh", "-c", _GIVEN if command else _OWN, MARK, *command]


def shell_variables(request: ShellRequest) -> dict[str, str]:
    """Variables that the program gets besides the task's own."""
    return {"TERM": request.term} if request.tty else {}


def tree_end(pid: int) -> None:
    """Ends a program with everything below it: SIGHUP, as the loss of a terminal is, and SIGKILL for what stays."""
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
