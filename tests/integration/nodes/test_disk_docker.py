"""Room on a real Engine's disk, which is a small one: images that go and images that stay, a node that is full and has
room again, and a container that writes into its own layer without end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.clock import Clock, SystemClock
from nodes.agent.disk.guard import DiskGuard, DiskLimits, free_percent
from nodes.agent.disk.usage import TIMEOUTS, Timeouts
from nodes.agent.hardware.gpus.simulated import SimulatedBackend
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.hardware.inventory import InventoryReader
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.names import LABEL
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.portal_side import PortalSide, spec_of
from tests.support.cluster.supervised_node import ShiftedClock
from tests.support.run.archives import HELLO, packed
from tests.support.run.waiting import wait_until
from tests.support.services.code_server import CodeServer
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.engine_proxy import EngineProxy
from tests.support.services.redis_server import RedisServer
from tests.support.services.registry import Registry, image_made, image_pushed
from tests.support.services.services import Services

pytestmark = pytest.mark.docker
DISK_MB, IMAGE_MB = 300, 20
CLOCK = SystemClock()


@dataclass
class Small:
    """An Engine whose data lie on a disk of their own, and a registry that has what is deleted there."""

    engine: DockerEngine
    registry: Registry
    data: Path
    state: Path
    own_disk: Path | None = None
    wanted: set[str] = field(default_factory=set)
    layers: dict[str, int] = field(default_factory=dict)
    told: list[bool] = field(default_factory=list)

    def runtime(self, url: str = "") -> DockerRuntime:
        return DockerRuntime(
            cluster="berth", node="gpu01", url=url or self.engine.url, gpus=tuple, simulated=True, raises_limits=False,
            notices=self.state / "notices", workspaces=self.state / "workspaces", images=self.state / "images.json",
        )  # fmt: skip

    def guard(
        self, runtime: DockerRuntime, patience: Timeouts = TIMEOUTS, clock: Clock = CLOCK, **limits: Any
    ) -> DiskGuard:
        return DiskGuard(
            runtime=runtime, limits=DiskLimits(**limits), state=self.own_disk or self.state,
            folders={"logs": self.state / "logs"}, wanted=lambda: self.wanted, layers=self.layers.update, graces=dict,
            changed=self.told.append, clock=clock, every_s=0.2, patience=patience,
        )  # fmt: skip

    def name(self, image: str) -> str:
        return f"{self.registry.host}/lab/{image}:1"

    def there(self) -> set[str]:
        with self.engine.client() as client:
            return {tag.rpartition("/")[2].partition(":")[0] for image in client.images.list() for tag in image.tags}

    def filled(self, percent_free: float) -> Path:
        """A file that leaves so much."""
        path = self.data / "filler"
        total = DISK_MB << 20
        path.write_bytes(b"\0" * int(total * (free_percent(str(self.data)) - percent_free) / 100))
        return path


@pytest.fixture(scope="module")
def small(services: Services) -> Iterator[Small]:
    folder = services.new_folder("small")
    data = folder / "docker" / "data"
    data.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "small", data], check=True)
    engine = DockerEngine(folder / "docker", services.guard, bridge=False)
    registry = Registry(folder / "registry", services.guard)
    registry.start()
    engine.start()
    yield Small(engine, registry, data, services.new_folder("small-state"))
    engine.remove_containers()
    engine.stop()
    registry.stop()
    subprocess.run(["umount", "--lazy", data], check=True)


def test_unused_images_go_the_oldest_use_first_and_none_that_is_wanted(small: Small) -> None:
    runtime = small.runtime()
    store = runtime.store()
    with small.engine.client() as client:
        for name in ("old", "newer", "wanted", "used"):
            image_pushed(client, small.name(name), megabytes=IMAGE_MB)
        image_made(client, "mine:1", megabytes=IMAGE_MB)
        client.containers.create(small.name("used"), ["sh"])
        ids = {name: client.images.get(small.name(name)).id for name in ("old", "newer", "wanted", "used")}
    assert store is not None
    for at, name in enumerate(("wanted", "used", "old", "newer")):
        runtime._uses.note([str(ids[name])], 1000 + at)
    small.wanted = {small.name("wanted")}
    room = free_percent(str(small.data))

    small.guard(runtime, clean_percent=room - 1).look()
    assert small.there() == {"old", "newer", "wanted", "used", "mine"}, "there is room enough"
    small.guard(runtime, clean_percent=99, clean="off").look()
    assert small.there() == {"old", "newer", "wanted", "used", "mine"}
    small.guard(runtime, clean_percent=room + 5).look()
    assert small.there() == {"newer", "wanted", "used", "mine"}
    small.guard(small.runtime(), clean_percent=99).look()  # an agent that was restarted knows the uses
    assert small.there() == {"wanted", "used", "mine"}
    small.wanted = set()
    small.guard(runtime, clean_percent=99).look()
    assert small.there() == {"used", "mine"}
    small.guard(runtime, clean_percent=99, clean="all").look()
    assert small.there() == {"used"}


def test_a_full_disk_is_told_with_what_is_largest_until_there_is_room(small: Small) -> None:
    runtime = small.runtime()
    guard = small.guard(runtime, clean_percent=15, full_percent=5)
    guard.look()
    small.told.clear()
    assert (guard.state.full, guard.state.largest) == (False, ())
    (small.state / "logs").mkdir()
    (small.state / "logs" / "spool").write_bytes(b"x" * (3 << 20))
    with small.engine.client() as client:
        image_made(client, "kept:1", megabytes=20)
    filler = small.filled(3)
    guard.look()
    assert guard.state.full
    assert small.told == [False]
    guard.sizes.quick()
    guard.sizes.slow()
    told = {one.what: one.mb for one in guard.state.largest}
    assert told["images"] >= 20
    assert told["logs"] >= 3
    filler.write_bytes(b"\0" * (filler.stat().st_size - (DISK_MB << 20) // 40))
    guard.look()
    assert guard.state.full, "it opens when there is a little more room than what made it full"
    filler.unlink()
    guard.look()
    assert (guard.state.full, guard.state.largest) == (False, ())


@pytest.fixture
def own_disk(small: Small, tmp_path: Path) -> Iterator[Path]:
    """A disk on which only the agent's folder lies."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "own", tmp_path], check=True)
    small.own_disk = tmp_path
    yield tmp_path
    small.own_disk = None
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_full_disk_of_the_agents_own_folder_is_told_as_well_and_no_image_goes_for_it(
    small: Small, own_disk: Path
) -> None:
    with small.engine.client() as client:
        image_pushed(client, small.name("unused"))
    runtime = small.runtime()
    guard = small.guard(runtime, clean_percent=15, full_percent=5)
    gpus = SimulatedBackend("1xK80-12GB", node="gpu01", held=dict)
    inventory = InventoryReader(state=own_disk, runtime=runtime, gpus=gpus, suspension=Suspension(gpus, runtime, 0))
    guard.look()
    assert not guard.state.full
    assert inventory.read().disk_total_mb == DISK_MB, "the engine's disk has less room"
    (own_disk / "written").write_bytes(b"x" * (19 << 20) + b"x" * (900 << 10))
    guard.look()
    assert guard.state.full
    found = inventory.read()
    assert (found.disk_total_mb, found.disk_free_mb) == (20, 0)
    assert "unused" in small.there()
    (own_disk / "written").unlink()
    guard.look()
    assert not guard.state.full


