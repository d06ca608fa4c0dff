"""Python processes without the start of Python and its imports, which is most of what starting a stack costs: one
process has imported what they begin with, and each of them is a fork of it that becomes the command it was asked for.
Run as `python -m tests.support.services.forks PREPARATION SOCKET`.

It reads one message for each process, {"module", "words", "environment"} with the files for standard input,
output and errors, and answers with its id; {"of": id} is answered with that process's exit status once it has one.
What is measured, and what must come as it comes for people (`make demo`), is started the usual way.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, Any

from tests.support.services.guard import Guard

ROOT = Path(__file__).parents[3]
ENTRIES = {"celery": "celery", "uvicorn": "uvicorn"}
"""Commands of the virtual environment, and the modules that they run."""
LONGEST = 1 << 17
"""Bytes of a message: most of it is an environment."""


class Forks:
    """The tests' side. ``preparation`` names what is imported; ``environment`` is the one it is imported in, and the
    only one that the processes may have, where it is given: settings are read when they are imported."""

    def __init__(self, preparation: str, guard: Guard, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment) if environment is not None else None
        self._log, self._lock = log, Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.support.services.forks", preparation, str(theirs.fileno())]
        with theirs, log.open("ab") as out:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        guard.add("group", self._process.pid)

    def fits(self, environment: Mapping[str, str], folder: Path | None = None) -> bool:
        """Whether a process with this environment in this folder finds what it would have imported itself, and the same
        libraries: the loader asks for their folders only when a program begins."""
        if environment.get("LD_LIBRARY_PATH") != os.environ.get("LD_LIBRARY_PATH"):
            return False
        return folder in (None, ROOT) and (self._environment is None or dict(environment) == self._environment)

    def start(self, command: Sequence[str], environment: Mapping[str, str], files: Sequence[IO[bytes]]) -> Forked:
        """A process of this command in a session of its own. ``files``: its standard input, output and errors."""
        module, words = _module_of(command)
        other = dict(environment) if self._environment is None else None
        asked = {"module": module, "words": words, "environment": other}
        return Forked(self, self._asked(asked, [file.fileno() for file in files]), command)

    def status(self, pid: int) -> int | None:
        """The exit status of a process, as of `subprocess`; None while it runs."""
        found: int | None = self._asked({"of": pid}, [])
        return found

    def close(self) -> None:
        """No more processes; those that there are run on."""
        self._socket.close()
        self._process.wait(20)

    @cached_property
    def _ready(self) -> bytes:
        return self._socket.recv(LONGEST)

    def _asked(self, message: dict[str, Any], files: list[int]) -> Any:
        with self._lock:
            if self._ready:
                socket.send_fds(self._socket, [json.dumps(message).encode()], files)
                if answer := self._socket.recv(LONGEST):
                    return json.loads(answer)
        raise AssertionError(f"the process that others are forks of has ended:\n{self._log.read_text()}")


class Forked:
    """What tests use of `subprocess.Popen`, for a process that is another one's child."""

    def __init__(self, forks: Forks, pid: int, command: Sequence[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks, self._command = forks, command
        self._ended = os.pidfd_open(pid)  # ours alone for as long as nobody has asked for its status

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.status(self.pid)
            if self.returncode is not None:
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self._command, timeout or 0)
        status = self.poll()
        assert status is not None
        return status

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


def _module_of(command: Sequence[str]) -> tuple[str, list[str]]:
    """The module that a command runs, and its arguments."""
    if command[0] != sys.executable:
        return ENTRIES[Path(command[0]).name], list(command[1:])
    if command[1] == "-m":
        return command[2], list(command[3:])
    return command[1].removesuffix(".py"), list(command[2:])


# ---------------------------------------------------------------- the process that others are forks of


def portal_prepared() -> None:
    """What workers begin with, but for their application itself: web processes have none."""
    import django

    django.setup()
    from django.apps import apps

    for name in ("celery.bin.celery", "celery.apps.worker", "kombu.transport.redis", "uvicorn.main"):
        import_module(name)
    for app in apps.get_app_configs():
        if app.name.startswith("portal.") and find_spec(f"{app.name}.tasks"):
            import_module(f"{app.name}.tasks")


def agents_prepared() -> None:
    for name in (
        "nodes.agent.app",
        "nodes.agent.check",
        "nodes.agent.config.join",
        "celery.apps.worker",
        "kombu.transport.redis",
    ):
        import_module(name)


PREPARATIONS = {"portal": portal_prepared, "agents": agents_prepared}


def main() -> None:
    preparation, number = sys.argv[1:]
    PREPARATIONS[preparation]()
    (task,) = os.listdir("/proc/self/task")  # threads are not there in a fork, and what they hold stays held
    assert task == str(os.getpid())
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(number)) as tests:
        tests.send(b"ready")
        asked = forked(tests)
    if asked:
        become(asked)
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)


def forked(tests: socket.socket) -> dict[str, Any] | None:
    """Makes forks for as long as the tests ask for some. Returns in each of them, with what it was asked to be; and
    at the end, with nothing."""
    while True:
        message, files, _, _ = socket.recv_fds(tests, LONGEST, 3)
        if not message:
            return None
        asked = json.loads(message)
        answer = status_of(asked["of"]) if "of" in asked else fork(files)
        if answer == 0 and "of" not in asked:
            return dict(asked)
        tests.send(json.dumps(answer).encode())


def status_of(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def fork(files: list[int]) -> int:
    """0 in the child, which has a session of its own and these files; its id in the parent, once that is so."""
    begun, begins = os.pipe()
    pid = os.fork()
    if pid:
        os.close(begins)
        os.read(begun, 1)
    else:
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.write(begins, b".")
        os.close(begins)
    for file in (begun, *files):
        os.close(file)
    return pid


def become(asked: dict[str, Any]) -> None:
    """The process that was asked for, up to its first line."""
    if asked["environment"] is not None:
        os.environ.clear()
        os.environ.update(asked["environment"])
    sys.argv = [asked["module"], *asked["words"]]


if __name__ == "__main__":
    main()
