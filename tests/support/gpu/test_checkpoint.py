"""A program is taken off its GPU and put back as on the GPU that was measured (docs/decisions/gpu-measured.md), and
fails in the ways that were found there or are known of drivers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from tests.support.gpu.conftest import Start
from tests.support.gpu.machine import BREAKS, CRASHES, DAMAGES, HANGS, Machine
from tests.support.gpu.program import HANDLE, INT, Program, trained, trainer
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.root

MIB = 1 << 20
RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
OUT_OF_MEMORY, NOT_INITIALIZED, OPERATING_SYSTEM, ILLEGAL_STATE, NOT_READY, NOT_SUPPORTED = 2, 3, 304, 401, 600, 801


class Keeper:
    """The process that parks others."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def does(self, call: str, pid: int, limit_ms: int | None = None) -> int:
        limit = None if limit_ms is None else self.limit(limit_ms)
        return self.program.code(f"cuCheckpointProcess{call}", pid, limit)

    def state(self, pid: int) -> int:
        return int(self.program("cuCheckpointProcessGetState", pid, INT))

    def limit(self, milliseconds: int) -> str:
        """The call's first argument is a number in memory: a text of its bytes."""
        return milliseconds.to_bytes(4, "little").decode("latin-1")

    def park(self, pid: int) -> None:
        assert (self.does("Lock", pid), self.does("Checkpoint", pid)) == (0, 0)

    def resume(self, pid: int) -> None:
        assert (self.does("Restore", pid), self.does("Unlock", pid)) == (0, 0)


@pytest.fixture
def keeper(machine: Machine, start: Start) -> Iterator[Keeper]:
    pynvml.nvmlInit()
    program = Program(machine)
    program("cuInit", 0)
    yield Keeper(program)
    program.end()  # also one whose call never comes back


def processes() -> dict[int, int]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)}


