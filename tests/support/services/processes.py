"""Real processes of a test run: started with a log file, ended with the run."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

from tests.support.run.waiting import wait_until
from tests.support.services.forks import Forked, Forks
from tests.support.services.guard import Guard


def free_port() -> int:
    """A loopback TCP port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def finished(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, forks: Forks | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that has run to its end, with what it wrote. One of `forks` where it is given and fits."""
    with TemporaryFile() as nothing, TemporaryFile() as out, TemporaryFile() as errors:
        if forks and forks.fits(env, cwd):
            status = forks.start(command, env, (nothing, out, errors)).wait()
        else:
            status = subprocess.call(command, stdin=nothing, stdout=out, stderr=errors, env=env, cwd=cwd)
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(command, status, out.read().decode(), errors.read().decode())


class Process:
    """A process in a group of its own. `log` collects what it prints, over all its starts. One of `forks` where it is
    given and fits."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        guard: Guard,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        forks: Forks | None = None,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self.env = dict(env) if env is not None else None
        self.cwd = cwd
        self.forks = forks
        self._guard = guard
        self._popen: subprocess.Popen[bytes] | Forked | None = None
        self._swept = False
        """Whether what it left in its group is ended too."""

    @property
    def pid(self) -> int:
        assert self._popen, f"{self.name} was never started"
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def start(self, **more_env: str) -> None:
        """Start it; `more_env` is added to its environment for this start only."""
        assert not self.is_running(), f"{self.name} runs already"
        env = {**(os.environ if self.env is None else self.env), **more_env}
        with self.log.open("ab") as out, Path(os.devnull).open("rb") as nothing:
            if self.forks and self.forks.fits(env, self.cwd):
                self._popen = self.forks.start(self.command, env, (nothing, out, out))
            else:
                self._popen = subprocess.Popen(
                    self.command, stdin=nothing, stdout=out, stderr=out, env=env, cwd=self.cwd, start_new_session=True
                )
        self._swept = False
        self._guard.add("group", self._popen.pid)

    def kill(self) -> None:
        """SIGKILL to it and all its children, and wait until it is gone."""
        if self.is_running():
            os.killpg(self.pid, signal.SIGKILL)
        if self._popen:
            self._gone()

    def stop(self, deadline_s: float = 20.0) -> int:
        """SIGTERM, then wait for its own end. Returns the exit status."""
        assert self._popen, f"{self.name} was never started"
        with contextlib.suppress(ProcessLookupError):
            self._popen.terminate()
        try:
            self._popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop within {deadline_s:g} s:\n{self.tail()}") from None
        return self._gone()

    def wait_exit(self, deadline_s: float = 30.0) -> int:
        """Wait until it ends by itself (a fail-point, a one-shot command). Returns the exit status."""
        wait_until(lambda: not self.is_running(), f"{self.name} to end", deadline_s=deadline_s)
        return self._gone()

    def suspend(self) -> None:
        """SIGSTOP: it stands still and keeps its sockets, as a process that hangs."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return ""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(f"[{self.name}] {line}" for line in text[-lines:])

    def _gone(self) -> int:
        assert self._popen
        status = self._popen.wait()
        if not self._swept:
            # At once and never again: soon the number is another process's.
            self._swept = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._guard.forget("group", self._popen.pid)
        return status
