"""A task of a real agent on a real Engine is taken off its made-up GPU and put back, by orders and reports alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pynvml
import pytest

from nodes.protocol.messages import ContainerReport
from nodes.protocol.parking import SUSPEND, GpuState, GpuWish
from nodes.protocol.states import Cause, ContainerState
from tests.support.cluster.portal_side import PortalSide
from tests.support.gpu.machine import Machine, loaded
from tests.support.images.images import PYTHON
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services

pytestmark = [pytest.mark.docker, pytest.mark.root]

MEMORY_MB = 64
TRAINER = f"exec trainer --memory-mb {MEMORY_MB} --host-us 5000"


@pytest.fixture(scope="module")
def machine(services: Services) -> Iterator[Machine]:
    made = Machine(services.new_folder("gpus"))
    with loaded(made):
        pynvml.nvmlInit()
        yield made


@pytest.fixture(scope="module")
def portal(
    machine: Machine, services: Services, running_docker: DockerEngine, running_redis: RedisServer, images: None
) -> Iterator[PortalSide]:
    """A portal's end for an agent that has the machine's two GPUs."""
    env = {
        **machine.env,
        "BERTH_NODE_RUNTIME": "docker",
        "BERTH_NODE_DOCKER_URL": running_docker.url,
        "BERTH_NODE_GPUS": "nvml",
    }
    made = PortalSide(running_redis, services.new_folder("agent"), services.guard, env, None, name="gpu-parks")
    with running_docker.with_gpus(machine):
        made.start()
        yield made
        made.agent.stop()


@pytest.fixture(scope="module")
def images(running_docker: DockerEngine) -> None:
    running_docker.ensure_image(PYTHON)


@pytest.fixture(autouse=True)
def clear(portal: PortalSide, machine: Machine) -> Iterator[None]:
    yield
    machine.mend()
    portal.clear()


def begun(portal: PortalSide, gpu: int = 0, script: str = TRAINER) -> str:
    attempt = portal.run(script, gpus=(portal.gpu(gpu),), image=PYTHON)
    goes_on(portal, attempt)
    return attempt


def steps(portal: PortalSide, attempt: str) -> list[int]:
    return [int(number) for number in re.findall(r"^step (\d+) ", portal.output(attempt), re.MULTILINE)]


def goes_on(portal: PortalSide, attempt: str) -> None:
    before = len(steps(portal, attempt))
    wait_until(lambda: portal.poll() and len(steps(portal, attempt)) > before, "another step")


def turned(portal: PortalSide, attempt: str, gpu: GpuWish, state: GpuState) -> ContainerReport:
    portal.turn(attempt, gpu)
    turn = portal.orders[attempt].turn
    return portal.wait(attempt, lambda c: c.turn == turn and c.gpu is state)


def on(machine: Machine, index: int = 0) -> dict[int, int]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return {one.pid: one.usedGpuMemory >> 20 for one in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)}


def memory_limit(portal: PortalSide, container: str) -> int:
    """MB by the kernel."""
    place = Path(f"/sys/fs/cgroup/memory/docker/{container}/memory.limit_in_bytes")
    return int(place.read_text()) >> 20


def test_a_task_is_parked_while_another_has_its_gpu_and_goes_on_where_it_was(
    portal: PortalSide, machine: Machine
) -> None:
    inventory = portal.reports[-1].inventory
    assert SUSPEND in inventory.capabilities
    assert inventory.park_fault is None
    assert inventory.park_mb > 0
    attempt = begun(portal)
    (held,) = on(machine).values()
    parked = turned(portal, attempt, GpuWish.PARK, GpuState.PARKED)
    assert (parked.state, parked.gpus, parked.parked_mb, parked.fault) == (ContainerState.RUNNING, (), held, None)
    assert on(machine) == {}
    with portal.docker() as client:
        assert client.containers.get(parked.container).status == "paused"
    other = portal.run("trainer --steps 20", gpus=(portal.gpu(0),), image=PYTHON)
    ended = portal.wait_end(other)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)
    back = turned(portal, attempt, GpuWish.HOLD, GpuState.HELD)
    assert (back.gpus, back.parked_mb, back.fault) == ((portal.gpu(0),), 0, None)
    assert list(on(machine).values()) == [held]
    assert memory_limit(portal, parked.container) == 256
    goes_on(portal, attempt)
    numbers = steps(portal, attempt)
    assert all(after == before + 1 for before, after in pairwise(numbers))