@pytest.fixture
def slow_engine(small: Small, tmp_path: Path) -> Iterator[EngineProxy]:
    with closing(EngineProxy(tmp_path, small.engine.url)) as proxy:
        yield proxy


@pytest.fixture
def writers(small: Small) -> Iterator[dict[str, str]]:
    """Two tasks, of which each has written 5 MB; their containers' ids."""
    with small.engine.client() as client:
        image_made(client, "busybox:latest")
        made = {
            attempt: client.containers.run(
                "busybox:latest",
                ["sh", "-c", "dd if=/dev/zero of=/big bs=1M count=5; sleep 60"],
                detach=True,
                network_mode="host",
                labels={
                    LABEL.CLUSTER: "berth",
                    LABEL.NODE: "gpu01",
                    LABEL.ATTEMPT: attempt,
                    LABEL.JOB: f"job-{attempt}",
                },
            )
            for attempt in ("many-0", "few-0")
        }
        wait_until(lambda: all(b"records out" in one.logs() for one in made.values()), "5 MB")
        yield {attempt: str(container.id) for attempt, container in made.items()}
        for container in made.values():
            container.remove(force=True, v=True)


def test_a_container_that_takes_for_ever_to_count_hides_neither_a_full_disk_nor_the_others(
    small: Small, slow_engine: EngineProxy, writers: dict[str, str]
) -> None:
    slow_engine.held = f"{writers['many-0']}/json.size=1|system/df|containers/json.*size=1"
    small.layers.clear()
    runtime = small.runtime(slow_engine.url)
    guard = small.guard(runtime, Timeouts(quick_s=1, slow_s=3), clean_percent=15, full_percent=5)
    filler = small.filled(3)
    guard.open()
    try:
        wait_until(lambda: guard.state.full, "the full disk")
        wait_until(lambda: small.layers.get("few-0", 0) >= 5 << 20, "the other's layer")
        wait_until(
            lambda: "job-few-0" in {one.name for one in guard.state.largest}, "what is known to be large", deadline_s=90
        )
        assert "many-0" not in small.layers
        filler.unlink()
        wait_until(lambda: not guard.state.full, "room again")
    finally:
        guard.close()
        filler.unlink(missing_ok=True)


