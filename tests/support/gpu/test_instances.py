"""GPUs in instances (MIG), cut by NVIDIA's library and used by programs."""

from __future__ import annotations

from ctypes import byref, c_uint
from typing import Any

import pynvml
import pytest

from tests.support.gpu.conftest import Start
from tests.support.gpu.machine import Machine
from tests.support.gpu.program import HANDLE, INT, Program

MIB = 1 << 20
THREE_SLICES = 9
OUT_OF_MEMORY, NOT_SUPPORTED, NOT_READY = 2, 801, 600


def cut(gpu: Any, profile: int, start: int) -> str:
    """The UUID of the device that the instance makes."""
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, 4)
    instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, byref(place))
    pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    number = pynvml.nvmlGpuInstanceGetInfo(instance).id
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        if pynvml.nvmlDeviceGetGpuInstanceId(device) == number:
            return str(pynvml.nvmlDeviceGetUUID(device))
    raise AssertionError("the instance is no device")


@pytest.fixture
def halves(machine: Machine) -> list[str]:
    """The first GPU's, by UUID."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceSetMigMode(gpu, 1) == 0
    return [cut(gpu, THREE_SLICES, start) for start in (0, 4)]


def test_what_was_read_on_an_h200_can_be_had_and_no_more(machine: Machine) -> None:
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    found = {}
    for slot in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            one = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, slot, version=2)
        except pynvml.NVMLError_NotSupported:
            continue
        found[slot] = (one.id, one.sliceCount, one.instanceCount, one.multiprocessorCount, one.memorySizeMB)
    assert found == {
        0: (19, 1, 7, 16, 16384), 1: (14, 2, 3, 32, 33280), 2: (9, 3, 2, 60, 71424), 3: (5, 4, 1, 64, 71424),
        4: (0, 7, 1, 132, 143360), 7: (20, 1, 1, 16, 16384), 9: (15, 1, 4, 26, 33280),
    }  # fmt: skip
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceCreateGpuInstance(gpu, THREE_SLICES)
    pynvml.nvmlDeviceSetMigMode(gpu, 1)
    for _ in range(2):
        pynvml.nvmlDeviceCreateGpuInstance(gpu, THREE_SLICES)
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == pynvml.NVML_ERROR_IN_USE


def test_a_program_has_one_instance_and_its_memory_alone(machine: Machine, halves: list[str], start: Start) -> None:
    one, other = (start(CUDA_VISIBLE_DEVICES=uuid) for uuid in halves)
    assert one("cuDeviceGetCount", INT) == 1
    assert one("cuDeviceGetAttribute", INT, 16, 0) == 60
    room, total = one("cuMemGetInfo", HANDLE, HANDLE)
    assert (room, total) == (71424 * MIB - 512 * MIB, 71424 * MIB)
    one("cuMemAlloc", HANDLE, room)
    assert one.code("cuMemAlloc", HANDLE, 1) == OUT_OF_MEMORY
    assert other("cuMemGetInfo", HANDLE, HANDLE)[0] == room
    device = pynvml.nvmlDeviceGetHandleByUUID(halves[0])
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(device)
    assert (process.pid, process.usedGpuMemory, process.gpuInstanceId) == (one.pid, total, 1)


def test_instances_work_at_the_same_time_and_only_gpm_tells_how_much(
    machine: Machine, halves: list[str], start: Start
) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    one, other = (start(CUDA_VISIBLE_DEVICES=uuid) for uuid in halves)

    def samples() -> list[Any]:
        return [pynvml.nvmlGpmMigSampleGet(gpu, number, pynvml.nvmlGpmSampleAlloc()) for number in (1, 2)]

    before = samples()
    one.spin(1)
    other.spin(0.5)
    one("cuCtxSynchronize")
    assert other.code("cuStreamQuery", 0) == 0
    told = []
    for first, second in zip(before, samples(), strict=True):
        asked = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=1, sample1=first, sample2=second)
        asked.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        pynvml.nvmlGpmMetricsGet(asked)
        told.append(asked.metrics[0].value)
    assert told == [80, 40]
    for call in (pynvml.nvmlDeviceGetUtilizationRates, lambda gpu: pynvml.nvmlDeviceGetProcessUtilization(gpu, 0)):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(gpu)


def test_a_used_instance_is_not_destroyed(machine: Machine, halves: list[str], start: Start) -> None:
    program = start(CUDA_VISIBLE_DEVICES=halves[0])
    gpu, count = pynvml.nvmlDeviceGetHandleByIndex(0), c_uint()
    instances = (pynvml.c_nvmlGpuInstance_t * 7)()
    pynvml.nvmlDeviceGetGpuInstances(gpu, THREE_SLICES, instances, byref(count))
    compute = (pynvml.c_nvmlComputeInstance_t * 7)()
    pynvml.nvmlGpuInstanceGetComputeInstances(instances[0], 2, compute, byref(count))
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlComputeInstanceDestroy(compute[0])
    program.kill()
    pynvml.nvmlComputeInstanceDestroy(compute[0])
    pynvml.nvmlGpuInstanceDestroy(instances[0])
    assert Program(machine, {"CUDA_VISIBLE_DEVICES": halves[0]}).code("cuInit", 0) == 100


@pytest.mark.root
def test_a_program_on_an_instance_cannot_be_parked(machine: Machine, halves: list[str], start: Start) -> None:
    program, keeper = start(CUDA_VISIBLE_DEVICES=halves[0]), Program(machine)
    assert keeper.code("cuCheckpointProcessLock", program.pid, None) == 0
    assert keeper.code("cuCheckpointProcessCheckpoint", program.pid, None) == NOT_SUPPORTED
    assert keeper.code("cuCheckpointProcessUnlock", program.pid, None) == 0
    keeper.end()
