"""A task is taken off its GPU and put back, whatever CUDA answers: in the end it is on its GPU and runs, is parked, or
has ended by its node's fault; and nothing stays locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from nodes.agent.attempts.journal import Journal
from nodes.protocol.messages import ContainerReport
from nodes.protocol.parking import GpuState, GpuWish, ParkFault
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.parking_node import CALLS, MEMORY_MB, MIB, MortalJournal, ParkingNode, parking_node
from tests.support.cluster.supervised_node import NOW, SPECS, desired, in_state, order, wait_for
from tests.support.gpu.conftest import machine as machine
from tests.support.gpu.machine import ALWAYS, BREAKS, CRASHES, HANGS, Machine
from tests.support.gpu.program import HANDLE
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.root

HELD, PARKED, LOST = GpuState.HELD, GpuState.PARKED, GpuState.LOST
PARK, HOLD = GpuWish.PARK, GpuWish.HOLD


@pytest.fixture
def node(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[ParkingNode]:
    monkeypatch.setenv("LD_LIBRARY_PATH", machine.env["LD_LIBRARY_PATH"])
    with parking_node(tmp_path / "node", machine) as made:
        yield made


def fault_of(report: ContainerReport) -> str:
    return report.fault.code if report.fault else ""


def test_it_leaves_its_gpu_and_comes_back_and_its_memory_limit_with_it(node: ParkingNode) -> None:
    with node.life() as supervisor:
        program = node.begin(supervisor)
        node.turn(supervisor, PARK)
        parked = node.settled(supervisor, PARKED, hurry=False)
        assert (parked.parked_mb, parked.gpus, fault_of(parked)) == (520, (), "")
        assert node.on_gpu() == set()
        assert node.runtime.containers[node.spec.attempt].paused
        node.turn(supervisor, HOLD)
        held = node.settled(supervisor, HELD, hurry=False)
        assert (held.parked_mb, held.gpus, fault_of(held)) == (0, node.spec.gpus, "")
        assert node.is_running(program)
        assert node.runtime.limits == [MEMORY_MB + 520 + 512, MEMORY_MB]


def test_a_task_that_took_the_memory_for_its_parking_has_a_minute_to_give_it_back(node: ParkingNode) -> None:
    node.runtime.greedy = True
    with node.life() as supervisor:
        node.begin(supervisor)
        for gpu, state in ((PARK, PARKED), (HOLD, HELD)):
            node.turn(supervisor, gpu)
            node.settled(supervisor, state, hurry=False)
        assert MEMORY_MB not in node.runtime.limits
        node.clock.ahead_s += 61
        supervisor.wake(node.spec.attempt)
        wait_until(lambda: MEMORY_MB in node.runtime.limits, "its old limit")


def test_of_turns_the_highest_counts_however_late_and_often_lists_come(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        node.turn(supervisor, HOLD)
        node.settled(supervisor, HELD)
        for turn, gpu in ((1, PARK), (2, PARK), (0, HOLD), (2, HOLD)):
            node.generation += 1
            supervisor.take(desired(node.generation, node.order(gpu, turn)))
            wait_for(supervisor, node.spec, lambda report: report.generation == node.generation)
            assert node.settled(supervisor, HELD).gpu is HELD
        assert len(node.runtime.limits) == 2, "it was parked once"


def test_a_task_that_uses_no_gpu_is_paused_and_gets_sigterm(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor).kill()
        node.turn(supervisor, PARK)
        parked = node.settled(supervisor, PARKED)
        assert (parked.parked_mb, fault_of(parked)) == (0, "")
        node.turn(supervisor, HOLD)
        node.settled(supervisor, HELD)
        assert not node.runtime.containers[node.spec.attempt].paused
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        supervisor.take(desired(9, order(node.spec, Phase.STOP, replace(NOW, grace_s=30))))
        wait_for(supervisor, node.spec, in_state(ContainerState.TERMINATED))
        assert node.runtime.signals == [SIGTERM]


def test_a_task_is_not_taken_for_idle_while_anybody_is_on_its_gpu(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor).kill()
        node.machine.run_process(0, 4711, 300)
        node.turn(supervisor, PARK)
        assert fault_of(node.failed(supervisor)) == ParkFault.LEFT_MEMORY
        assert not node.runtime.containers[node.spec.attempt].paused


# ---------------------------------------------------------------- what stands in the way


def busy(node: ParkingNode) -> None:
    node.programs[0].spin(100)


def managed(node: ParkingNode) -> None:
    node.programs[0]("cuMemAllocManaged", HANDLE, MIB, 1)


def failing(call: str, code: int, node: ParkingNode, times: int = ALWAYS) -> None:
    node.machine.fail(f"cuCheckpointProcess{CALLS[call]}", code, times=times)


def stubborn(node: ParkingNode) -> None:
    node.runtime.stubborn = True


def sticky(node: ParkingNode) -> None:
    node.machine.gpu(0).stays_bytes = 300 * MIB


def mig(node: ParkingNode) -> None:
    node.machine.gpu(0).mig = 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (busy, ParkFault.BUSY),
        (managed, ParkFault.REFUSED),
        (stubborn, ParkFault.ROOM),
        (sticky, ParkFault.LEFT_MEMORY),
        (mig, ParkFault.UNSUPPORTED),
        (partial(failing, "lock", 801), ParkFault.UNSUPPORTED),
        (partial(failing, "lock", 500), ParkFault.UNSUPPORTED),
        (partial(failing, "lock", 304), ParkFault.FAILED),
        (partial(failing, "checkpoint", 304), ParkFault.FAILED),
        (partial(failing, "checkpoint", 999), ParkFault.FAILED),
    ],
)
def test_what_cannot_be_parked_says_why_and_runs_on(
    node: ParkingNode, wrong: Callable[[ParkingNode], None], code: ParkFault
) -> None:
    with node.life() as supervisor:
        program = node.begin(supervisor)
        wrong(node)
        node.turn(supervisor, PARK)
        report = node.failed(supervisor)
        assert (report.gpus, fault_of(report)) == (node.spec.gpus, code)
        assert report.fault is not None
        assert report.fault.said["says"].startswith("node_park_")
        assert node.is_running(program)
        assert node.runtime.limits[1:] in ([], [MEMORY_MB])


def test_two_processes_on_one_gpu_or_two_gpus_are_not_parked(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.program(supervisor)
        node.turn(supervisor, PARK)
        assert fault_of(node.failed(supervisor)) == ParkFault.PROCESSES
        assert node.runtime.limits == []


def test_a_server_with_too_little_memory_for_it_parks_nothing(node: ParkingNode) -> None:
    node.allowed_mb = 600
    with node.life() as supervisor:
        node.begin(supervisor)
        node.turn(supervisor, PARK)
        report = node.failed(supervisor)
        assert fault_of(report) == ParkFault.ROOM
        assert report.fault is not None
        assert report.fault.said == {"says": "node_park_room", "mb": 520, "free": 600}


def test_a_driver_that_says_it_cannot_takes_the_capability_until_it_changes(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        assert node.suspension.fault() is None
        failing("lock", 801, node)
        node.turn(supervisor, PARK)
        node.failed(supervisor)
        assert node.suspension.fault() is not None
        node.machine.mend()
        node.turn(supervisor, PARK)
        assert fault_of(node.failed(supervisor)) == ParkFault.UNSUPPORTED
        node.machine.state.driver = b"590.1"
        node.machine.load_driver()


@pytest.mark.parametrize("code", [1, 3])
def test_a_process_that_has_no_cuda_any_more_is_looked_at_anew(node: ParkingNode, code: int) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        failing("lock", code, node, 1)
        node.turn(supervisor, PARK)
        assert fault_of(node.settled(supervisor, PARKED)) == ""


# ---------------------------------------------------------------- calls that give no answer


@pytest.mark.parametrize("how", [CRASHES, HANGS])
@pytest.mark.parametrize("call", ["lock", "checkpoint", "state", "restore", "unlock"])
def test_a_call_without_an_answer_leaves_nothing_locked(node: ParkingNode, call: str, how: int) -> None:
    with node.life() as supervisor:
        program = node.begin(supervisor)
        failing(call, how, node, 1)
        node.turn(supervisor, PARK)
        if call in ("lock", "checkpoint"):
            assert fault_of(node.failed(supervisor)) == ParkFault.SILENT
        else:
            assert fault_of(node.settled(supervisor, PARKED)) == ""
            node.turn(supervisor, HOLD)
            assert fault_of(node.settled(supervisor, HELD)) == ""
        assert node.is_running(program)
        assert node.on_gpu() == {program.pid}


# ---------------------------------------------------------------- the way back


@pytest.mark.parametrize(("code", "times"), [(2, 1), (304, ALWAYS), (BREAKS, 1), (CRASHES, ALWAYS)])
def test_what_cannot_be_put_back_is_killed_as_it_is_by_its_nodes_fault(
    node: ParkingNode, code: int, times: int
) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        failing("restore", code, node, times)
        node.turn(supervisor, HOLD)
        ended = node.settled(supervisor, HELD)
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.said["says"], fault_of(ended)) == (
            Cause.DEVICE_FAULT, "node_park_lost", ParkFault.LOST,
        )  # fmt: skip
        assert node.runtime.signals == [SIGKILL]
        wait_until(lambda: not node.on_gpu(), "its end")
        assert node.suspension.margin_mb == (2048 if code == 2 else 1024)


def test_it_waits_for_room_on_its_gpu_and_never_tries_to_see(node: ParkingNode) -> None:
    with node.life() as supervisor:
        program = node.begin(supervisor)
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        node.machine.run_process(0, 4711, 143771 - 615 - 1500)
        node.machine.gpu(0).mem_used = (143771 - 615 - 1500) << 20
        node.turn(supervisor, HOLD)

        def waits() -> bool:
            return fault_of(node.settled(supervisor, *GpuState)) == ParkFault.GPU_FULL

        wait_until(waits, "the fault")
        node.machine.gpu(0).mem_used = node.machine.gpu(0).nproc = 0
        assert fault_of(node.settled(supervisor, HELD)) == ""
        assert node.is_running(program)


def test_two_tasks_are_never_on_one_gpu(node: ParkingNode) -> None:
    """What comes back waits for the task that has its GPU, and no other begins once it is on its way."""
    other, third = (replace(spec, gpus=node.spec.gpus) for spec in SPECS[1:])
    with node.life() as supervisor:
        node.begin(supervisor)
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        supervisor.take(desired(2, node.order(PARK, 1), order(other, Phase.RUN)))
        wait_for(supervisor, other, in_state(ContainerState.RUNNING))
        supervisor.take(desired(3, node.order(HOLD, 2), order(other, Phase.RUN)))
        node.turns = 2
        wait_until(lambda: fault_of(node.settled(supervisor, PARKED)) == ParkFault.GPU_HELD, "the fault")
        failing("restore", HANGS, node, 1)
        supervisor.take(desired(4, node.order(HOLD, 2), order(other, Phase.STOP)))
        wait_for(supervisor, other, in_state(ContainerState.TERMINATED))
        node.settled(supervisor, GpuState.RESUMING)
        supervisor.take(desired(5, node.order(HOLD, 2), order(other, Phase.STOP), order(third, Phase.RUN)))
        refused = wait_for(supervisor, third, in_state(ContainerState.TERMINATED))
        assert refused.exit is not None
        assert refused.exit.said["says"] == "node_gpu_held"
        node.settled(supervisor, HELD)


# ---------------------------------------------------------------- stops


def test_a_parked_task_is_killed_as_it_is(node: ParkingNode) -> None:
    with node.life() as supervisor:
        node.begin(supervisor)
        node.turn(supervisor, PARK)
        node.settled(supervisor, PARKED)
        supervisor.take(desired(9, order(node.spec, Phase.STOP, replace(NOW, grace_s=600))))
        ended = wait_for(supervisor, node.spec, in_state(ContainerState.TERMINATED))
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.stop_reason) == (Cause.STOPPED, StopReason.USER)
        assert node.runtime.signals == [SIGKILL]


def test_what_was_put_back_once_is_parked_before_it_is_killed(node: ParkingNode) -> None:
    seen: list[tuple[int, set[int]]] = []
    node.runtime.obeys = lambda number: seen.append((number, node.on_gpu())) or number == SIGKILL  # type: ignore[func-returns-value]
    with node.life() as supervisor:
        program = node.begin(supervisor)
        for gpu, state in ((PARK, PARKED), (HOLD, HELD)):
            node.turn(supervisor, gpu)
            node.settled(supervisor, state)
        supervisor.take(desired(9, order(node.spec, Phase.STOP)))
        wait_for(supervisor, node.spec, in_state(ContainerState.TERMINATED))
        assert seen == [(SIGTERM, {program.pid}), (SIGKILL, set())]


def test_a_task_that_is_stopped_while_it_is_locked_gets_sigterm_unlocked(node: ParkingNode) -> None:
    with node.life() as supervisor:
        program = node.begin(supervisor)
        node.runtime.obeys = lambda number: number == SIGTERM and node.is_running(program)
        node.machine.fail("cuCheckpointProcessCheckpoint", HANGS, times=1)
        node.turn(supervisor, PARK)
        wait_until(lambda: node.state(program) == 1, "its lock")
        supervisor.take(desired(9, order(node.spec, Phase.STOP, replace(NOW, grace_s=600))))
        wait_for(supervisor, node.spec, lambda report: report.generation == 9)
        node.clock.ahead_s += 120
        supervisor.wake(node.spec.attempt)
        wait_for(supervisor, node.spec, in_state(ContainerState.TERMINATED))
        assert node.runtime.signals == [SIGTERM]


# ---------------------------------------------------------------- deaths of the agent


def given(journal: Journal, folder: Path) -> Journal:
    return journal


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("written", [False, True])
def test_an_agent_may_die_between_any_two_steps(node: ParkingNode, written: bool) -> None:
    """It parks a task and puts it back, and dies before or after each record of it; the next one goes on without a
    list of orders, and obeys the first that comes."""
    with node.life() as supervisor:
        program = node.begin(supervisor)
    for left in range(100):
        journal = MortalJournal(node.folder / "attempts", left, written=written)
        node.journal = partial(given, journal)
        with node.life() as supervisor:
            for gpu, state in ((PARK, PARKED), (HOLD, HELD)):
                node.turn(supervisor, gpu)
                wait_until(lambda: journal.died or node.rests(supervisor) is state, "a death, or rest", every_s=0.01)  # noqa: B023
        node.journal = Journal
        with node.life() as supervisor:
            wait_until(lambda: node.rests(supervisor), "rest", every_s=0.01)  # noqa: B023
            node.turn(supervisor, HOLD)
            node.settled(supervisor, HELD)
            assert node.is_running(program)
            assert node.on_gpu() == {program.pid}
        if not journal.died:
            break
    assert 15 <= left < 99
