"""A node that parks programs of a made-up machine: each stands for a container, which a signal stops and continues."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from nodes.agent.attempts.journal import Journal, Record
from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.hardware.gpus.cuda import CudaCall, CudaState, PendingCall
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.agent.runtimes.base import LimitRefused, Status
from nodes.protocol.messages import ContainerReport, ContainerSpec, Order
from nodes.protocol.parking import GpuState, GpuWish
from nodes.protocol.states import ContainerState, Phase
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.supervised_node import SPECS, Node, desired, in_state, order, shown, wait_for
from tests.support.gpu.machine import Machine
from tests.support.gpu.program import HANDLE, Program
from tests.support.run.waiting import wait_until

MIB = 1 << 20
MEMORY_MB = 4000
"""The memory limit of its containers."""
CALLS = {"lock": "Lock", "checkpoint": "Checkpoint", "restore": "Restore", "unlock": "Unlock", "state": "GetState"}


@dataclass
class ParkingRuntime(MemoryRuntime):
    """``limits``: each memory limit that was set; ``stubborn``: none can be;
    ``greedy``: its programs hold more than their first limit."""

    limits: list[int] = field(default_factory=list)
    stubborn: bool = False
    greedy: bool = False

    def freezer(self) -> ParkingRuntime:
        return self

    def sees_processes(self) -> bool:
        return True

    def thaw(self, attempt: str) -> None:
        self._stand_still(attempt, False)

    def freeze(self, attempt: str) -> None:
        self._stand_still(attempt, True)

    def release(self, attempt: str) -> None:
        """Its log pauses nothing here."""

    def set_memory(self, attempt: str, mb: int, *, although_more: bool = False) -> None:
        self._answer()
        if self.stubborn or (self.greedy and mb == MEMORY_MB and not although_more):
            raise LimitRefused("the kernel says no")
        self.limits.append(mb)

    def signal(self, attempt: str, number: int) -> None:
        """Ends the programs with their container."""
        pids = self._pids(attempt)
        super().signal(attempt, number)
        if self.containers[attempt].status is Status.ENDED:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _stand_still(self, attempt: str, paused: bool) -> None:
        self._answer()
        for pid in self._pids(attempt):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)
        self.containers[attempt] = replace(self.containers[attempt], paused=paused)

    def _pids(self, attempt: str) -> list[int]:
        own = self.containers[attempt].container
        return [pid for pid, container in self.processes.items() if container == own]


class MortalJournal(Journal):
    """Ends the thread that writes the record of a step, as a death of the agent would: ``left`` more are written;
    ``written``: it dies after the last of them, not before the next one."""

    def __init__(self, folder: Path, left: int, *, written: bool) -> None:
        super().__init__(folder)
        self._left, self._written = left, written
        self.died = False

    def write(self, record: Record) -> None:
        if self.died:
            raise SystemExit  # which ends a thread without a word
        self._left -= 1
        self.died = self._left < 0
        if not self.died or self._written:
            super().write(record)
        if self.died:
            raise SystemExit


@dataclass(kw_only=True)
class ParkingNode(Node):
    """A node with the machine's GPUs; `begin` starts a task whose program is on the first of them."""

    machine: Machine
    runtime: ParkingRuntime = field(default_factory=ParkingRuntime)
    programs: list[Program] = field(default_factory=list)
    turns: int = 0
    generation: int = 1

    @property
    def spec(self) -> ContainerSpec:
        return replace(SPECS[0], gpus=(self.gpus.inventory()[0].uuid,))

    def program(self, supervisor: Supervisor, *, memory_mb: int = 8) -> Program:
        """One more program of the task, with memory on the GPU."""
        running = shown(supervisor, self.spec.attempt)
        assert running is not None
        program = Program(self.machine).opened()
        self.programs.append(program)
        program("cuMemAlloc", HANDLE, memory_mb * MIB)
        self.runtime.processes[program.pid] = running.container
        return program

    def begin(self, supervisor: Supervisor) -> Program:
        supervisor.take(desired(1, order(self.spec, Phase.RUN)))
        wait_for(supervisor, self.spec, in_state(ContainerState.RUNNING))
        limited = replace(self.runtime.containers[self.spec.attempt], memory_mb=MEMORY_MB)
        self.runtime.containers[self.spec.attempt] = limited
        return self.program(supervisor)

    def order(self, gpu: GpuWish, turn: int, limit_s: int = 2) -> Order:
        return replace(order(self.spec, Phase.RUN), turn=turn, gpu=gpu, park_limit_s=limit_s)

    def turn(self, supervisor: Supervisor, gpu: GpuWish, *, limit_s: int = 2) -> None:
        """Orders it in the next turn."""
        self.turns += 1
        self.generation += 1
        supervisor.take(desired(self.generation, self.order(gpu, self.turns, limit_s)))

    def settled(self, supervisor: Supervisor, *states: GpuState, hurry: bool = True) -> ContainerReport:
        """Its report once it is in one of these states in the newest turn, or has ended. ``hurry``: time passes
        quickly."""

        def found() -> ContainerReport | None:
            report = shown(supervisor, self.spec.attempt)
            assert report is not None, "it is there"
            if report.exit is not None or (report.turn == self.turns and report.gpu in states):
                return report
            if hurry:
                self.clock.ahead_s += 0.25
                supervisor.wake(self.spec.attempt)
            return None

        return wait_until(found, f"{states}", every_s=0.02)

    def rests(self, supervisor: Supervisor) -> GpuState | None:
        """Whether it is on its GPU, or parked, as its newest order wants it."""
        report = shown(supervisor, self.spec.attempt)
        if report is None or report.gpu not in (GpuState.HELD, GpuState.PARKED):
            return None
        record = Journal(self.folder / "attempts").read(self.spec.attempt)
        wanted = record is not None and record.parking.wanted is GpuWish.PARK
        return report.gpu if (report.gpu is GpuState.PARKED) is wanted else None

    def failed(self, supervisor: Supervisor) -> ContainerReport:
        """Its report once it is back on its GPU and says what stood in the way, while time passes quickly."""

        def found() -> ContainerReport | None:
            report = self.settled(supervisor, *GpuState)
            self.clock.ahead_s += 0.5
            supervisor.wake(self.spec.attempt)
            return report if report.gpu is GpuState.HELD and report.fault is not None else None

        return wait_until(found, "the fault", every_s=0.02)

    def on_gpu(self) -> set[int]:
        use = self.gpus.use(self.spec.gpus[0])
        assert use is not None
        return set(use.processes)

    def state(self, program: Program) -> CudaState | None:
        """The program's, as CUDA tells it."""
        answered = Event()
        pending = PendingCall(CudaCall.STATE, program.pid, done=answered.set)
        assert answered.wait(20)
        assert pending.answer is not None
        return pending.answer.state

    def is_running(self, program: Program) -> bool:
        """Whether it computes: it is neither locked nor parked, nor stands still."""
        program.begin("cuCtxSynchronize")
        wait_until(program.answered, "the program's answer")
        program.answer()
        return True


@contextmanager
def parking_node(folder: Path, machine: Machine) -> Iterator[ParkingNode]:
    backend = NvmlBackend()
    node = ParkingNode(folder=folder, gpus=backend, machine=machine)
    try:
        yield node
    finally:
        for program in node.programs:
            program.end()
        backend.close()
