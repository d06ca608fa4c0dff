"""Phase F: what goes wrong when a process is parked, each as the agent expects it (docs/decisions/gpu-measured.md).
None harms another process, and the GPU is as before afterwards."""

from __future__ import annotations

import time

from nodes.agent.hardware.gpus.cuda import Code, CudaState
from tests.gpu_check.bench import MIB, Bench, Program
from tests.gpu_check.failing import NotHere, fail
from tests.gpu_check.parker import named

KERNEL_S, LIMIT_S = 6, 1
PARKED_SHARE = 0.06
"""Of the GPU's memory: more than what a program that fills the GPU leaves free."""


def long_kernel(bench: Bench) -> str:
    """A kernel takes longer than the limit of the lock: the lock gives up, and nothing is harmed."""
    program = bench.start("--spin-s", KERNEL_S, "--pace-ms", 20)
    program.wait_for_line("spinning")
    begun = time.monotonic()
    answer, state = bench.parker.lock(program.pid, LIMIT_S)
    took = time.monotonic() - begun
    if answer != Code.NOT_READY:
        fail(f"lock answered {bench.driver.named(answer)}, not {bench.driver.named(Code.NOT_READY)}")
    if took > LIMIT_S + 2:
        fail(f"lock with a limit of {LIMIT_S} s gave up after {took:.1f} s")
    if state != CudaState.RUNNING:
        fail(f"after the limit the process is {named(state)}")
    program.tell()
    program.wait_for_steps(2)
    return f"lock answered {bench.driver.named(answer)} after {took:.1f} s, and the kernel came to its end"


def managed_memory(bench: Bench) -> str:
    """A program with managed memory cannot be parked, and goes on once it is unlocked; or it can, in a newer driver."""
    program = bench.running("--managed-mib", 1)
    told = tried(bench, program)
    program.goes_on()
    return f"{told}, and it goes on"


def full_gpu(bench: Bench) -> str:
    """Whoever is restored while the GPU is full is refused, and lost."""
    program = bench.running("--mib", round(PARKED_SHARE * bench.gpu.total / MIB))
    bench.park(program)
    other = bench.start("--fill", "--pace-ms", 20)
    other.wait_for_steps(3)
    first = bench.parker.restore(program.pid).code
    if first != Code.OUT_OF_MEMORY:
        expected = bench.driver.named(Code.OUT_OF_MEMORY)
        fail(f"restore into a full GPU answered {bench.driver.named(first)}, not {expected}")
    other.goes_on()
    bench.end(other)
    second, state = bench.parker.restore(program.pid)
    bench.tell({"restored_later": second == 0, "state": state})
    program.restored = second == 0
    later = f"restore answered {bench.driver.named(second)}: it is lost" if second else "it was restored"
    return f"restore answered {bench.driver.named(first)}; with room again {later}"


def shared_memory(bench: Bench) -> str:
    """Two programs that share memory of the GPU (CUDA IPC), each parked for itself."""
    if not bench.driver.has("cuIpcGetMemHandle"):
        raise NotHere("the driver's library has no cuIpcGetMemHandle")
    owner = bench.start("--share", "--pace-ms", 20)
    handle = owner.wait_for_line("shared ").split()[1]
    guest = bench.running("--open", handle)
    owner.tell()
    owner.wait_for_steps(3)
    return f"who opened it: {tried(bench, guest)}; whose it is: {tried(bench, owner)}"


def not_parked(bench: Bench) -> str:
    """A restore of what runs is refused, and harms nothing."""
    program = bench.running()
    answer, state = bench.parker.restore(program.pid)
    if not answer or state != CudaState.RUNNING:
        fail(f"restore of a process that runs answered {bench.driver.named(answer)}; it is {named(state)}")
    program.goes_on()
    return f"restore of a process that runs answered {bench.driver.named(answer)}, and it goes on"


def gone(bench: Bench) -> str:
    """A process that is killed while it is parked leaves nothing, and cannot be restored."""
    program = bench.running()
    bench.park(program)
    program.kill()
    bench.expect_gone(program)
    answer = bench.parker.restore(program.pid).code
    if not answer:
        fail("restore of a process that is gone answered success")
    return f"restore of a process that is gone answered {bench.driver.named(answer)}"


def killed(bench: Bench) -> str:
    """A process that was parked and resumed is parked again before it is killed, and leaves nothing."""
    program = bench.running()
    bench.park(program)
    bench.resume(program)
    program.goes_on()
    begun = time.monotonic()
    bench.end(program)
    bench.expect_gone(program)
    return f"parked again and killed: its memory was free after {time.monotonic() - begun:.1f} s"


def tried(bench: Bench, program: Program) -> str:
    """What comes of parking and resuming it, each answer with the state that it leaves."""
    lock = bench.parker.lock(program.pid, 5).code
    if lock:
        return f"lock answered {bench.driver.named(lock)}"
    checkpoint, state = bench.parker.checkpoint(program.pid)
    if state == CudaState.LOCKED:
        unlock = bench.parker.unlock(program.pid).code
        return f"checkpoint answered {bench.driver.named(checkpoint)}, unlock {bench.driver.named(unlock)}"
    if state != CudaState.CHECKPOINTED:
        fail(f"checkpoint answered {bench.driver.named(checkpoint)}; the process is {named(state)}")
    restore = bench.parker.restore(program.pid).code
    program.restored = not restore
    if restore:
        return f"it was parked, and restore answered {bench.driver.named(restore)}"
    bench.succeed("unlock", bench.parker.unlock(program.pid), CudaState.RUNNING)
    return "it was parked and resumed"
