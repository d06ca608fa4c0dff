"""Phase F: what goes wrong when a process is parked, each as the agent expects it (docs/decisions/gpu-measured.md).
None harms another process, and the GPU is as before afterwards."""

from __future__ import annotations

import time

from tests.gpu_check.bench import MIB, Bench, NotHere, Program, fail
from tests.gpu_check.cuda import LOCKED, NOT_READY, OUT_OF_MEMORY, PARKED, RUNNING, STATES

KERNEL_S, LIMIT_MS = 6, 1000
PARKED_SHARE = 0.06
"""Of the GPU's memory: more than what a program that fills the GPU leaves free."""


def long_kernel(bench: Bench) -> str:
    """A kernel takes longer than the limit of the lock: the lock gives up, and nothing is harmed."""
    program = bench.start("--spin-s", KERNEL_S, "--pace-ms", 20)
    program.wait_for_line("spinning")
    begun = time.monotonic()
    answer = bench.driver.lock(program.pid, LIMIT_MS)
    took = time.monotonic() - begun
    if answer != NOT_READY:
        fail(f"lock answered {bench.driver.named(answer)}, not {bench.driver.named(NOT_READY)}")
    if took > LIMIT_MS / 1000 + 2:
        fail(f"lock with a limit of {LIMIT_MS / 1000:g} s gave up after {took:.1f} s")
    bench.expect_state(program, RUNNING)
    program.tell()
    program.wait_for_steps(2)
    return f"lock answered {bench.driver.named(answer)} after {took:.1f} s, and the kernel came to its end"


def managed_memory(bench: Bench) -> str:
    """A program with managed memory cannot be parked, and goes on once it is unlocked; or it can, in a newer driver."""
    program = bench.running("--managed-mib", 1)
    return refused_or_parked(bench, program)


def full_gpu(bench: Bench) -> str:
    """Whoever is restored while the GPU is full is refused, and lost."""
    program = bench.running("--mib", round(PARKED_SHARE * bench.gpu.total / MIB))
    bench.park(program)
    other = bench.start("--fill", "--pace-ms", 20)
    other.wait_for_steps(3)
    first = bench.driver.restore(program.pid)
    if first != OUT_OF_MEMORY:
        fail(f"restore into a full GPU answered {bench.driver.named(first)}, not {bench.driver.named(OUT_OF_MEMORY)}")
    other.goes_on()
    bench.end(other)
    second = bench.driver.restore(program.pid)
    bench.tell({"restored_later": second == 0, "state": bench.driver.state(program.pid)})
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
    answer = bench.driver.restore(program.pid)
    if not answer:
        fail("restore of a process that runs answered success")
    bench.expect_state(program, RUNNING)
    program.goes_on()
    return f"restore of a process that runs answered {bench.driver.named(answer)}, and it goes on"


def gone(bench: Bench) -> str:
    """A process that is killed while it is parked leaves nothing, and cannot be restored."""
    program = bench.running()
    bench.park(program)
    program.kill()
    bench.expect_gone(program)
    answer = bench.driver.restore(program.pid)
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


def refused_or_parked(bench: Bench, program: Program) -> str:
    """Whichever: it goes on afterwards. Raises Failed."""
    told = tried(bench, program)
    bench.expect_state(program, RUNNING)
    program.goes_on()
    return f"{told}, and it goes on"


def tried(bench: Bench, program: Program) -> str:
    """What comes of parking and resuming it, each answer with the state that it leaves."""
    lock = bench.driver.lock(program.pid, 5000)
    if lock:
        return f"lock answered {bench.driver.named(lock)}"
    checkpoint = bench.driver.checkpoint(program.pid)
    state = bench.driver.state(program.pid)
    if state == LOCKED:
        unlock = bench.driver.unlock(program.pid)
        return f"checkpoint answered {bench.driver.named(checkpoint)}, unlock {bench.driver.named(unlock)}"
    if state != PARKED:
        fail(f"checkpoint answered {bench.driver.named(checkpoint)}; the process is {STATES.get(state or 0, state)}")
    restore = bench.driver.restore(program.pid)
    program.restored = not restore
    if restore:
        return f"it was parked, and restore answered {bench.driver.named(restore)}"
    bench.succeed("unlock", bench.driver.unlock(program.pid))
    return "it was parked and resumed"
