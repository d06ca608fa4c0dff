"""The made-up machine: what one program does on its GPUs, NVIDIA's library tells in another process, in time that is
counted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest

from tests.support.gpu.conftest import Start
from tests.support.gpu.machine import KILLED, Machine
from tests.support.gpu.program import FLOAT, HANDLE, INT, Program, trained, trainer
from tests.support.run.waiting import wait_until

GIB, MIB = 1 << 30, 1 << 20
OUT_OF_MEMORY, NOT_INITIALIZED, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS = 2, 3, 500, 600, 700


@pytest.fixture(autouse=True)
def asked(machine: Machine) -> None:
    pynvml.nvmlInit()


def handle(index: int = 0) -> pynvml.c_nvmlDevice_t:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def used(index: int = 0) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle(index), pynvml.nvmlMemory_v2).used)


def processes(index: int = 0) -> dict[int, int]:
    return {one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle(index))}


def utilisation(index: int = 0) -> int:
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle(index)).gpu)


def shares(index: int = 0) -> dict[int, int]:
    return {one.pid: one.smUtil for one in pynvml.nvmlDeviceGetProcessUtilization(handle(index), 0)}


def test_memory_is_told_by_pid_from_the_context_to_the_end_of_the_process(start: Start) -> None:
    program = start()
    context = 512 * MIB
    assert processes() == {program.pid: context}
    block = program("cuMemAlloc", HANDLE, 20 * GIB)
    assert processes() == {program.pid: context + 20 * GIB}
    assert (used(0), used(1)) == (context + 20 * GIB, 0)
    program("cuMemFree", block)
    assert processes() == {program.pid: context}
    program.kill()
    assert (processes(), used()) == ({}, 0)


def test_the_last_byte_can_be_had_and_not_one_more_whoever_has_the_others(start: Start) -> None:
    one, other = start(), start()
    room, total = one("cuMemGetInfo", HANDLE, HANDLE)
    assert total == 143771 * MIB
    other("cuMemAlloc", HANDLE, 100 * GIB)
    left = room - 100 * GIB
    assert one("cuMemGetInfo", HANDLE, HANDLE)[0] == left
    assert one.code("cuMemAlloc", HANDLE, left + 1) == OUT_OF_MEMORY
    assert one.code("cuMemAlloc", HANDLE, left) == 0
    assert other.code("cuMemAlloc", HANDLE, 1) == OUT_OF_MEMORY


def test_memory_holds_what_was_written_and_no_program_reads_it_without_a_copy(start: Start) -> None:
    program = start()
    one, other = (program("cuMemAlloc", HANDLE, 4 * MIB) for _ in range(2))
    program("cuMemsetD32", one, 0x01020304, MIB)
    program("cuMemcpyDtoD", other, one, 4 * MIB)
    assert program("cuMemcpyDtoH", INT, other + 4 * MIB - 4, 4) == 0x01020304
    assert program.code("cuMemcpyDtoH", INT, other + 4 * MIB - 2, 4) == 1
    program.begin("cuMemcpy", one, 8, 4)  # from an address of the program's own that is none
    with pytest.raises(AssertionError, match="ended the program"):
        program.answer()


def test_kernels_of_all_programs_on_a_gpu_take_its_time_one_after_another(machine: Machine, start: Start) -> None:
    one, other = start(), start()
    for program in (one, other):
        program.spin(0.3)
        program.spin(0.2)
    assert one.code("cuStreamQuery", 0) == NOT_READY
    other("cuCtxSynchronize")
    assert one.code("cuStreamQuery", 0) == 0, "in turns: the first one's last came before"
    assert (utilisation(0), utilisation(1)) == (100, 0)
    assert shares() == {one.pid: 50, other.pid: 50}
    machine.advance(0.75)
    assert utilisation() == 25


def test_two_gpus_work_at_the_same_time(machine: Machine, start: Start) -> None:
    one, other = start(CUDA_VISIBLE_DEVICES="0"), start(CUDA_VISIBLE_DEVICES=machine.gpu(1).uuid.decode())
    one.spin(1)
    other.spin(1)
    one("cuCtxSynchronize")
    assert other.code("cuStreamQuery", 0) == 0
    assert (utilisation(0), utilisation(1)) == (100, 100)
    assert list(processes(1)) == [other.pid]


def test_one_program_on_two_gpus_waits_on_one_for_the_other(start: Start) -> None:
    program = start()
    second = program("cuDevicePrimaryCtxRetain", HANDLE, 1)
    event = program("cuEventCreate", HANDLE, 0)
    program.spin(2)
    program("cuEventRecord", event, 0)
    program("cuCtxPushCurrent", second)
    begun, ended = (program("cuEventCreate", HANDLE, 0) for _ in range(2))
    program("cuEventRecord", begun, 0)
    program("cuStreamWaitEvent", 0, event, 0)
    program.spin(0.5)
    program("cuEventRecord", ended, 0)
    program("cuCtxSynchronize")
    assert program("cuEventElapsedTime", FLOAT, begun, ended) == 2500


def test_an_event_has_the_time_at_which_the_gpu_came_to_it(start: Start) -> None:
    program = start()
    stream = program("cuStreamCreate", HANDLE, 0)
    before, after = (program("cuEventCreate", HANDLE, 0) for _ in range(2))
    program("cuEventRecord", before, stream)
    program.spin(2.5, stream)
    program("cuEventRecord", after, stream)
    assert (program.code("cuEventQuery", before), program.code("cuEventQuery", after)) == (0, NOT_READY)
    assert program.code("cuEventElapsedTime", FLOAT, before, after) == NOT_READY
    program("cuEventSynchronize", after)
    assert program("cuEventElapsedTime", FLOAT, before, after) == 2500


def test_a_program_is_a_thousand_launches_ahead_and_no_more(machine: Machine, start: Start) -> None:
    program = start()
    machine.speed(1)
    for _ in range(1024):
        program.spin(10)
    program.begin("cuLaunchKernel", program.kernels["spin"], 1, 1, 1, 32, 1, 1, 0, 0, [1], None)
    time.sleep(0.05)  # it would have answered
    machine.advance(9)
    assert not program.answered()
    machine.advance(1)
    program.answer()


def test_a_graph_is_what_was_captured_and_runs_as_often_as_it_is_launched(start: Start) -> None:
    program = start()
    stream, side = (program("cuStreamCreate", HANDLE, 0) for _ in range(2))
    fork = program("cuEventCreate", HANDLE, 0)
    program("cuStreamBeginCapture", stream, 0)
    assert program("cuStreamIsCapturing", stream, INT) == 1
    assert program.code("cuStreamSynchronize", stream) == 900
    program.spin(0.25, stream)
    program("cuEventRecord", fork, stream)
    program("cuStreamWaitEvent", side, fork, 0)
    program.spin(0.5, side)
    graph = program("cuStreamEndCapture", stream, HANDLE)
    assert program("cuStreamIsCapturing", side, INT) == 0
    assert program("cuGraphGetNodes", graph, None, HANDLE) == 2
    assert program.code("cuStreamQuery", stream) == 0, "nothing has run yet"
    ready = program("cuGraphInstantiate", HANDLE, graph, 0)
    before, after = (program("cuEventCreate", HANDLE, 0) for _ in range(2))
    program("cuEventRecord", before, stream)
    for _ in range(3):
        program("cuGraphLaunch", ready, stream)
    program("cuEventRecord", after, stream)
    program("cuStreamSynchronize", stream)
    assert program("cuEventElapsedTime", FLOAT, before, after) == 2250


def test_an_illegal_address_ends_its_own_context_alone_and_the_driver_tells_of_it(start: Start) -> None:
    bad, good = start(), start()
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle(), pynvml.nvmlEventTypeXidCriticalError, events)
    arguments = [bad.kernels["step"], 1, 1, 1, 32, 1, 1, 0, 0, [4096, 16, 8192], None]
    assert bad.code("cuLaunchKernel", *arguments) == ILLEGAL_ADDRESS
    assert bad.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert pynvml.nvmlEventSetWait_v2(events, 100).eventData == 31
    good.spin(1)
    assert good.code("cuCtxSynchronize") == 0


def test_cuda_does_not_survive_a_fork(machine: Machine) -> None:
    text = """