def test_one_that_took_too_long_is_measured_with_more_patience_after_a_while(
    small: Small, slow_engine: EngineProxy, writers: dict[str, str]
) -> None:
    small.layers.clear()
    clock = ShiftedClock()
    guard = small.guard(small.runtime(slow_engine.url), Timeouts(quick_s=0.3, slow_s=20), clock)
    slow_engine.held = "size=1"
    guard.sizes.quick()
    slow_engine.held = ""
    asked = len(slow_engine.seen)
    guard.sizes.slow()
    assert (small.layers, len(slow_engine.seen)) == ({}, asked), "not asked at once again"
    clock.ahead_s = 100
    guard.sizes.quick()
    assert small.layers == {}, "left to the patient"
    guard.sizes.slow()
    assert {attempt: taken >> 20 for attempt, taken in small.layers.items()} == {"many-0": 5, "few-0": 5}


def test_an_image_that_cannot_be_removed_keeps_no_other_and_a_name_that_is_none_keeps_nothing(
    small: Small, slow_engine: EngineProxy
) -> None:
    with small.engine.client() as client:
        for name in ("broken", "sound"):
            image_pushed(client, small.name(name), megabytes=1)
    runtime = small.runtime(slow_engine.url)
    for at, name in enumerate(("broken", "sound")):
        with small.engine.client() as client:
            runtime.store()._uses.note([str(client.images.get(small.name(name)).id)], 1000 + at)
    slow_engine.refused = "DELETE .*broken"
    small.wanted = {"No:Such:Name", "UPPER/case:1"}
    small.guard(runtime, clean_percent=100.5).look()
    small.wanted = set()
    assert "broken" in small.there()
    assert "sound" not in small.there()
    slow_engine.refused = ""
    small.guard(runtime, clean_percent=100.5).look()
    assert "broken" not in small.there()


