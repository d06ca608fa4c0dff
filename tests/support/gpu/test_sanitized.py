"""The libraries make no mistake of memory or arithmetic: they are built with the compiler's sanitizers, which end a
program at the first one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gpu.build import built
from tests.support.gpu.machine import Machine
from tests.support.gpu.program import HANDLE, INT, Program

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MIB = 1 << 20


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    """Beside a machine's, of a program that was not built with them."""
    tried = ["gcc", *SANITIZERS, "-x", "c", "-", "-o", "/dev/null"]
    if subprocess.run(tried, input="int main(void) { return 0; }", text=True, capture_output=True).returncode:
        pytest.skip("this compiler has no sanitizers")
    folder = built(*SANITIZERS)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    return {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}


@pytest.mark.parametrize("arguments", [(), ("--graph",), ("--managed-mb", "2"), ("--memory-mb", "5")])
def test_a_trainer_makes_none(machine: Machine, env: dict[str, str], arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [Path(env["LD_LIBRARY_PATH"]) / "trainer", "--steps", "1500", *arguments],
        env={**machine.env, **env},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("done\n")


def test_streams_events_graphs_errors_and_memory_make_none(machine: Machine, env: dict[str, str]) -> None:
    program = Program(machine, env).opened()
    stream = program("cuStreamCreate", HANDLE, 0)
    events = [program("cuEventCreate", HANDLE, 0) for _ in range(1024)]
    assert program.code("cuEventCreate", HANDLE, 0) == 2
    for event in events:
        program("cuEventRecord", event, stream)
        program("cuStreamWaitEvent", 0, event, 0)
    program("cuStreamBeginCapture", stream, 0)
    for _ in range(100):
        program.spin(0.001, stream)
    graph = program("cuStreamEndCapture", stream, HANDLE)
    ready = program("cuGraphInstantiate", HANDLE, graph, 0)
    for _ in range(12):
        program("cuGraphLaunch", ready, stream)
    program("cuGraphDestroy", graph)
    program("cuStreamSynchronize", stream)
    program("cuGraphExecDestroy", ready)
    for event in events:
        program("cuEventDestroy", event)
    program("cuStreamDestroy", stream)
    blocks = [program("cuMemAlloc", HANDLE, 1 + 700 * number) for number in range(50)]
    for block in blocks[::-2]:
        program("cuMemFree", block)
    for image in ("", "no kernels\n", "gpu-machine kernels\nhalf a line", "gpu-machine kernels\nx flies 1 2 3 4 5\n"):
        assert program.code("cuModuleLoadData", HANDLE, image) == 200
    assert program.code("cuLaunchKernel", program.kernels["spin"], 1, 1, 0, 32, 1, 1, 0, 0, [1], None) == 1
    assert program.code("cuDevicePrimaryCtxReset", 0) == 0
    assert program.code("cuCtxSynchronize") == 201
    program.end()


@pytest.mark.root
def test_parking_makes_none(machine: Machine, env: dict[str, str]) -> None:
    program, keeper = Program(machine, env).opened(), Program(machine, env)
    block = program("cuMemAlloc", HANDLE, 3 * MIB)
    program("cuMemsetD32", block, 9, 3 * MIB // 4)
    for _ in range(3):
        for call in ("Lock", "Checkpoint", "Restore", "Unlock"):
            assert keeper.code(f"cuCheckpointProcess{call}", program.pid, None) == 0
        assert program("cuMemcpyDtoH", INT, block, 4) == 9
    program.end()
    keeper.end()


NVIDIA = """
import ctypes
from pynvml import *

nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
for call in (nvmlDeviceGetUUID, nvmlDeviceGetName, nvmlDeviceGetPciInfo_v3, nvmlDeviceGetMemoryInfo,
             nvmlDeviceGetPowerUsage, nvmlDeviceGetUtilizationRates, nvmlDeviceGetRemappedRows):
    call(gpu)
nvmlDeviceGetComputeRunningProcesses_v3(gpu)
nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)
nvmlDeviceGetFieldValues(gpu, [82, 83, 143, 144, 145, 230, 999])
nvmlDeviceGetProcessUtilization(gpu, 0)
for wrong in (lambda: nvmlDeviceGetHandleByIndex(2), lambda: nvmlDeviceGetHandleByUUID("GPU-none"),
              lambda: nvmlDeviceGetGpuInstanceById(gpu, 3), lambda: nvmlDeviceGetMigDeviceHandleByIndex(gpu, 9)):
    try:
        wrong()
    except NVMLError:
        continue
    raise AssertionError
samples = [nvmlGpmSampleAlloc() for _ in range(2)]
for sample in samples:
    nvmlGpmSampleGet(gpu, sample)
asked = c_nvmlGpmMetricsGet_t(version=1, numMetrics=1, sample1=samples[0], sample2=samples[1])
for sample in samples:
    nvmlGpmSampleFree(sample)
events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(gpu, 8, events)
assert nvmlEventSetWait_v2(events, 10).eventData == 48
other, count = nvmlDeviceGetHandleByIndex(1), ctypes.c_uint()
nvmlDeviceSetMigMode(other, 1)
for profile in (9, 14, 19):
    instance = nvmlDeviceCreateGpuInstance(other, profile)
    slot = {9: 2, 14: 1, 19: 0}[profile]
    compute = nvmlGpuInstanceCreateComputeInstance(instance, slot)
    nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, 0)
    nvmlDeviceGetUUID(nvmlDeviceGetMigDeviceHandleByIndex(other, 0))
    nvmlComputeInstanceDestroy(compute)
nvmlShutdown()
"""


def test_nvidias_library_makes_none(machine: Machine, env: dict[str, str]) -> None:
    machine.raise_xid(0, 48)
    program = Program(machine, env).opened()
    program.spin(0.1)
    program("cuCtxSynchronize")
    ran = subprocess.run([sys.executable, "-c", NVIDIA], env={**machine.env, **env}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    program.end()