def own_memory(pid: int) -> int:
    """MiB that are the process' own."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) // 1024


def test_the_four_calls_go_through_their_states_in_this_order_alone(keeper: Keeper, start: Start) -> None:
    pid = start().pid
    calls = ("Lock", "Checkpoint", "Restore", "Unlock")
    before = RUNNING
    for call, then in zip(calls, (LOCKED, CHECKPOINTED, LOCKED, RUNNING), strict=True):
        allowed = {RUNNING: {"Lock"}, LOCKED: {"Checkpoint", "Unlock"}, CHECKPOINTED: {"Restore"}}[before]
        for other in set(calls) - allowed:
            assert keeper.does(other, pid) == ILLEGAL_STATE
        assert keeper.does(call, pid) == 0
        assert keeper.state(pid) == then
        before = then


def test_what_is_parked_leaves_the_gpu_for_the_process_own_memory_and_comes_back(keeper: Keeper, start: Start) -> None:
    program = start()
    block = program("cuMemAlloc", HANDLE, 64 * MIB)
    program("cuMemsetD32", block, 0x01020304, 16 * MIB)
    on_gpu, own = processes(), own_memory(program.pid)
    keeper.park(program.pid)
    assert processes() == {}
    assert own_memory(program.pid) - own in range(63, 70)
    program.begin("cuMemcpyDtoH", INT, block + 64 * MIB - 4, 4)
    time.sleep(0.05)  # it would have answered
    assert not program.answered()
    keeper.resume(program.pid)
    assert program.answer() == 0x01020304
    assert processes() == on_gpu
    assert own_memory(program.pid) - own in range(-5, 5)


def test_the_switch_takes_the_time_that_was_measured(machine: Machine, keeper: Keeper, start: Start) -> None:
    """0.5 s and 0.6 s a GB out, 0.4 s and 0.23 s a GB in; a context is 512 MiB."""
    program = start()
    program("cuMemAlloc", HANDLE, 16 * MIB)
    gigabytes = 528 * MIB / 1e9
    for switch, takes in ((keeper.park, 0.5 + 0.6 * gigabytes), (keeper.resume, 0.4 + 0.23 * gigabytes)):
        begun = machine.now()
        switch(program.pid)
        assert machine.now() - begun == pytest.approx(takes, abs=0.001)


def test_a_trainers_losses_are_bit_for_bit_the_same_whenever_it_was_parked(machine: Machine, keeper: Keeper) -> None:
    """Twenty times, at whatever moment, while another program fills the GPU meanwhile."""
    steps = ("--steps", "600", "--memory-mb", "16")
    alone = trained(machine, *steps)
    machine.speed(20)
    with trainer(machine, *steps, "--host-us", "400") as parked:
        assert parked.stdout is not None
        lines = [parked.stdout.readline()]
        for round_ in range(20):
            keeper.park(parked.pid)
            assert trained(machine, "--steps", "2", "--memory-mb", "8").endswith("memory intact\ndone\n")
            keeper.resume(parked.pid)
            time.sleep(round_ / 2000)
        assert parked.poll() is None, "it was parked while it worked"
        machine.speed(0)
        assert "".join([*lines, parked.communicate()[0]]) == alone
    assert len(alone.splitlines()) == 602


def test_a_lock_waits_for_the_kernel_and_gives_up_at_its_limit(keeper: Keeper, start: Start) -> None:
    program = start()
    program.spin(10)
    assert keeper.does("Lock", program.pid, 2000) == NOT_READY
    assert keeper.state(program.pid) == RUNNING
    assert program.code("cuStreamQuery", 0) == NOT_READY, "nothing is harmed"
    assert keeper.does("Lock", program.pid, 9000) == 0
    assert keeper.does("Unlock", program.pid) == 0
    assert program.code("cuStreamQuery", 0) == 0, "the kernel came to its end"


def managed(machine: Machine, program: Program) -> None:
    program("cuMemAllocManaged", HANDLE, MIB, 1)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (managed, NOT_SUPPORTED),
        (lambda machine, program: machine.fail("cuCheckpointProcessCheckpoint", 999), 999),
        (lambda machine, program: machine.fail("cuCheckpointProcessCheckpoint", 304), 304),
    ],
)
def test_a_checkpoint_that_fails_leaves_it_locked_and_it_goes_on_when_unlocked(
    machine: Machine, keeper: Keeper, start: Start, wrong: Callable[[Machine, Program], None], answer: int
) -> None:
    program = start()
    wrong(machine, program)
    assert (keeper.does("Lock", program.pid), keeper.does("Checkpoint", program.pid)) == (0, answer)
    assert keeper.state(program.pid) == LOCKED
    assert keeper.does("Unlock", program.pid) == 0
    program.spin(1)
    program("cuCtxSynchronize")


def test_a_restore_that_finds_no_room_loses_the_process(keeper: Keeper, start: Start) -> None:
    program, other = start(), start()
    program("cuMemAlloc", HANDLE, 8 * MIB)
    keeper.park(program.pid)
    room = other("cuMemGetInfo", HANDLE, HANDLE)[0]
    block = other("cuMemAlloc", HANDLE, room - 100 * MIB)
    assert keeper.does("Restore", program.pid) == OUT_OF_MEMORY
    other("cuMemFree", block)
    assert [keeper.does("Restore", program.pid) for _ in range(2)] == [OPERATING_SYSTEM] * 2, "whatever room there is"
    assert keeper.state(program.pid) == CHECKPOINTED
    program.kill()
    assert keeper.does("Restore", program.pid) == NOT_INITIALIZED


def test_memory_that_stays_on_the_gpu_is_told_with_its_pid(machine: Machine, keeper: Keeper, start: Start) -> None:
    program = start()
    machine.gpu(0).stays_bytes = 300 * MIB
    keeper.park(program.pid)
    assert processes() == {program.pid: 300 * MIB}
    machine.gpu(0).stays_bytes = 0
    keeper.resume(program.pid)
    assert processes() == {program.pid: 512 * MIB}


def test_what_has_no_context_or_is_gone_is_no_process_of_cuda(machine: Machine, keeper: Keeper, start: Start) -> None:
    bare, gone = Program(machine), start()
    gone.kill()
    assert [keeper.does("Lock", one.pid) for one in (bare, gone)] == [NOT_INITIALIZED] * 2
    bare.end()


def test_an_older_driver_has_no_such_calls(machine: Machine, keeper: Keeper, start: Start) -> None:
    program = start()
    machine.state.cuda = 12070
    assert keeper.does("Lock", program.pid) == 500


def test_only_root_may(machine: Machine, start: Start) -> None:
    text = f"import ctypes; print(ctypes.CDLL('libcuda.so.1').cuCheckpointProcessLock({start().pid}, None))"
    for folder in (machine.folder, *machine.folder.parents[:3]):
        folder.chmod(0o755 if folder != machine.folder else 0o777)
    library = Path(machine.env["LD_LIBRARY_PATH"]) / "libcuda.so.1"
    copy = machine.folder / "libcuda.so.1"
    copy.write_bytes(library.read_bytes())
    copy.chmod(0o755)
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", text.replace("libcuda.so.1", str(copy))],
        env={"GPU_MACHINE": str(machine.folder)}, user=65534, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == str(OPERATING_SYSTEM)


def test_without_persistence_the_driver_has_to_be_begun_for_a_restore(
    machine: Machine, keeper: Keeper, start: Start
) -> None:
    program, other = start(), Keeper(Program(machine))
    keeper.park(program.pid)
    machine.gpu(0).persistence = 0
    assert other.does("Restore", program.pid) == NOT_INITIALIZED
    assert keeper.does("Restore", program.pid) == 0
    other.program.end()


def test_a_paused_process_cannot_be_parked_and_is_once_it_goes_on(keeper: Keeper, start: Start) -> None:
    program = start()
    os.kill(program.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{program.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the pause")
    keeper.program.begin("cuCheckpointProcessLock", program.pid, None)
    time.sleep(0.05)  # it would have answered
    assert not keeper.program.answered()
    os.kill(program.pid, signal.SIGCONT)
    keeper.program.answer()
    assert keeper.state(program.pid) == LOCKED


def test_whoever_parks_may_die_at_any_moment_and_the_next_one_finds_one_of_the_states(
    machine: Machine, keeper: Keeper, start: Start
) -> None:
    program = start()
    block = program("cuMemAlloc", HANDLE, 8 * MIB)
    program("cuMemsetD32", block, 7, 2 * MIB)
    machine.speed(100)
    seen = set()
    for round_ in range(16):
        other = Keeper(Program(machine))
        other.program("cuInit", 0)
        call = {RUNNING: "Lock", LOCKED: "Checkpoint" if round_ % 2 else "Unlock", CHECKPOINTED: "Restore"}
        before = keeper.state(program.pid)
        other.program.begin(f"cuCheckpointProcess{call[before]}", program.pid, None)
        time.sleep(round_ % 5 / 1000)
        other.program.kill()
        seen.add(keeper.state(program.pid))
    assert seen <= {RUNNING, LOCKED, CHECKPOINTED}
    finish = {CHECKPOINTED: ("Restore", "Unlock"), LOCKED: ("Unlock",), RUNNING: ()}
    settled = wait_until(lambda: [keeper.does("Lock", program.pid)], "the last call's end")
    state = keeper.state(program.pid)
    assert settled in ([0], [ILLEGAL_STATE])
    assert [keeper.does(call, program.pid) for call in finish[state]] == [0] * len(finish[state])
    assert program("cuMemcpyDtoH", INT, block, 4) == 7


@pytest.mark.parametrize(("code", "ends"), [(HANGS, None), (CRASHES, -signal.SIGSEGV)])
def test_a_call_may_never_come_back_or_end_its_caller_and_harms_no_other(
    machine: Machine, keeper: Keeper, start: Start, code: int, ends: int | None
) -> None:
    program = start()
    machine.fail("cuCheckpointProcessLock", code)
    keeper.program.begin("cuCheckpointProcessLock", program.pid, None)
    if ends is not None:
        with pytest.raises(AssertionError, match=str(ends)):
            keeper.program.answer()
    time.sleep(0.05)  # it would have answered
    assert ends is not None or not keeper.program.answered()
    machine.mend()
    other = Keeper(Program(machine))
    other.program("cuInit", 0)
    assert other.state(program.pid) == RUNNING
    other.park(program.pid)
    other.program.end()


def test_a_restore_may_lose_the_process(machine: Machine, keeper: Keeper, start: Start) -> None:
    program = start()
    keeper.park(program.pid)
    machine.fail("cuCheckpointProcessRestore", BREAKS)
    assert keeper.does("Restore", program.pid) == 999
    assert keeper.state(program.pid) == FAILED


def test_a_restore_may_damage_memory_without_a_word(machine: Machine, keeper: Keeper, start: Start) -> None:
    program = start()
    block = program("cuMemAlloc", HANDLE, MIB)
    program("cuMemsetD32", block, 7, MIB // 4)
    keeper.park(program.pid)
    machine.fail("cuCheckpointProcessRestore", DAMAGES)
    keeper.resume(program.pid)
    half = block + MIB // 2
    assert [program("cuMemcpyDtoH", INT, half + at, 4) for at in (0, 4, 8)] == [7, 7 - 2**31, 7]
