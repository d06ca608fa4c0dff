"""What a check works with: the GPU, programs on it that end with the check, and taking them off and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodes.agent.hardware.gpus.cuda import CudaState
from tests.gpu_check.cuda import Driver
from tests.gpu_check.failing import fail
from tests.gpu_check.parker import Parker, Told, named
from tests.gpu_check.readings import Gpu

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
SLACK = 64 * MIB
"""Memory of a GPU that is not counted as left over."""

START_S, LOCK_S, SETTLE_S = 60, 10, 5


class Program:
    """A trainer: ``lines`` are what it has printed so far."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid, self.lines, self.restored = self._process.pid, list[str](), False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def losses(self) -> list[str]:
        return [line.split()[2] for line in list(self.lines) if line.startswith("step ")]

    def wait_for(self, what: str, there: Callable[[], Any], limit_s: float = START_S) -> None:
        """Raises Failed when it ends or the time is over before that."""
        end = time.monotonic() + limit_s
        with self._changed:
            while not there():
                if not self._reader.is_alive():
                    fail(f"a program ended before {what}: exit code {self._process.wait()}")
                if time.monotonic() > end:
                    fail(f"a program did not get to {what} within {limit_s:g} s")
                self._changed.wait(0.2)

    def wait_for_line(self, text: str, limit_s: float = START_S) -> str:
        """The line that begins with this text."""
        self.wait_for(f"'{text}'", lambda: any(line.startswith(text) for line in self.lines), limit_s)
        return next(line for line in self.lines if line.startswith(text))

    def wait_for_steps(self, count: int, limit_s: float = START_S) -> None:
        self.wait_for(f"step {count}", lambda: len(self.losses()) >= count, limit_s)

    def goes_on(self) -> None:
        """It makes further steps. Raises Failed."""
        self.wait_for_steps(len(self.losses()) + 2, 20)

    def tell(self) -> None:
        """The line that it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()


class Bench:
    """``deadline``: by time.monotonic(), when the check is killed. ``told`` is called with what was measured so far."""

    def __init__(self, uuid: str, torch_python: str, deadline: float, told: Callable[[dict[str, Any]], None]) -> None:
        self.gpu, self.driver, self.parker, self.deadline = Gpu(uuid), Driver(), Parker(deadline), deadline
        self.torch_python, self.tell = torch_python, told
        self.idle = self.gpu.used()
        self._programs: list[Program] = []

    def start(self, *options: object, command: list[str] | None = None) -> Program:
        """A trainer with these options."""
        begun = command or [sys.executable, "-S", "-m", "tests.gpu_check.trainer"]
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": self.gpu.uuid}
        self._programs.append(Program([*begun, *map(str, options)], env))
        return self._programs[-1]

    def running(self, *options: object) -> Program:
        """A trainer that makes steps."""
        program = self.start("--pace-ms", 20, *options)
        program.wait_for_steps(3)
        return program

    def park(self, program: Program) -> float:
        """Takes it off the GPU; in seconds. Raises Failed, the program unlocked."""
        begun = time.monotonic()
        self.succeed("lock", self.parker.lock(program.pid, LOCK_S), CudaState.LOCKED)
        told = self.parker.checkpoint(program.pid)
        took = time.monotonic() - begun
        if told.state == CudaState.LOCKED:
            self.parker.unlock(program.pid)
        self.succeed("checkpoint", told, CudaState.CHECKPOINTED)
        return took

    def resume(self, program: Program) -> float:
        """Puts it back; in seconds. Raises Failed."""
        begun = time.monotonic()
        self.succeed("restore", self.parker.restore(program.pid), CudaState.LOCKED)
        program.restored = True
        self.succeed("unlock", self.parker.unlock(program.pid), CudaState.RUNNING)
        return time.monotonic() - begun

    def succeed(self, call: str, told: Told, state: CudaState) -> None:
        """Raises Failed for another answer than success, and for another state than this."""
        if told.code:
            fail(f"{call} answered {self.driver.named(told.code)}")
        if told.state != state:
            fail(f"after {call} the process is {named(told.state)}, not {named(state)}")

    def expect_gone(self, program: Program) -> None:
        """Nothing of a process is left on the GPU. Raises Failed."""
        if held := self.gpu.processes().get(program.pid):
            fail(f"the GPU still holds {held // MIB} MiB of the process")
        self.expect_idle()

    def expect_idle(self) -> None:
        """The GPU's memory is as before the check. Raises Failed."""
        end = time.monotonic() + SETTLE_S
        while (left := self.gpu.used() - self.idle) > SLACK:
            if time.monotonic() > end:
                fail(f"{left // MIB} MiB are left on the GPU")
            time.sleep(0.1)

    def end(self, program: Program) -> None:
        """What was restored is parked before it is killed: a driver is known that takes the machine down otherwise."""
        state = self.parker.state(program.pid) if program.restored else None
        if state == CudaState.RUNNING:
            state = self.parker.lock(program.pid, LOCK_S).state
        if state == CudaState.LOCKED:
            self.parker.checkpoint(program.pid)
        program.kill()
        self._programs.remove(program)

    def close(self) -> None:
        """Ends what runs. Raises Failed when the GPU keeps something."""
        while self._programs:
            self.end(self._programs[-1])
        self.expect_idle()
