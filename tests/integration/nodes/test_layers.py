"""A container that has written too much into its own layer has its whole grace to delete some, however long the Engine
takes to count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from nodes.agent.attempts.journal import Journal, Record
from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.disk.layer_limit import GB, LayerLimit, LayerSize
from nodes.agent.disk.usage import SizeWatch, Timeouts
from nodes.protocol.messages import Stop
from nodes.protocol.names import LABEL, log_stream
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import Backlog
from tests.support.cluster.scripted_runtime import ScriptedNode
from tests.support.cluster.supervised_node import SPECS, Node, ShiftedClock, desired, in_state, order, wait_for
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

SPEC, MOST, GRACE_S, COUNT_S = SPECS[0], 50 * GB, 600, 60
JOB = {LABEL.CLUSTER: "berth", LABEL.NODE: "gpu01", LABEL.JOB: "alice/train#1", LABEL.ATTEMPT: SPEC.attempt}


@dataclass
class BothShifted(ShiftedClock):
    """People's clock goes with it."""

    def now_ms(self) -> int:
        return super().now_ms() + int(1000 * self.ahead_s)


@dataclass
class Written:
    """What a task has written, and an Engine that takes a minute to count it."""

    clock: BothShifted
    layer: int = 60 * GB
    volume: int = 0
    mounts: list[dict[str, str]] = field(default_factory=list)
    counts: int = 0
    broken: bool = False

    def answers(self) -> dict[str, Any]:
        return {
            "GET /containers/json": lambda _: (200, [{"Id": "c1", "Labels": JOB, "Mounts": self.mounts}]),
            "GET /containers/c1/json": lambda _: self._counted({"SizeRw": self.layer}),
            "GET /system/df": lambda _: (
                (500, {}) if self.broken else self._counted({"Volumes": [_volume(self.volume)]})
            ),
        }

    def _counted(self, told: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As it was when the count began."""
        self.clock.ahead_s += COUNT_S
        self.counts += 1
        return 200, told


def _volume(size: int) -> dict[str, Any]:
    return {"Name": "scratch", "UsageData": {"Size": size}}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node", clock=BothShifted(), layers=LayerLimit(MOST, GRACE_S))


@pytest.fixture
def written(node: Node) -> Written:
    assert isinstance(node.clock, BothShifted)
    return Written(node.clock)


@pytest.fixture
def supervisor(node: Node) -> Iterator[Supervisor]:
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        yield supervisor


@pytest.fixture
def sizes(supervisor: Supervisor, written: Written, tmp_path: Path) -> Iterator[SizeWatch]:
    with closing(ScriptedNode(tmp_path / "docker")) as docker:
        docker.engine.answers = written.answers() | {"GET /version": docker.engine.answers["GET /version"]}
        yield SizeWatch(
            runtime=docker.runtime, folders={}, layers=supervisor.layers, graces=supervisor.layer_graces,
            largest=lambda shares: None, clock=written.clock, every_s=60, patience=Timeouts(),
        )  # fmt: skip


def look(sizes: SizeWatch) -> None:
    """What its two threads do each minute."""
    sizes.quick()
    sizes.slow()


def record(node: Node) -> Record:
    found = Journal(node.folder / "attempts").read(SPEC.attempt)
    assert found is not None
    return found


def warned(node: Node) -> None:
    wait_until(lambda: record(node).layer_warned_ms, "the warning")


def test_a_task_that_deletes_all_after_its_warning_runs_on_however_long_it_takes_to_count(
    node: Node, written: Written, supervisor: Supervisor, sizes: SizeWatch
) -> None:
    look(sizes)
    warned(node)
    written.layer = 0
    written.clock.ahead_s += GRACE_S - 100
    look(sizes)
    assert written.counts == 1, "what took so long is not counted again before it has to be"
    written.clock.ahead_s += 200
    supervisor.wake(SPEC.attempt)
    look(sizes)
    assert written.counts == 2
    supervisor.wake(SPEC.attempt)
    wait_until(lambda: record(node).layer_warned_ms is None, "the end of its warning")
    assert record(node).stopping is None


def test_a_task_that_deletes_nothing_is_stopped_by_the_first_count_after_its_grace(
    node: Node, written: Written, supervisor: Supervisor, sizes: SizeWatch
) -> None:
    look(sizes)
    warned(node)
    written.clock.ahead_s += GRACE_S
    look(sizes)
    ended = wait_for(supervisor, SPEC, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL
    assert written.counts == 2


def test_a_volume_that_was_emptied_after_the_warning_is_counted_again_too(
    node: Node, written: Written, supervisor: Supervisor, sizes: SizeWatch
) -> None:
    written.layer, written.volume, written.mounts = 0, 60 * GB, [{"Type": "volume", "Name": "scratch"}]
    look(sizes)
    written.clock.ahead_s += 20 * COUNT_S
    look(sizes)
    warned(node)
    written.volume, written.broken = 0, True
    written.clock.ahead_s += GRACE_S
    look(sizes)
    assert record(node).stopping is None, "of the volume it is not known yet"
    written.broken = False
    written.clock.ahead_s += 20 * COUNT_S
    look(sizes)
    supervisor.wake(SPEC.attempt)
    wait_until(lambda: record(node).layer_warned_ms is None, "the end of its warning")
    assert record(node).stopping is None


def test_a_warning_outlives_the_agent_that_gave_it(node: Node) -> None:
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        supervisor.layers({SPEC.attempt: LayerSize(60 * GB, node.clock.now_ms())})
        warned(node)
    node.clock.ahead_s += GRACE_S
    with node.life() as supervisor:
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        supervisor.layers({SPEC.attempt: LayerSize(60 * GB, node.clock.now_ms())})
        ended = wait_for(supervisor, SPEC, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL


def delete_all(node: Node, supervisor: Supervisor) -> None:
    """Returns when the task is not warned any more."""
    supervisor.layers({SPEC.attempt: LayerSize(0, node.clock.now_ms())})
    supervisor.wake(SPEC.attempt)
    wait_until(lambda: not node.runtime.notices and record(node).layer_warned_ms is None, "no notice, and no warning")


def log_of(server: RedisServer) -> str:
    """The task's log, as far as it was sent."""
    with server.client() as client:
        entries: Any = client.xrange(log_stream("gpu01", SPEC.attempt))
    return b"".join(fields[b"data"] for _, fields in entries).decode("latin-1")


RELIEF = "has room again, with 0 MB outside all storages"


def test_the_notice_goes_when_the_layer_has_room_again_and_the_log_says_so(
    node: Node, redis_server: RedisServer
) -> None:
    node.redis_url, node.runtime.output = redis_server.url, Backlog
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        supervisor.layers({SPEC.attempt: LayerSize(60 * GB, node.clock.now_ms())})
        warned(node)
        assert '"layer_full"' in node.runtime.notices[SPEC.attempt]
        delete_all(node, supervisor)
        wait_until(lambda: RELIEF in log_of(redis_server), "the line in the log")


NOTICE = {SPEC.attempt: '{"reason": "layer_full"}'}


@pytest.mark.parametrize(
    ("notices", "noted"),
    [
        pytest.param(NOTICE, False, id="before it recorded that it had warned"),
        pytest.param(NOTICE, True, id="before it took the warning back"),
        pytest.param({}, True, id="when it had removed the notice alone"),
    ],
)
def test_the_notice_goes_though_the_agent_was_killed(
    node: Node, redis_server: RedisServer, notices: dict[str, str], noted: bool
) -> None:
    node.redis_url, node.runtime.output = redis_server.url, Backlog
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.RUN)))
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
    node.runtime.notices |= notices
    if noted:
        Journal(node.folder / "attempts").write(replace(record(node), layer_warned_ms=node.clock.now_ms()))
    with node.life() as supervisor:
        wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING))
        delete_all(node, supervisor)
        if noted:
            wait_until(lambda: RELIEF in log_of(redis_server), "the line in the log")


def test_the_notice_of_a_stop_stays_though_the_layer_has_room_again(node: Node, supervisor: Supervisor) -> None:
    node.runtime.obeys = lambda number: False
    supervisor.layers({SPEC.attempt: LayerSize(60 * GB, node.clock.now_ms())})
    warned(node)
    supervisor.take(desired(2, order(SPEC, Phase.STOP, Stop(reason=StopReason.USER, grace_s=600))))
    wait_until(lambda: '"user"' in node.runtime.notices[SPEC.attempt], "the notice of the stop")
    supervisor.layers({SPEC.attempt: LayerSize(0, node.clock.now_ms())})
    for _ in range(3):
        supervisor.wake(SPEC.attempt)
        sleep(0.1)
    assert '"user"' in node.runtime.notices[SPEC.attempt]
