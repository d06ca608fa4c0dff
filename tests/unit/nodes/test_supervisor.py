"""The supervisor over many lives: whatever is lost, late, doubled or restarted, the last list decides."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.agent.attempts.journal import Journal
from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.config.policy import Policy
from nodes.agent.runtimes.base import AttemptFailed, RuntimeContainer, Status
from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import ContainerSpec, Desired, Mount, Order, Stop, encode, spec_digest
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import Backlog, LastWords, MemoryRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.cluster.supervised_node import (
    KEY,
    SPECS,
    Node,
    SickBackend,
    desired,
    in_state,
    order,
    shown,
    wait_for,
)
from tests.support.run.waiting import wait_until

# ---------------------------------------------------------------- any order of messages

PHASES = list(Phase)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Desired], list[int | None]]:
    """Lists as a portal makes them, and what of them arrives when; None is a restart of the agent."""
    phases: dict[str, int] = {}
    lists = []
    for generation in range(1, draw(st.integers(2, 6)) + 1):
        spec = draw(st.sampled_from(SPECS))
        phases[spec.attempt] = draw(st.integers(phases.get(spec.attempt, 0), len(PHASES) - 1))
        orders = [order(one, PHASES[phases[one.attempt]]) for one in SPECS if one.attempt in phases]
        lists.append(desired(generation, *orders))
    arrivals = draw(st.lists(st.none() | st.integers(0, len(lists) - 1), max_size=10))
    return lists, [*arrivals, len(lists) - 1]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_lost_late_and_doubled_lists_and_restarts_end_where_the_last_list_says(
    tmp_path_factory: pytest.TempPathFactory, history: tuple[list[Desired], list[int | None]]
) -> None:
    lists, arrivals = history
    node = Node(tmp_path_factory.mktemp("node"))
    while arrivals:
        life = arrivals[: arrivals.index(None)] if None in arrivals else arrivals
        arrivals = arrivals[len(life) + 1 :]
        with node.life() as supervisor:
            for number in life:
                assert number is not None
                supervisor.take(lists[number])
            if not arrivals:
                for wanted in lists[-1].orders:
                    wait_until(partial(fulfilled, node, supervisor, wanted), f"{wanted}", every_s=0.005)
    assert all(count == 1 for count in node.runtime.starts.values())


def fulfilled(node: Node, supervisor: Supervisor, wanted: Order) -> bool:
    """True when the node is as the order says."""
    container, report = node.runtime.containers.get(wanted.attempt), shown(supervisor, wanted.attempt)
    if wanted.phase is Phase.REMOVE:
        return container is None and report is None
    if report is None:
        return False
    if wanted.phase is Phase.STOP:
        stopped = report.exit is not None and report.exit.cause is Cause.STOPPED
        return stopped and (container is None or container.status is not Status.RUNNING)
    status = {Phase.PREPARE: Status.CREATED, Phase.RUN: Status.RUNNING}[wanted.phase]
    return container is not None and container.status is status


# ---------------------------------------------------------------- generations and what is not known


def test_a_report_names_the_newest_list_and_holds_every_attempt_of_it(node: Node) -> None:
    with node.life() as supervisor:
        wait_until(lambda: supervisor.view().generation == 0, "the start")
        supervisor.take(desired(5, *(order(spec, Phase.PREPARE) for spec in SPECS)))
        view = wait_until(lambda: (v := supervisor.view()).generation == 5 and v, "the list")
        assert {c.attempt for c in view.containers} == {spec.attempt for spec in SPECS}
        assert {c.generation for c in view.containers} == {5}
        assert set(view.specs_known) == {spec_digest(encode(spec)) for spec in SPECS}


def test_a_list_for_another_node_or_cluster_is_not_taken(node: Node) -> None:
    with node.life() as supervisor:
        supervisor.take(replace(desired(7, order(SPECS[0], Phase.RUN)), node="gpu02"))
        supervisor.take(replace(desired(8, order(SPECS[0], Phase.RUN)), cluster="other"))
        supervisor.take(desired(1, order(SPECS[1], Phase.PREPARE)))
        wait_for(supervisor, SPECS[1], in_state(ContainerState.PREPARED))
        assert shown(supervisor, SPECS[0].attempt) is None


def test_until_the_runtime_was_read_once_nothing_is_said_of_any_list(node: Node) -> None:
    node.runtime.away = True
    with node.life() as supervisor:
        supervisor.take(desired(3, order(SPECS[0], Phase.RUN)))
        assert (supervisor.view().generation, supervisor.view().containers) == (0, ())
        node.runtime.away = False
        wait_for(supervisor, SPECS[0], in_state(ContainerState.RUNNING))
        assert supervisor.view().generation == 3


def test_an_id_that_is_a_path_is_not_taken(node: Node) -> None:
    with node.life() as supervisor:
        evil = spec_of("true", attempt="../../etc/x")
        supervisor.take(desired(1, order(evil, Phase.RUN), order(SPECS[0], Phase.PREPARE)))
        wait_for(supervisor, SPECS[0], in_state(ContainerState.PREPARED))
        assert shown(supervisor, evil.attempt) is None


def newer(spec: ContainerSpec) -> Order:
    """An order of a portal that is one release ahead: its specs have a field that this agent does not know."""
    encoded = json.dumps({**json.loads(encode(spec)), "elastic": {"least": 2}}).encode()
    sealed = PortalKey.seal_for(KEY.public, encoded)
    return replace(order(spec, Phase.RUN), spec_hash=spec_digest(encoded), spec=sealed)


def test_an_agent_takes_orders_of_a_portal_that_is_one_release_ahead(node: Node) -> None:
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, newer(spec)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        assert supervisor.view().specs_known == (newer(spec).spec_hash,)


def test_details_that_are_not_those_the_order_names_are_not_taken(node: Node) -> None:
    good, other = order(SPECS[0], Phase.RUN), order(replace(SPECS[0], script="false"), Phase.RUN)
    with node.life() as supervisor:
        supervisor.take(desired(1, replace(good, spec=other.spec)))
        waiting = wait_for(supervisor, SPECS[0], lambda report: report.progress is not None)
        assert waiting.progress is not None
        assert (waiting.progress.code, waiting.state) == ("spec", ContainerState.ACCEPTED)
        supervisor.take(desired(2, good))
        wait_for(supervisor, SPECS[0], in_state(ContainerState.RUNNING))


# ---------------------------------------------------------------- stops


def test_sigkill_follows_after_the_grace_and_not_before(node: Node) -> None:
    node.runtime.obeys = lambda number: number == SIGKILL
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP, Stop(reason=StopReason.DRAINED, grace_s=600))))
        wait_until(lambda: node.runtime.signals == [SIGTERM], "SIGTERM")
        node.clock.ahead_s = 590
        for _ in range(3):  # the second begins after the clock was put on, and is over with the third
            looks = node.runtime.looks
            supervisor.wake(spec.attempt)
            wait_until(lambda looks=looks: node.runtime.looks > looks, "a look")  # type: ignore[misc]
        assert not any(node.runtime.rests), "who waits for others is not told yet"
        node.clock.ahead_s = 596
        supervisor.wake(spec.attempt)
        wait_until(lambda: any(node.runtime.rests), "the last ones to be told")
        assert node.runtime.signals == [SIGTERM]
        node.clock.ahead_s = 601
        supervisor.wake(spec.attempt)
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert node.runtime.signals == [SIGTERM, SIGKILL]
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.stop_reason) == (Cause.STOPPED, StopReason.DRAINED)


def test_what_outlives_sigkill_is_told_and_keeps_its_gpus_until_it_is_gone(node: Node) -> None:
    node.runtime.obeys = lambda number: False
    spec = replace(SPECS[0], gpus=("GPU-1",))
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP)))
        wait_until(lambda: SIGKILL in node.runtime.signals, "SIGKILL")
        node.clock.ahead_s = 121
        supervisor.wake(spec.attempt)
        stuck = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert stuck.exit is not None
        assert (stuck.exit.cause, stuck.gpus) == (Cause.UNKILLABLE, ("GPU-1",))
        node.runtime.end(spec.attempt, 137)
        supervisor.wake(spec.attempt)
        freed = wait_for(supervisor, spec, lambda report: report.gpus == ())
        assert freed.exit is not None
        assert freed.exit.cause is Cause.UNKILLABLE


# ---------------------------------------------------------------- what comes with a list


def test_mirrors_of_registries_come_with_the_list(node: Node) -> None:
    told = replace(desired(1, order(SPECS[0], Phase.RUN)), mirrors={"docker.io": "mirror:5000"})
    with node.life() as supervisor:
        supervisor.take(told)
        wait_for(supervisor, SPECS[0], in_state(ContainerState.RUNNING))
    assert node.runtime.mirrors == {"docker.io": "mirror:5000"}


def test_a_task_finds_its_peers_when_it_starts_and_soon_after_they_change(node: Node) -> None:
    ordered, attempt = order(SPECS[0], Phase.RUN), SPECS[0].attempt
    with node.life() as supervisor:
        supervisor.take(desired(1, replace(ordered, peers=("10.0.0.7:80", "10.0.0.8:80"))))
        wait_for(supervisor, SPECS[0], in_state(ContainerState.RUNNING))
        assert node.runtime.peers == {attempt: "10.0.0.7:80\n10.0.0.8:80\n"}
        supervisor.take(desired(1, replace(ordered, peers=("10.0.0.7:80",))))
        wait_until(lambda: node.runtime.peers == {attempt: "10.0.0.7:80\n"}, "the file to say so")


# ---------------------------------------------------------------- GPUs that fail


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("", "hardware error Xid 79", Cause.DEVICE_FAULT),
        ("", "", Cause.EXITED),
        ("1 uncorrectable memory errors", "1 uncorrectable memory errors", Cause.EXITED),
    ],
)
def test_a_program_that_fails_on_a_gpu_that_turned_sick_meanwhile_is_not_to_blame(
    node: Node, before: str, after: str, cause: Cause
) -> None:
    gpus = node.gpus = SickBackend("2xA100-80GB", node="gpu01", held=dict)
    gpus.fault = before
    spec = replace(SPECS[0], gpus=(gpus.inventory()[0].uuid,))
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        gpus.fault = after
        node.runtime.end(spec.attempt, 1)
        supervisor.wake(spec.attempt)
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (cause, 1)
    assert ("GPU 0: hardware error Xid 79" in ended.exit.message) == (cause is Cause.DEVICE_FAULT)


# ---------------------------------------------------------------- the lease of a frozen container


@pytest.mark.parametrize("refusals", [0, 2], ids=["", "made while its disk was full"])
def test_a_container_that_is_frozen_for_its_log_keeps_its_lease(
    node: Node, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    disk = FullDisk(refusals)
    node.runtime = DiskFills(disk, output=Backlog)
    monkeypatch.setattr(os, "fsync", disk)
    root = node.folder / "storage"
    lease = root / "job" / ".berth" / "lease"
    lease.parent.mkdir(parents=True)
    lease.touch()
    os.utime(lease, (0, 0))
    mount = Mount(storage="home", root=str(root), source=str(root / "job"), target="/job")
    spec = replace(SPECS[0], mounts=(mount,), lease=str(lease), uid=os.getuid() or 5000)
    os.chown(lease.parent, spec.uid, -1)
    node.policy = Policy(mount_roots=(str(root),))
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        wait_until(lambda: lease.stat().st_mtime > 0, "the agent to touch the lease")
    assert not disk.refusals


@dataclass
class FullDisk:
    """Stands before ``os.fsync``: once it is full it refuses so many times."""

    refusals: int
    full: bool = False
    real: Callable[[int], None] = os.fsync

    def __call__(self, file: int) -> None:
        if self.full and self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        self.real(file)


class DiskFills(MemoryRuntime):
    """The disk is full once a container is made."""

    def __init__(self, disk: FullDisk, **options: Any) -> None:
        super().__init__(**options)
        self._disk = disk

    def create(self, *told: Any) -> RuntimeContainer:
        self._disk.full = True
        return super().create(*told)


# ---------------------------------------------------------------- ends


def test_an_end_is_told_together_with_its_last_lines(node: Node) -> None:
    node.runtime.output = LastWords
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.end(spec.attempt, 1)
        supervisor.wake(spec.attempt)
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert ended.exit is not None
        assert (ended.log_complete, ended.exit.log_tail) == (True, "last words\n")


def test_a_log_without_end_holds_no_end_up_for_longer_than_a_second(node: Node) -> None:
    node.runtime.output = Backlog
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.end(spec.attempt, 0)
        supervisor.wake(spec.attempt)
        assert not wait_for(supervisor, spec, in_state(ContainerState.TERMINATED)).log_complete


# ---------------------------------------------------------------- what an earlier agent left


def test_at_the_start_the_spool_of_a_removed_attempt_goes_and_that_of_a_known_one_stays(node: Node) -> None:
    kept, gone = SPECS[0], SPECS[1]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(kept, Phase.RUN), order(gone, Phase.REMOVE)))
        wait_for(supervisor, kept, in_state(ContainerState.RUNNING))
        wait_until(lambda: Journal(node.folder / "attempts").read(gone.attempt), "the tombstone")
    (node.folder / "logs" / gone.attempt).mkdir()
    with node.life() as supervisor:
        wait_until(lambda: not (node.folder / "logs" / gone.attempt).exists(), "the old spool to go")
        assert (node.folder / "logs" / kept.attempt).exists()


# ---------------------------------------------------------------- failures


def test_a_failed_preparation_is_the_end_and_its_log_is_whole(node: Node) -> None:
    node.runtime.fails = AttemptFailed(Cause.IMAGE_DENIED, "the registry refused busybox")
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        ended = wait_for(supervisor, spec, lambda report: report.log_complete)
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.message) == (Cause.IMAGE_DENIED, "the registry refused busybox")
        assert ended.started_ms is None


def test_a_runtime_that_is_away_fails_nothing(node: Node) -> None:
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.away = True
        supervisor.wake(spec.attempt)
        waiting = wait_for(supervisor, spec, lambda report: report.progress is not None)
        assert (waiting.state, waiting.exit) == (ContainerState.RUNNING, None)
        node.runtime.away = False
        node.runtime.end(spec.attempt, 0)
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 0)


def test_a_running_container_that_is_gone_has_vanished_and_is_not_made_again(node: Node) -> None:
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.remove(spec.attempt)
        supervisor.wake(spec.attempt)
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert ended.exit is not None
        assert ended.exit.cause is Cause.VANISHED
    assert node.runtime.starts[spec.attempt] == 1


def test_a_prepared_container_that_is_gone_is_made_again(node: Node) -> None:
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.PREPARE)))
        wait_for(supervisor, spec, in_state(ContainerState.PREPARED))
        node.runtime.remove(spec.attempt)
        supervisor.take(desired(2, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
