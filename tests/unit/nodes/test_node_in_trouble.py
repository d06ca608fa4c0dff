"""A node whose disk takes nothing or has lost something: what runs there is stopped and told all the same."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from nodes.agent.attempts.journal import Journal
from nodes.agent.disk.layer_limit import LayerLimit, LayerSize
from nodes.protocol.messages import Stop
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import Backlog
from tests.support.cluster.supervised_node import SPECS, Node, desired, in_state, order, shown, soon, wait_for
from tests.support.run.waiting import wait_until

STOP = Stop(reason=StopReason.PREEMPTED, grace_s=600)


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fills the disk: nothing gets to it any more."""

    def refused(*file: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill() -> None:
        monkeypatch.setattr(os, "fsync", refused)
        monkeypatch.setattr(os, "write", refused)

    return fill


def test_a_stop_is_obeyed_and_told_on_a_full_disk_and_recorded_once_there_is_room(
    node: Node, fill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.runtime.obeys = lambda number: number == SIGKILL
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        fill()
        supervisor.take(desired(2, order(spec, Phase.STOP, STOP)))
        wait_until(lambda: node.runtime.signals == [SIGTERM], "SIGTERM")
        node.clock.ahead_s = 601
        supervisor.wake(spec.attempt)
        ended = soon(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert ended.exit is not None
        assert (ended.exit.cause, ended.exit.stop_reason) == (Cause.STOPPED, StopReason.PREEMPTED)
        assert node.runtime.signals == [SIGTERM, SIGKILL]

        monkeypatch.undo()
        supervisor.wake(spec.attempt)
        journal = Journal(node.folder / "attempts")
        wait_until(lambda: (record := journal.read(spec.attempt)) and record.exit == ended.exit, "the record")


def test_a_container_whose_layer_fills_the_disk_is_stopped(node: Node, fill: Callable[[], None]) -> None:
    node.layers = LayerLimit(1000, 0)
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        fill()
        supervisor.layers({spec.attempt: LayerSize(2000, node.clock.now_ms())})
        wait_until(lambda: spec.attempt in node.runtime.notices, "the warning")
        supervisor.layers({spec.attempt: LayerSize(2000, node.clock.now_ms())})
        ended = soon(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.LAYER_FULL


def test_a_task_that_is_yet_to_start_waits_for_room(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, tries = SPECS[0], [0]

    def refused(file: int) -> None:
        tries[0] += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.PREPARE)))
        wait_for(supervisor, spec, in_state(ContainerState.PREPARED))
        monkeypatch.setattr(os, "fsync", refused)
        supervisor.take(desired(2, order(spec, Phase.RUN)))
        wait_until(lambda: tries[0] > 1, "two tries to record the start")
        assert node.runtime.starts[spec.attempt] == 0
        monkeypatch.undo()
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    assert node.runtime.starts[spec.attempt] == 1


def test_an_agent_that_starts_on_a_full_disk_keeps_all_of_its_tasks_and_obeys(
    node: Node, fill: Callable[[], None]
) -> None:
    node.runtime.output = Backlog
    waiting, running, last = SPECS
    with node.life() as supervisor:
        supervisor.take(desired(1, order(waiting, Phase.PREPARE), order(running, Phase.RUN), order(last, Phase.RUN)))
        wait_for(supervisor, waiting, in_state(ContainerState.PREPARED))
        wait_for(supervisor, running, in_state(ContainerState.RUNNING))
        wait_for(supervisor, last, in_state(ContainerState.RUNNING))
    fill()
    with node.life() as supervisor:
        supervisor.take(
            desired(2, order(waiting, Phase.PREPARE), order(running, Phase.STOP, STOP), order(last, Phase.RUN))
        )
        soon(supervisor, running, in_state(ContainerState.TERMINATED))
        assert supervisor.view().generation == 2
        report = shown(supervisor, last.attempt)
        assert report is not None
        assert (report.state, report.log_end > 0) == (ContainerState.RUNNING, True)
    assert node.runtime.signals == [SIGTERM]


def test_a_log_that_cannot_be_opened_keeps_no_other_attempt_from_its_keeper_and_none_from_its_stop(node: Node) -> None:
    broken, other = SPECS[0], SPECS[1]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(broken, Phase.RUN), order(other, Phase.RUN)))
        wait_for(supervisor, broken, in_state(ContainerState.RUNNING))
        wait_for(supervisor, other, in_state(ContainerState.RUNNING))
    spool = node.folder / "logs" / broken.attempt
    away, mended = node.folder / "away", node.folder / "mended"
    spool.rename(away)
    spool.symlink_to(spool)  # leads to nothing that could be opened or made
    mended.symlink_to(away)

    with node.life() as supervisor:
        supervisor.take(desired(2, order(broken, Phase.STOP), order(other, Phase.RUN)))
        soon(supervisor, broken, in_state(ContainerState.TERMINATED))
        wait_for(supervisor, other, in_state(ContainerState.RUNNING))
        threads = [thread.name for thread in threading.enumerate()]
        assert (threads.count(f"keep-{broken.attempt}"), threads.count(f"keep-{other.attempt}")) == (1, 1)
        mended.replace(spool)  # at once: its keeper looks again and again
        supervisor.wake(broken.attempt)
        wait_for(supervisor, broken, lambda report: report.log_complete)


