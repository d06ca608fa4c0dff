"""What driver and GPU tell of themselves, and what the agent reads of the GPU."""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import pynvml

from nodes.agent.hardware.gpus.activity import LEAST_S
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from tests.gpu_check.bench import MIB
from tests.gpu_check.failing import fail
from tests.gpu_check.readings import Gpu, free_memory

NOT_TOLD = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
"""Answers that are normal for some GPUs, drivers or rights."""

Tell = Callable[[dict[str, Any]], None]


def asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """None where there is nothing to tell. Raises Failed for any other error."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in NOT_TOLD:
            return None
        fail(f"{call.__name__}: {error}")


def look(tell: Tell) -> str:
    """The GPUs of this machine and who uses them, which is asked before anything is begun. Raises NVMLError."""
    pynvml.nvmlInit()
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpu = Gpu(pynvml.nvmlDeviceGetUUID(handle))
        mig = asked(pynvml.nvmlDeviceGetMigMode, handle)
        gpus.append({
            "index": index, "uuid": gpu.uuid, "name": pynvml.nvmlDeviceGetName(handle), "mib": gpu.total // MIB,
            "used_mib": gpu.used() // MIB, "pids": sorted(gpu.processes()), "mig": bool(mig and mig[0]),
        })  # fmt: skip
    tell({
        "gpus": gpus, "driver": pynvml.nvmlSystemGetDriverVersion(), "root": os.geteuid() == 0,
        "cuda": pynvml.nvmlSystemGetCudaDriverVersion(),
    })  # fmt: skip
    return f"{len(gpus)} GPUs"


def facts(uuid: str, tell: Tell) -> str:
    """Everything that is read, told; the sentence has the most important. Raises Failed."""
    gpu = Gpu(uuid)
    handle = gpu.handle
    driver, cuda = pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlSystemGetCudaDriverVersion()
    name = pynvml.nvmlDeviceGetName(handle)
    tell({
        "name": name, "uuid": uuid, "driver": driver, "cuda": cuda, "total_mib": gpu.total // MIB,
        "idle_mib": gpu.used() // MIB, "mig": asked(pynvml.nvmlDeviceGetMigMode, handle),
        "persistence": asked(pynvml.nvmlDeviceGetPersistenceMode, handle),
        "compute_mode": asked(pynvml.nvmlDeviceGetComputeMode, handle), "mig_profiles": mig_profiles(handle),
        "machine": platform.machine(), "kernel": platform.release(), "cores": os.cpu_count(),
        "free_memory_mib": free_memory() // MIB, "mps": os.path.exists("/usr/bin/nvidia-cuda-mps-control"),
        "agent_reads": (read := agent_reads(uuid)),
    })  # fmt: skip
    if read["fault"]:
        fail(f"the agent would fence this GPU: {read['fault']}")
    return f"{name}, {gpu.total // MIB:,} MiB, driver {driver}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def mig_profiles(handle: Any) -> list[dict[str, int]]:
    """The kinds of instances that the GPU could be split into."""
    found = []
    for slot in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            told = pynvml.nvmlDeviceGetGpuInstanceProfileInfoV(handle, slot)
        except pynvml.NVMLError:  # a profile that this GPU has not
            continue
        found.append({
            "slot": slot, "id": told.id, "slices": told.sliceCount, "fit": told.instanceCount,
            "multiprocessors": told.multiprocessorCount, "mib": told.memorySizeMB,
        })  # fmt: skip
    return found


def agent_reads(uuid: str) -> dict[str, Any]:
    """The agent's own description and sample of the GPU; counters tell of the time between two looks."""
    backend = NvmlBackend()
    try:
        backend.sample(lambda pid: None)
        time.sleep(LEAST_S + 0.05)
        sample = next(one for one in backend.sample(lambda pid: None) if one.uuid == uuid)
        info = next(one for one in backend.inventory() if one.uuid == uuid)
    finally:
        backend.close()
    return {**dataclasses.asdict(info), **dataclasses.asdict(sample)}