import ctypes, os
library, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not library.cuInit(0) and not library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
child = os.fork()
if not child:
    os._exit(library.cuCtxSynchronize() * 10 + library.cuInit(0))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), library.cuCtxSetCurrent(context), flush=True)
"""
    ran = subprocess.run([sys.executable, "-c", text], env=machine.env, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [f"{NOT_INITIALIZED * 11}", "0"]


def test_functions_are_found_by_the_newest_form_that_asker_and_driver_have(machine: Machine) -> None:
    text = """
import ctypes
library = ctypes.CDLL("libcuda.so.1")
def at(name, version):
    found, status = ctypes.c_void_p(), ctypes.c_int()
    answer = library.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_uint64(0), ctypes.byref(status))
    named = next((one for one in (b"cuCtxCreate_v2", b"cuCtxCreate_v4", b"cuCheckpointProcessLock")
                  if found.value == ctypes.cast(getattr(library, one.decode()), ctypes.c_void_p).value), b"-")
    print(answer, status.value, named.decode())
for name, version in ((b"cuCtxCreate", 12080), (b"cuCtxCreate", 13000), (b"cuCheckpointProcessLock", 12070),
                      (b"cuCheckpointProcessLock", 13000), (b"cuNoSuch", 13000)):
    at(name, version)
