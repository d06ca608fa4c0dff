"""A GPU is free again when the last process that held it is gone: what is left of an ended task on its GPUs is waited
for, until it is told of as a process that no job started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGKILL

import pynvml
import pytest

from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.hardware.gpus.foreign import ForeignWatch
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.agent.runtimes.base import RuntimeContainer
from nodes.protocol.messages import ContainerReport, ContainerSpec
from nodes.protocol.names import FOREIGN_PROCESS
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.supervised_node import (
    GPUS_WAITED_S,
    SPECS,
    Node,
    desired,
    in_state,
    order,
    shown,
    soon,
    wait_for,
)
from tests.support.gpu.machine import Machine
from tests.support.run.waiting import wait_until
from tests.unit.nodes.hardware.conftest import machine as machine
from tests.unit.nodes.hardware.conftest import made_machine as made_machine

TRAINER = 4711
ENDED = in_state(ContainerState.TERMINATED)


class Looks(MemoryRuntime):
    """Counts how often a container is looked at."""

    number = 0

    def find(self, attempt: str) -> RuntimeContainer | None:
        self.number += 1
        return super().find(attempt)


@dataclass(kw_only=True)
class Held(Node):
    """A node of two GPUs, both given to one task, whose program is on the first of them."""

    machine: Machine
    runtime: Looks = field(default_factory=Looks)

    @property
    def spec(self) -> ContainerSpec:
        return replace(SPECS[0], gpus=tuple(gpu.uuid for gpu in self.gpus.inventory()))

    def begin(self, supervisor: Supervisor) -> None:
        supervisor.take(desired(1, order(self.spec, Phase.RUN)))
        running = wait_for(supervisor, self.spec, in_state(ContainerState.RUNNING))
        self.runtime.processes[TRAINER] = running.container
        self.machine.run_process(0, TRAINER, 4000)

    def end(self, supervisor: Supervisor) -> ContainerReport:
        """Its container ends; what it says first."""
        self.runtime.end(self.spec.attempt, 0)
        supervisor.wake(self.spec.attempt)
        return wait_for(supervisor, self.spec, ENDED)

    def looked_at(self, supervisor: Supervisor) -> ContainerReport:
        """What it says once all that was done before has been seen."""
        enough = self.runtime.number + 2

        def seen() -> bool:
            supervisor.wake(self.spec.attempt)
            return self.runtime.number > enough

        wait_until(seen, "two more looks", every_s=0.02)
        told = shown(supervisor, self.spec.attempt)
        assert told is not None, "it is not removed"
        return told

    def all_gone(self) -> None:
        self.machine.gpu(0).nproc = 0


@pytest.fixture
def node(tmp_path: Path, machine: Machine) -> Iterator[Held]:
    backend = NvmlBackend()
    yield Held(folder=tmp_path, gpus=backend, machine=machine)
    backend.close()


def is_free(report: ContainerReport) -> bool:
    return report.gpus == ()


def test_an_ordinary_end_is_told_without_gpus_at_once(node: Held) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.all_gone()
        assert is_free(node.end(supervisor))


def test_the_end_is_told_at_once_and_the_gpus_are_held_until_the_last_process_is_gone(node: Held) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        ended = node.end(supervisor)
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.code, ended.gpus) == (Cause.EXITED, 0, node.spec.gpus)
        node.all_gone()
        assert soon(supervisor, node.spec, is_free).exit == ended.exit


def test_processes_of_others_hold_nothing_for_it(node: Held) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.all_gone()
        node.machine.run_process(0, TRAINER + 1, 10)
        assert is_free(node.end(supervisor))


def test_a_driver_that_cannot_list_processes_holds_nothing(node: Held) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.machine.fail("nvmlDeviceGetComputeRunningProcesses_v3", pynvml.NVML_ERROR_NOT_SUPPORTED)
        assert is_free(node.end(supervisor))


def test_neither_a_restart_of_the_agent_nor_the_order_to_remove_it_lets_its_gpus_go(node: Held) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.end(supervisor)
    with node.life() as supervisor:
        supervisor.take(desired(2, order(node.spec, Phase.REMOVE)))
        wait_for(supervisor, node.spec, lambda report: report.generation == 2 and report.log_complete)
        assert node.looked_at(supervisor).gpus == node.spec.gpus
        node.all_gone()
        supervisor.wake(node.spec.attempt)
        wait_until(lambda: shown(supervisor, node.spec.attempt) is None, "its removal")


def test_another_task_is_not_started_on_a_gpu_that_is_held_so(node: Held) -> None:
    other = replace(SPECS[1], gpus=node.spec.gpus[:1])
    with node.life() as supervisor:
        node.begin(supervisor)
        node.end(supervisor)
        supervisor.take(desired(2, order(node.spec, Phase.RUN), order(other, Phase.RUN)))
        refused = wait_for(supervisor, other, ENDED)
        assert refused.exit is not None
        assert refused.exit.cause is Cause.DEVICE_FAULT


@pytest.mark.parametrize("phase", [Phase.RUN, Phase.REMOVE])
def test_nothing_is_held_for_ever_and_what_is_let_go_so_is_told_of_as_foreign_by_then(node: Held, phase: Phase) -> None:
    watch = ForeignWatch(after_s=30)
    with node.life() as supervisor:
        node.begin(supervisor)
        watch.note(node.gpus.sample(node.runtime.owner), node.clock.monotonic())
        node.end(supervisor)
        supervisor.take(desired(2, order(node.spec, phase)))
        for seconds in range(0, GPUS_WAITED_S, 5):  # as an agent looks at its GPUs
            node.clock.ahead_s = seconds
            watch.note(node.gpus.sample(node.runtime.owner), node.clock.monotonic())
            assert node.looked_at(supervisor).gpus == node.spec.gpus
        first, second = watch.mark(node.gpus.inventory())
        assert (first.fault.startswith(f"{FOREIGN_PROCESS}{TRAINER}"), second.healthy) == (True, True)
        node.clock.ahead_s = GPUS_WAITED_S
        supervisor.wake(node.spec.attempt)

        def let_go() -> bool:
            told = shown(supervisor, node.spec.attempt)
            return told is None or is_free(told)

        wait_until(let_go, "its GPUs to be free")


def test_what_a_container_that_could_not_be_killed_leaves_behind_is_waited_for_as_well(node: Held) -> None:
    node.runtime.obeys = lambda number: False
    with node.life() as supervisor:
        node.begin(supervisor)
        supervisor.take(desired(2, order(node.spec, Phase.STOP)))
        wait_until(lambda: SIGKILL in node.runtime.signals, "SIGKILL")
        node.clock.ahead_s = 121
        assert soon(supervisor, node.spec, ENDED).gpus == node.spec.gpus
        node.runtime.end(node.spec.attempt, 137)
        supervisor.take(desired(3, order(node.spec, Phase.REMOVE)))
        assert node.looked_at(supervisor).gpus == node.spec.gpus
        node.all_gone()
        supervisor.wake(node.spec.attempt)
        wait_until(lambda: shown(supervisor, node.spec.attempt) is None, "its removal")
