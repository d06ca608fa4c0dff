"""A task of a real agent on a real Engine is taken off its made-up GPU and put back, by orders and reports alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pynvml
import pytest

from nodes.protocol.messages import ContainerReport
from nodes.protocol.parking import SUSPEND, GpuState, GpuWish
from nodes.protocol.sessions import SessionFault
from nodes.protocol.states import Cause, ContainerState
from tests.integration.nodes.sessions.caller import shell
from tests.support.cluster.parking_agent import begun, goes_on, memory_limit, on, parking_agent, steps, turned
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
    machine: Machine, services: Services, running_docker: DockerEngine, running_redis: RedisServer
) -> Iterator[PortalSide]:
    with parking_agent(machine, services, running_docker, running_redis) as made:
        yield made


@pytest.fixture(autouse=True)
def clear(portal: PortalSide, machine: Machine) -> Iterator[None]:
    yield
    machine.mend()
    portal.clear()


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
    assert memory_limit(parked.container) == 256
    goes_on(portal, attempt)
    numbers = steps(portal, attempt)
    assert all(after == before + 1 for before, after in pairwise(numbers))


def killed(portal: PortalSide, attempt: str) -> ContainerReport:
    portal.stop(attempt, grace_s=600)
    return portal.wait_end(attempt)


def test_a_parked_task_is_ended_without_going_on(portal: PortalSide, machine: Machine) -> None:
    attempt = begun(portal, script="trap 'echo told' TERM; trainer --host-us 5000 & wait; wait")
    turned(portal, attempt, GpuWish.PARK, GpuState.PARKED)
    ended = killed(portal, attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.gpus) == (Cause.STOPPED, 137, ())
    assert "told" not in portal.output(attempt)
    assert on(machine) == {}


def test_a_shell_stands_still_with_its_task_and_none_is_opened_meanwhile(portal: PortalSide) -> None:
    attempt = begun(portal)
    with portal.redis.client() as redis:
        open_one = shell(portal, redis, attempt, "cat", tty=False)
        open_one.type("before\n")
        open_one.until("before")
        turned(portal, attempt, GpuWish.PARK, GpuState.PARKED)
        refused = shell(portal, redis, attempt).ended()
        assert (refused.fault, "parked" in refused.message) == (SessionFault.NOT_RUNNING, True)
        open_one.type("after\n")
        turned(portal, attempt, GpuWish.HOLD, GpuState.HELD)
        open_one.until("after")


@pytest.mark.parametrize("wish", list(GpuWish))
def test_an_engine_that_is_killed_changes_nothing_for_what_is_parked(
    portal: PortalSide, machine: Machine, docker_engine: DockerEngine, wish: GpuWish
) -> None:
    """Nor for what is on its way while it is away."""
    attempt = begun(portal)
    parked = turned(portal, attempt, GpuWish.PARK, GpuState.PARKED)
    docker_engine.kill()
    if wish is GpuWish.HOLD:
        portal.turn(attempt, wish)
        portal.wait(attempt, lambda c: c.generation == portal.generation)
    docker_engine.start()
    if wish is GpuWish.PARK:
        with portal.docker() as client:
            wait_until(lambda: client.containers.get(parked.container).status == "paused", "its pause")
        portal.turn(attempt, GpuWish.HOLD)
    portal.wait(attempt, lambda c: c.gpu is GpuState.HELD and c.turn == portal.orders[attempt].turn)
    assert len(on(machine)) == 1
    goes_on(portal, attempt)
