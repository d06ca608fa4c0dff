"""On the made-up machine, each container of a real Engine has the GPUs that it was given, and is parked from
outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pynvml
import pytest
from docker.models.containers import Container
from docker.types import DeviceRequest

from tests.support.gpu.machine import Machine
from tests.support.gpu.program import Program, trained
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

pytestmark = [pytest.mark.docker, pytest.mark.root]

MIB = 1 << 20
ASKS = """
import ctypes
library, count, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint(), ctypes.c_void_p()
uuid = ctypes.create_string_buffer(80)
library.nvmlInit_v2()
library.nvmlDeviceGetCount_v2(ctypes.byref(count))
library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
library.nvmlDeviceGetUUID(handle, uuid, 80)
print(count.value, uuid.value.decode())
"""
Begin = Callable[..., Container]


@pytest.fixture
def begin(machine: Machine, docker_engine: DockerEngine, python_image: str) -> Iterator[Begin]:
    """Starts a command in a container with these GPUs."""
    pynvml.nvmlInit()
    with docker_engine.with_gpus(machine), docker_engine.client() as client:

        def begun(command: str, *gpus: int, **options: Any) -> Container:
            uuids = [machine.gpu(index).uuid.decode() for index in gpus]
            request = DeviceRequest(driver="nvidia", device_ids=uuids, capabilities=[["gpu", "compute", "utility"]])
            return client.containers.run(
                python_image, command, detach=True, init=True, user="1000:1000", cap_drop=["ALL"],
                device_requests=[request], network_mode="none", **options,
            )  # fmt: skip

        yield begun


@pytest.fixture
def keeper(machine: Machine) -> Iterator[Program]:
    program = Program(machine)
    program("cuInit", 0)
    yield program
    program.end()


def on(index: int) -> dict[int, int]:
    """MiB by pid."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return {one.pid: one.usedGpuMemory // MIB for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)}


def pids(container: Container) -> set[int]:
    """Of its processes, as the machine knows them."""
    return {int(row[1]) for row in container.top()["Processes"]}


def steps(container: Container) -> list[str]:
    return [line for line in container.logs().decode().splitlines() if line.startswith("step ")]


def goes_on(container: Container) -> None:
    before = len(steps(container))
    wait_until(lambda: len(steps(container)) > before, "another step")


def switch(keeper: Program, pid: int, *calls: str) -> None:
    assert [keeper.code(f"cuCheckpointProcess{call}", pid, None) for call in calls] == [0] * len(calls)


def test_a_container_has_its_own_gpu_alone_and_its_processes_are_known_outside(begin: Begin) -> None:
    asks = begin(["python3", "-c", ASKS], 1)
    assert asks.wait()["StatusCode"] == 0
    assert asks.logs().decode() == "1 GPU-fa4e0001-0000-4000-8000-000000000001\n"
    trainers = [begin("trainer --host-us 5000", index) for index in (0, 1)]
    for index, container in enumerate(trainers):
        wait_until(partial(on, index), "its process")
        assert set(on(index)) <= pids(container)
        assert list(on(index).values()) == [512]
    trainers[0].kill()
    wait_until(lambda: not on(0), "the end of it")
    assert on(1)


def test_a_container_is_parked_and_paused_while_another_has_its_gpu_and_loses_nothing(
    machine: Machine, begin: Begin, keeper: Program
) -> None:
    arguments = "--steps 300 --memory-mb 32"
    alone = trained(machine, *arguments.split())
    container = begin(f"trainer {arguments} --host-us 2000", 0)
    wait_until(lambda: len(steps(container)) > 20, "some steps")
    ((pid, held),) = on(0).items()
    switch(keeper, pid, "Lock", "Checkpoint")
    container.pause()
    assert (held, on(0)) == (544, {})
    done = len(steps(container))
    other = begin("trainer --steps 50 --memory-mb 64", 0)
    assert other.wait()["StatusCode"] == 0
    assert len(steps(container)) == done < 300
    container.unpause()
    switch(keeper, pid, "Restore", "Unlock")
    assert container.wait()["StatusCode"] == 0
    assert container.logs().decode() == alone


def test_what_is_parked_counts_against_the_containers_memory(begin: Begin, keeper: Program) -> None:
    """Parked without room it is killed; with its limit raised before, it lives."""
    limits = {"mem_limit": "48m", "memswap_limit": "48m"}
    for raised in (False, True):
        container = begin("trainer --memory-mb 96 --host-us 2000", 0, **limits)
        goes_on(container)
        ((pid, _),) = on(0).items()
        if raised:
            container.update(mem_limit="256m", memswap_limit="256m")
        codes = [keeper.code(f"cuCheckpointProcess{call}", pid, None) for call in ("Lock", "Checkpoint")]
        if not raised:
            container.wait(timeout=30)  # the Engine notices a little later than the kernel
        container.reload()
        assert (codes[1] == 0, container.status == "running") == (raised, raised)
        if raised:
            switch(keeper, pid, "Restore", "Unlock")
            goes_on(container)
        container.remove(force=True)
        wait_until(lambda: not on(0), "its end")


def test_a_container_that_was_given_none_has_none(begin: Begin, machine: Machine, docker_engine: DockerEngine) -> None:
    with docker_engine.client() as client:
        container = client.containers.run("busybox:latest", "ls /run", detach=True, network_mode="none")
        container.wait()
        assert not re.search("gpu-machine", container.logs().decode())
