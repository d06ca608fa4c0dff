"""Two tasks take turns on one GPU while their agent is killed at any moment, and their Engine now and then."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pynvml
import pytest

from nodes.protocol.parking import GpuState, GpuWish
from nodes.protocol.states import Cause
from tests.support.cluster.parking_agent import begun, goes_on, on, parking_agent, steps, turned
from tests.support.cluster.portal_side import PortalSide
from tests.support.gpu.machine import Machine, loaded
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services

pytestmark = [pytest.mark.docker, pytest.mark.root]

SWITCH_S = 1.6
"""About what a change of turns takes here."""
ENGINE_TOO = 0.15


@dataclass
class Watch:
    """Looks at a GPU all the time; ``most``: processes that were on it at once."""

    machine: Machine
    most: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, len(on(self.machine)))


@pytest.fixture
def machine(services: Services) -> Iterator[Machine]:
    made = Machine(services.new_folder("gpus"))
    with loaded(made):
        pynvml.nvmlInit()
        yield made


@pytest.fixture
def portal(
    machine: Machine, services: Services, docker_engine: DockerEngine, redis_server: RedisServer
) -> Iterator[PortalSide]:
    with parking_agent(machine, services, docker_engine, redis_server) as made:
        yield made


@pytest.mark.parametrize("kills", [10, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(3 * 3600)])])
def test_tasks_that_take_turns_lose_nothing_whenever_their_agent_is_killed(
    portal: PortalSide, machine: Machine, docker_engine: DockerEngine, kills: int
) -> None:
    chance, died_at = random.Random(kills), Counter[str]()
    off = begun(portal)
    turned(portal, off, GpuWish.PARK, GpuState.PARKED)
    here = begun(portal)
    ended = 0
    with Watch(machine) as watch:
        for _ in range(kills):
            portal.turn(here, GpuWish.PARK)
            portal.turn(off, GpuWish.HOLD)
            time.sleep(chance.uniform(0, SWITCH_S))
            portal.agent.kill()
            died_at.update(step(portal, attempt) for attempt in (here, off))
            if chance.random() < ENGINE_TOO:
                docker_engine.restart()
            portal.start()
            here, off = off, here
            if gone := settled(portal, here, off):
                ended += 1
                assert gone == here
                here = begun(portal)
    assert watch.most == 1, "never were two on it"
    for attempt in (here, off):
        numbers = steps(portal, attempt)
        assert all(after == before + 1 for before, after in pairwise(numbers)), "no step was lost"
    goes_on(portal, here)
    turned(portal, here, GpuWish.PARK, GpuState.PARKED)
    turned(portal, off, GpuWish.HOLD, GpuState.HELD)
    goes_on(portal, off)
    print(f"{kills} kills, {ended} tasks ended by their node's fault; died at {dict(died_at)}")
    assert len(died_at) > (2 if kills < 100 else 8)


def settled(portal: PortalSide, here: str, off: str) -> str | None:
    """Waits until one has the GPU and the other is parked, or an attempt has ended with its reason; that one."""

    def found() -> list[str | None] | None:
        report = portal.poll()
        told = {one.attempt: one for one in report.containers} if report else {}
        if told.keys() < {here, off}:
            return None
        for attempt in (here, off):
            if (exit := told[attempt].exit) is not None:
                assert exit.cause is Cause.DEVICE_FAULT, exit
                assert exit.said["says"].startswith(("node_park", "node_gpu"))
                return [attempt]
        at_rest = (told[here].gpu, told[off].gpu) == (GpuState.HELD, GpuState.PARKED)
        current = all(told[one].turn == portal.orders[one].turn for one in (here, off))
        return [None] if at_rest and current else None

    (attempt,) = wait_until(found, "one on its GPU, the other parked", deadline_s=60, every_s=0.05)
    if attempt is None:
        told = portal.container(here)
        portal.wait(here, lambda c: c.log_end > (told.log_end if told else 0))
    return attempt


def step(portal: PortalSide, attempt: str) -> str:
    """The step that its record names."""
    with contextlib.suppress(FileNotFoundError):
        record = msgspec.json.decode((portal.state / "attempts" / f"{attempt}.json").read_bytes())
        return str(record["parking"]["step"])
    return ""
