"""The processes of the embedded stack, run by honcho: when one ends, all end; so they do with the one that began them,
also where that is killed."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import sys
import threading
from io import TextIOBase
from pathlib import Path

from honcho.manager import Manager
from honcho.printer import Printer

PYTHON = Path(sys.executable)
ENDS_WITH_ITS_PARENT = ["setpriv", "--pdeathsig", "TERM"]
"""Before a command line: the kernel ends it when whoever began it is gone."""
PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Honcho's processes ignore SIGTERM."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def commands(*, bind: str, port: int) -> dict[str, list[str]]:
    """Name -> command line of each process; the same that any other installation runs."""
    python = str(PYTHON)
    celery = [python, "-m", "celery", "-A", "portal", "worker", "--pool", "threads", "--loglevel", "INFO"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return {
        "web": [python, "-m", "uvicorn", "portal.asgi:application", "--host", bind, "--port", str(port),
                "--no-access-log", "--no-proxy-headers", "--http", "portal.common.heads:BoundedHeads",
                "--ws-max-size", "65536"],
        "scheduler": [*celery, "-Q", "scheduler", "-n", "scheduler@%h", "-c", "1", "-B", *quiet],
        "reports": [*celery, "-Q", "reports", "-n", "reports@%h", "-c", "2", *quiet],
        # A mail server and a webhook that do not answer hold one each; logs are archived by the others.
        "control": [*celery, "-Q", "control", "-n", "control@%h", "-c", "4", *quiet],
        "agent": [python, "-m", "nodes"],
    }  # fmt: skip


def _end_as_by_sigterm(_signal: int, _frame: object) -> None:
    """Honcho's processes, which inherit this, ignore that signal and see to the end of theirs."""
    os.kill(os.getpid(), signal.SIGTERM)


class Processes:
    """All processes of the stack; their output goes to ``log``."""

    def __init__(self, *, lines: dict[str, list[str]], environment: dict[str, str], log: TextIOBase) -> None:
        self._manager = Manager(Printer(log, colour=False))
        for name, line in lines.items():
            # What the agent makes is for its jobs to read, and says itself for whom it is.
            umask = "umask 022; " if name == "agent" else ""
            self._manager.add_process(
                name, f"{umask}exec {shlex.join([*ENDS_WITH_ITS_PARENT, *line])}", env=environment
            )
        self.ended = threading.Event()

    def run(self) -> int:
        """Start them and stay until all have ended: on Ctrl-C, SIGTERM, ``stop``, when one ends by itself, or when the
        terminal is closed."""
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, _end_as_by_sigterm)
        os.register_at_fork(after_in_child=_end_with_parent)
        try:
            self._manager.loop()
        finally:
            self.ended.set()
        return int(self._manager.returncode or 0)

    def stop(self) -> None:
        """End all of them."""
        self._manager.terminate()
