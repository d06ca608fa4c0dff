"""An agent that parks: a real process on a real Engine, whose GPUs are made up, and the trainers that run on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml

from nodes.protocol.messages import ContainerReport
from nodes.protocol.parking import GpuState, GpuWish
from tests.support.cluster.portal_side import PortalSide
from tests.support.gpu.machine import Machine
from tests.support.images.images import PYTHON
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services

TRAINER = "exec trainer --memory-mb 64 --host-us 5000"


@contextmanager
def parking_agent(
    machine: Machine, services: Services, engine: DockerEngine, redis: RedisServer
) -> Iterator[PortalSide]:
    """A portal's end for an agent that has the machine's GPUs."""
    engine.ensure_image(PYTHON)
    env = {
        **machine.env,
        "BERTH_NODE_RUNTIME": "docker",
        "BERTH_NODE_DOCKER_URL": engine.url,
        "BERTH_NODE_GPUS": "nvml",
    }
    made = PortalSide(redis, services.new_folder("agent"), services.guard, env, None, name="gpu-parks")
    with engine.with_gpus(machine):
        made.start()
        yield made
        made.agent.stop()


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


def memory_limit(container: str) -> int:
    """MB by the kernel."""
    place = Path(f"/sys/fs/cgroup/memory/docker/{container}/memory.limit_in_bytes")
    return int(place.read_text()) >> 20