def test_a_record_that_the_disk_has_lost_keeps_no_other_from_its_orders_and_nothing_runs_twice(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a container that runs, of one that is gone without the portal's having heard of it, and of none."""
    running, gone, other = SPECS
    with node.life() as supervisor:
        supervisor.take(desired(1, *(order(spec, Phase.RUN) for spec in SPECS)))
        for spec in SPECS:
            wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    node.runtime.containers.pop(gone.attempt)
    plain = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name in (f"{running.attempt}.json", f"{gone.attempt}.json"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with node.life() as supervisor:
        supervisor.take(desired(2, order(running, Phase.RUN), order(gone, Phase.RUN), order(other, Phase.STOP, STOP)))
        wait_for(supervisor, other, in_state(ContainerState.TERMINATED))
        wait_for(supervisor, running, in_state(ContainerState.RUNNING))
        lost = wait_for(supervisor, gone, in_state(ContainerState.TERMINATED))
        assert lost.exit is not None
        assert lost.exit.cause is Cause.VANISHED
        supervisor.take(desired(3, order(running, Phase.STOP), order(gone, Phase.REMOVE)))
        wait_for(supervisor, running, in_state(ContainerState.TERMINATED))
        wait_until(lambda: shown(supervisor, gone.attempt) is None, "nothing of it")
    assert set(node.runtime.starts.values()) == {1}


def test_a_container_that_was_made_and_not_noted_is_told_with_its_profile(node: Node) -> None:
    node.runtime.profiles = True
    spec = replace(SPECS[0], profile="root")
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.PREPARE)))
        wait_for(supervisor, spec, in_state(ContainerState.PREPARED))
    journal = Journal(node.folder / "attempts")
    record = journal.read(spec.attempt)
    assert record is not None
    journal.write(replace(record, container="", isolation="", state=ContainerState.PULLING))
    with node.life() as supervisor:
        supervisor.take(desired(2, order(spec, Phase.RUN)))
        running = wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    assert running.isolation == "memory, profile root"


def test_a_record_that_could_not_be_read_just_then_is_gone_on_with(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, plain = SPECS[0], Path.read_bytes
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    node.runtime.containers.pop(spec.attempt)
    refusals = [1]

    def read_bytes(path: Path) -> bytes:
        if path.name == f"{spec.attempt}.json" and refusals:
            refusals.pop()
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with node.life() as supervisor:
        wait_until(lambda: not refusals, "the start")
        supervisor.take(desired(2, order(spec, Phase.RUN)))
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.VANISHED
    assert node.runtime.starts[spec.attempt] == 1