@pytest.fixture(scope="module")
def agent(small: Small, services: Services, running_redis: RedisServer) -> Iterator[PortalSide]:
    env = {
        "BERTH_NODE_RUNTIME": "docker", "BERTH_NODE_DOCKER_URL": small.engine.url, "BERTH_NODE_DISK_CLEAN": "off",
        "BERTH_NODE_DISK_FULL_PERCENT": "5", "BERTH_NODE_DISK_EVERY_S": "0.2", "BERTH_NODE_LAYER_GB": "0.02",
        "BERTH_NODE_LAYER_GRACE_S": "2",
    }  # fmt: skip
    with small.engine.client() as client:
        image_made(client, "busybox:latest")
        image_made(client, "scratch:1", volume="/scratch")
    portal = PortalSide(
        running_redis, services.new_folder("disk-agent"), services.guard, env, services.agents, name="small01"
    )
    portal.start()
    yield portal
    portal.agent.stop()


def test_a_node_with_a_full_disk_takes_nothing_new_and_recovers_by_itself(small: Small, agent: PortalSide) -> None:
    def full() -> bool:
        report = agent.poll()
        return report is not None and report.inventory.disk_full

    running = agent.run("sleep 60", network="host")
    agent.wait_state(running, ContainerState.RUNNING)
    filler = small.filled(3)
    agent._until(full, "the full disk")
    refused = agent.wait_end(agent.run("true", network="host"))
    assert refused.exit is not None
    assert refused.exit.cause is Cause.NO_SPACE
    assert "takes nothing new" in refused.exit.message
    going_on = agent.container(running)
    assert going_on is not None
    assert going_on.state is ContainerState.RUNNING
    filler.unlink()
    agent._until(lambda: not full(), "room again")
    ended = agent.wait_end(agent.run("true", network="host"))
    assert ended.exit is not None
    assert ended.exit.code == 0
    agent.clear()


GROW = (
    "mkdir -p /tmp\ndd if=/dev/zero of=/tmp/big bs=1M count=40\nwhile [ ! -e $BERTH_NOTICE_FILE ]; do sleep 0.1; done\n"
)


def test_a_layer_that_grows_too_large_is_warned_of_and_its_container_stopped(small: Small, agent: PortalSide) -> None:
    stopped = agent.run(f"{GROW}cat $BERTH_NOTICE_FILE; sleep 60", network="host", profile="root")
    ended = agent.wait_end(stopped)
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL
    assert "its container wrote 40 MB outside all storages, more than the 20 MB" in ended.exit.message
    text = agent.text(stopped)
    assert "it is stopped in 2 s unless it deletes some" in text
    assert '"reason": "layer_full"' in text

    obeyed = ": > /tmp/big; sleep 3; while [ -e $BERTH_NOTICE_FILE ]; do sleep 0.1; done"
    tidy = agent.run(f"{GROW}{obeyed}; echo done", network="host", profile="root")
    ended = agent.wait_end(tidy)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)
    assert "its container has room again" in agent.text(tidy)
    agent.clear()


def test_a_volume_that_the_image_declares_counts_as_its_containers_layer(small: Small, agent: PortalSide) -> None:
    script = f"{GROW.replace('/tmp', '/scratch')}sleep 60"
    stopped = agent.run(script, image="scratch:1", network="host", profile="root")
    ended = agent.wait_end(stopped)
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL
    assert "its container wrote 40 MB outside all storages" in ended.exit.message
    agent.clear()
    with small.engine.client() as client:
        assert client.volumes.list() == [], "gone with its container"


def test_what_is_written_beside_the_code_counts_as_its_containers_layer(small: Small, agent: PortalSide) -> None:
    with closing(CodeServer()) as server:
        code = server.add(packed(HELLO))
        spec = spec_of(f"{GROW.replace('/tmp', '/workspace')}sleep 60", code=code, network="host", profile="root")
        agent.addresses[spec.attempt] = server.url(code)
        ended = agent.wait_end(agent.order(spec, Phase.RUN))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL
    assert "its container wrote 40 MB outside all storages" in ended.exit.message
    agent.clear()
