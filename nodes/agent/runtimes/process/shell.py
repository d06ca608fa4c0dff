"""Programs beside a task of the ``process`` runtime: as its user, with its variables and limits.

These are read from the task's own process, so that a restarted agent knows them too. The programs are the agent's
children and die with the thread that serves them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nodes.agent.runtimes.base import AttemptFailed, ShellEnded
from nodes.agent.runtimes.process import wrapper
from nodes.agent.runtimes.script import SCRIPT_VARIABLE
from nodes.agent.runtimes.shells import END_WITHIN_S, READ, shell_command, shell_variables, tree_end
from nodes.protocol.logs import STDERR, STDOUT
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause

LOOK_UP_MS = 500
"""How often a silent shell checks whether it and its task still run."""
_LIMITS = {"Max data size": "RLIMIT_DATA", "Max core file size": "RLIMIT_CORE", "Max open files": "RLIMIT_NOFILE"}
_LIMIT = re.compile(r"(?P<name>.+?)\s{2,}(?P<soft>\S+)\s+(?P<hard>[0-9]+)\s.*")
_SIZE = struct.Struct("HHHH")


class ProcessShell:
    """``Shell`` beside the process ``task``; ``folder`` is where it begins, ``runs`` whether the task still does."""

    def __init__(self, request: ShellRequest, *, task: int, folder: Path, runs: Callable[[], bool]) -> None:
        self._runs, self._tty = runs, request.tty
        self._hung_up = False
        self._ends: set[int] = set()
        self._outputs: dict[int, int] = {}
        try:
            beside = _beside(psutil.Process(task), folder, shell_variables(request))
            command = shell_command(request.command)
            self._process = (
                self._on_terminal(command, request, beside) if self._tty else self._on_pipes(command, beside)
            )
        except (OSError, psutil.Error, subprocess.SubprocessError) as error:
            self._close_ends()
            raise AttemptFailed(Cause.ENGINE_FAULT, f"It could not be started: {error}") from error
        self._poll = select.poll()
        for end in self._outputs:
            self._poll.register(end, select.POLLIN)

    def _on_terminal(self, command: list[str], request: ShellRequest, beside: _Beside) -> subprocess.Popen[bytes]:
        ours, theirs = pty.openpty()
        self._ends |= {ours}
        self._input, self._outputs = ours, {ours: STDOUT}
        try:
            self.resize(request.rows, request.columns)
            if beside.owner:
                os.fchown(theirs, beside.owner["user"], beside.owner["group"])
            return beside.start(command, tty=True, stdin=theirs, stdout=theirs, stderr=theirs)
        finally:
            os.close(theirs)

    def _on_pipes(self, command: list[str], beside: _Beside) -> subprocess.Popen[bytes]:
        (stdin, self._input), (output, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._ends |= {self._input, output, errors}
        self._outputs = {output: STDOUT, errors: STDERR}
        try:
            return beside.start(command, tty=False, stdin=stdin, stdout=stdout, stderr=stderr)
        finally:
            for end in (stdin, stdout, stderr):
                os.close(end)

    def read(self) -> tuple[int, bytes] | None:
        while self._outputs and not self._hung_up:
            ready = self._poll.poll(LOOK_UP_MS)
            for end, _ in ready:
                data = _taken(end)
                if data:
                    return self._outputs[end], data
                if data is not None:
                    self._poll.unregister(end)
                    del self._outputs[end]
            if not ready and (self._process.poll() is not None or not self._runs()):
                break
        return None

    def write(self, data: bytes) -> None:
        if self._input not in self._ends:
            raise ShellEnded  # closed: the number is somebody else's by now
        left = memoryview(data)
        waiting = select.poll()
        waiting.register(self._input, select.POLLOUT)
        os.set_blocking(self._input, False)
        while left:
            if self._hung_up:
                raise ShellEnded
            try:
                if waiting.poll(LOOK_UP_MS):
                    left = left[os.write(self._input, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise ShellEnded from error

    def finish(self) -> None:
        if not self._tty and self._input in self._ends:
            self._ends.remove(self._input)
            os.close(self._input)

    def resize(self, rows: int, columns: int) -> None:
        if not self._tty or self._input not in self._ends:
            return
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._input, termios.TIOCSWINSZ, _SIZE.pack(rows, columns, 0, 0))

    def wait(self) -> int | None:
        try:
            code = self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            return None
        return 128 - code if code < 0 else code

    def hang_up(self) -> None:
        self._hung_up = True

    def close(self) -> None:
        if self._process.poll() is None:
            tree_end(self._process.pid)
            self._process.wait()
        self._hung_up = True
        self._close_ends()

    def _close_ends(self) -> None:
        while self._ends:
            os.close(self._ends.pop())


def _taken(end: int) -> bytes | None:
    """What can be read, None where that is nothing now; empty at the end, which a terminal reports as an error."""
    try:
        return os.read(end, READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class _Beside:
    """Start of a program beside a task. ``owner``: user, group and extra groups, where the agent may choose."""

    env: dict[str, str]
    limits: dict[str, int]
    owner: dict[str, Any]
    folder: Path

    def start(self, command: list[str], *, tty: bool, stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        """Raises OSError, SubprocessError."""

        def before() -> None:
            # In the child, between fork and exec: system calls only, whatever other threads were doing.
            if tty:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            wrapper.restrict(self.limits)

        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=before,
            **self.owner,
        )


def _beside(task: psutil.Process, folder: Path, variables: dict[str, str]) -> _Beside:
    """Variables, user and limits of the task's process. Raises psutil.Error, OSError."""
    inherited = {name: value for name, value in task.environ().items() if not name.startswith(SCRIPT_VARIABLE)}
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = {"user": task.uids().real, "group": task.gids().real, "extra_groups": _groups(task.pid)}
    return _Beside(
        env={**inherited, **variables},
        limits=_limits(task.pid),
        owner=owner,
        folder=folder,
    )


def _limits(pid: int) -> dict[str, int]:
    """Hard limits of a process. Asking the kernel for them needs a privilege, reading them here none."""
    found = map(_LIMIT.fullmatch, Path(f"/proc/{pid}/limits").read_text().splitlines())
    return {_LIMITS[one["name"]]: int(one["hard"]) for one in found if one is not None and one["name"] in _LIMITS}


def _groups(pid: int) -> list[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(group) for line in lines if line.startswith("Groups:") for group in line.split()[1:]]