"""

    def looked_up() -> list[str]:
        ran = subprocess.run([sys.executable, "-c", text], env=machine.env, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()

    old, missing = f"{NOT_FOUND} 2 -", f"{NOT_FOUND} 1 -"
    assert looked_up() == ["0 0 cuCtxCreate_v2", "0 0 cuCtxCreate_v4", old, "0 0 cuCheckpointProcessLock", missing]
    machine.state.cuda = 12040
    assert looked_up() == ["0 0 cuCtxCreate_v2", "0 0 cuCtxCreate_v2", old, old, missing]


def test_gpm_tells_what_lay_between_two_samples(machine: Machine, start: Start) -> None:
    program = start()
    first = pynvml.nvmlGpmSampleGet(handle(), pynvml.nvmlGpmSampleAlloc())
    program.spin(1)
    program("cuCtxSynchronize")
    machine.advance(1)
    second = pynvml.nvmlGpmSampleGet(handle(), pynvml.nvmlGpmSampleAlloc())
    asked = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=5, sample1=first, sample2=second)
    for place, metric in enumerate((1, 2, 3, 5, 10)):
        asked.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(asked)
    assert [round(one.value, 6) for one in asked.metrics[:5]] == [50, 40, 20, 0, 10], "half the time, by the kernel"
    machine.gpu(0).gpm = 0
    assert not pynvml.nvmlGpmQueryDeviceSupport(handle()).isSupportedDevice
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmSampleGet(handle(), first)


def test_a_lost_gpu_and_a_missing_driver_end_what_waits_for_them(machine: Machine, start: Start) -> None:
    program = start()
    machine.speed(1)
    program.spin(3600)
    program.begin("cuCtxSynchronize")
    time.sleep(0.05)  # it waits
    machine.gpu(0).lost = 1
    with pytest.raises(Exception, match="999"):
        program.answer()
    machine.no_driver()
    assert Program(machine).code("cuInit", 0) == 100


def test_a_process_that_dies_holding_the_machine_leaves_one_that_goes_on(machine: Machine, start: Start) -> None:
    start()("cuMemAlloc", HANDLE, GIB)
    victim = start()
    machine.fail("cuMemAlloc_v2", KILLED)
    with pytest.raises(AssertionError, match="-9"):
        victim("cuMemAlloc", HANDLE, GIB)
    machine.mend()
    assert victim.pid not in processes()
    assert used() == GIB + 512 * MIB


def test_fifty_killed_trainers_leave_nothing_and_the_next_one_is_as_good_as_the_first(
    machine: Machine,
) -> None:
    """Killed at whatever moment, two at a time."""
    machine.speed(1)
    for round_ in range(25):
        endless = ("--step-us", "20", "--memory-mb", "4")
        with trainer(machine, *endless) as first, trainer(machine, *endless) as second:
            for one in (first, second):
                assert one.stdout is not None
                one.stdout.readline()
            time.sleep(round_ % 10 / 2000)
    assert (processes(), used()) == ({}, 0)
    machine.speed(0)
    assert trained(machine, "--steps", "3").splitlines()[-1] == "done"


def test_a_process_in_a_container_is_known_by_its_pid_outside(machine: Machine) -> None:
    if os.geteuid():
        pytest.skip("a pid namespace needs root's rights")
    path = f"{machine.env['LD_LIBRARY_PATH']}/trainer"
    inside = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", path, "--host-us", "2000"],
        env={**os.environ, **machine.env},
        stdout=subprocess.DEVNULL,
    )
    try:
        (pid,) = wait_until(processes, "its process")
        assert pid not in (1, inside.pid)
        status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert status["NSpid"].split() == [str(pid), "1"]
    finally:
        inside.kill()
        inside.wait()
    wait_until(lambda: not processes(), "its end")
