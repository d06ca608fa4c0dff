"""A node that is in trouble: what runs there is stopped and told all the same.

Its disk takes nothing or has lost something, its Engine is away just then, or others have forgotten its logs.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from structlog.testing import capture_logs

from nodes.clock import SystemClock
from nodes.journal import Journal
from nodes.layers import LayerRule, Measured
from nodes.policy import Policy
from nodes.protocol import (
    LABEL,
    STDOUT,
    Cause,
    ContainerReport,
    ContainerSpec,
    ContainerState,
    LogRecord,
    Phase,
    PortalKey,
    Stop,
    StopReason,
)
from nodes.runtimes.base import Found, RuntimeAway
from nodes.runtimes.docker_found import found_inspected
from nodes.saying import AGAIN_S
from nodes.sessions import Door
from nodes.supervisor import Supervisor
from tests.nodes.logs.support import Printed
from tests.nodes.memory_runtime import Backlog, MemoryRuntime
from tests.nodes.supervised import KEY, NO_REDIS, SPECS, Node, desired, in_state, order, shown, wait_for
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

STOP = Stop(reason=StopReason.PREEMPTED, grace_s=600)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fills the disk: nothing gets to it any more."""

    def refused(*file: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill() -> None:
        monkeypatch.setattr(os, "fsync", refused)
        monkeypatch.setattr(os, "write", refused)

    return fill


def soon(supervisor: Supervisor, spec: ContainerSpec, what: Callable[[ContainerReport], object]) -> ContainerReport:
    """Waits for what the next looks will show, and has them made."""

    def answer() -> ContainerReport | None:
        supervisor.wake(spec.attempt)
        report = shown(supervisor, spec.attempt)
        return report if report is not None and what(report) else None

    return wait_until(answer, spec.attempt, every_s=0.05)


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
    node.layers = LayerRule(1000, 0)
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        fill()
        supervisor.layers({spec.attempt: Measured(2000, node.clock.now_ms())})
        wait_until(lambda: spec.attempt in node.runtime.notices, "the warning")
        supervisor.layers({spec.attempt: Measured(2000, node.clock.now_ms())})
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


# ---------------------------------------------------------------- an Engine that is away just then


@dataclass
class Restarting(MemoryRuntime):
    """It is away when the first `deaf` signals are sent."""

    deaf: int = 0
    finds: int = 0

    def find(self, attempt: str) -> Found | None:
        self.finds += 1
        return super().find(attempt)

    def signal(self, attempt: str, number: int) -> None:
        if self.deaf:
            self.deaf -= 1
            raise RuntimeAway("the Docker Engine does not answer")
        super().signal(attempt, number)


def test_a_sigterm_that_did_not_get_through_is_sent_again_and_the_grace_begins_with_it(node: Node) -> None:
    runtime = node.runtime = Restarting(obeys=lambda number: number == SIGKILL, deaf=1)
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP, STOP)))
        wait_until(lambda: not runtime.deaf, "the signal that is lost")
        node.clock.ahead_s = 500
        wait_until(lambda: runtime.signals == [SIGTERM], "SIGTERM")
        node.clock.ahead_s = 1000
        looked = runtime.finds
        soon(supervisor, spec, lambda report: runtime.finds > looked + 1)
        assert runtime.signals == [SIGTERM]
        node.clock.ahead_s = 1200
        soon(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert runtime.signals == [SIGTERM, SIGKILL]


def test_an_engine_that_takes_no_sigterm_prolongs_the_grace_a_few_times_and_not_for_ever(node: Node) -> None:
    runtime = node.runtime = Restarting(deaf=1 << 30)
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP, STOP)))

        def begun() -> bool:
            supervisor.wake(spec.attempt)
            kept = Journal(node.folder / "attempts").read(spec.attempt)
            tried = (1 << 30) - runtime.deaf
            return tried > 5 and kept is not None and kept.stopping is not None and kept.stopping.term_at is not None

        wait_until(begun, "the grace to begin", every_s=0.05)
        runtime.deaf = 0
        node.clock.ahead_s = 601
        soon(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert runtime.signals == [SIGKILL]


@dataclass
class Asked(MemoryRuntime):
    """It counts how often it is asked for all that there is, and for shells to end."""

    looks: int = 0
    sweeps: int = 0

    def found(self) -> dict[str, Found]:
        self.looks += 1
        return super().found()

    def shells_end(self) -> None:
        self.sweeps += 1
        super().shells_end()


def test_an_engine_that_is_away_is_said_once_and_again_every_ten_minutes_and_so_is_its_return(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.supervisor.LOOK_EVERY_S", 0.02)
    runtime = node.runtime = Asked()

    def said_after(looks: int) -> list[str]:
        before = runtime.looks
        wait_until(lambda: runtime.looks > before + looks, "looks")
        return [line["event"] for line in lines if "runtime" in line["event"]]

    with capture_logs() as lines, node.life():
        assert said_after(2) == []
        runtime.away = True
        assert said_after(10) == ["the runtime does not answer"]
        node.clock.ahead_s = AGAIN_S
        assert said_after(10) == 2 * ["the runtime does not answer"]
        runtime.away = False
        told = [*2 * ["the runtime does not answer"], "the runtime answers again"]
        assert said_after(10) == told
        runtime.away = True
        assert said_after(10) == [*told, "the runtime does not answer"]


def test_shells_that_cannot_be_ended_while_the_engine_is_away_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.sessions.door.SWEEP_AGAIN_S", 0.02)
    runtime = Asked(away=True)
    door = Door(
        node="gpu01", key=KEY, portal_public_key=PortalKey.generate().public, boot=1, redis_url=NO_REDIS,
        runtime=runtime, policy=Policy(), shells=1, lease_still_s=0, clock=SystemClock(),
    )  # fmt: skip
    with capture_logs() as lines:
        door.open()
        wait_until(lambda: runtime.sweeps > 10, "sweeps")
        door.close()
    assert [line["error"] for line in lines if line["event"].startswith("shells")] == ["it does not answer"]


@dataclass
class Unkilling(MemoryRuntime):
    """Its containers obey SIGKILL alone, which gets through with `containerd`, and was `tried` so often before."""

    obeys: Callable[[int], bool] = lambda number: number == SIGKILL
    containerd: bool = False
    tried: int = 0

    def signal(self, attempt: str, number: int) -> None:
        if number == SIGKILL and not self.containerd:
            self.tried += 1
            raise RuntimeAway("the Engine cannot send a signal")
        super().signal(attempt, number)


def test_what_was_never_sent_sigkill_has_not_outlived_it(node: Node) -> None:
    runtime = node.runtime = Unkilling()
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP)))
        wait_until(lambda: runtime.tried, "the first SIGKILL")
    with node.life() as supervisor:
        supervisor.take(desired(2, order(spec, Phase.STOP)))
        node.clock.ahead_s, runtime.tried = 3600, 0
        waiting = soon(supervisor, spec, lambda report: runtime.tried > 1)
        assert waiting.exit is None
        runtime.containerd = True
        ended = soon(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert ended.exit.cause is Cause.STOPPED
    assert runtime.signals == [SIGTERM, SIGKILL]


def test_what_outlived_sigkill_is_sent_it_until_it_ends(node: Node) -> None:
    """Also by another life of the agent, and where the Engine is away between."""
    killable = False
    node.runtime = runtime = Restarting(obeys=lambda number: killable and number == SIGKILL)
    spec = replace(SPECS[0], gpus=("GPU-1",))
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        supervisor.take(desired(2, order(spec, Phase.STOP)))
        wait_until(lambda: SIGKILL in runtime.signals, "SIGKILL")
        node.clock.ahead_s = 121
        stuck = soon(supervisor, spec, in_state(ContainerState.TERMINATED))
        assert stuck.exit is not None
        assert stuck.exit.cause is Cause.UNKILLABLE
    with node.life() as supervisor:
        sent, runtime.deaf = len(runtime.signals), 1
        soon(supervisor, spec, lambda report: len(runtime.signals) > sent + 1)
        assert not runtime.deaf
        killable = True
        ended = soon(supervisor, spec, lambda report: report.log_complete and not report.gpus)
        assert ended.exit == stuck.exit


# ---------------------------------------------------------------- a machine that was started anew


@pytest.mark.parametrize(
    ("code", "starts", "kept", "cause"),
    [
        (0, 1, True, Cause.ENGINE_FAULT),
        (0, 0, True, Cause.EXITED),
        (3, 1, True, Cause.EXITED),
        (0, 1, False, Cause.EXITED),
    ],
    ids=["a status that an Engine makes up", "no start", "the program's own", "a record of an older agent"],
)
def test_a_status_that_an_engine_makes_up_is_no_programs_after_a_start_of_the_machine(
    node: Node, code: int, starts: int, kept: bool, cause: Cause
) -> None:
    """By whatever time the Engine says that the container ended: clocks are set right after a start."""
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
    journal = Journal(node.folder / "attempts")
    record = journal.read(spec.attempt)
    assert record is not None
    assert record.boot == node.clock.boot()
    if not kept:
        journal.write(replace(record, boot=""))
    details = {
        "Id": "c1",
        "State": {"Status": "exited", "ExitCode": code, "OOMKilled": False, "Error": "",
                  "StartedAt": "2026-11-25T09:00:00Z", "FinishedAt": "2026-11-25T12:00:00Z"},
        "Config": {"Labels": {LABEL.ATTEMPT: spec.attempt}, "Image": spec.image},
    }  # fmt: skip
    node.runtime.containers[spec.attempt] = found_inspected(details, status_lost=False)
    node.clock.starts += starts
    with node.life() as supervisor:
        ended = wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (cause, None if cause is Cause.ENGINE_FAULT else code)


# ---------------------------------------------------------------- a log whose end others must know


@pytest.mark.redis
def test_a_short_log_ends_after_a_start_of_the_machine_though_nothing_of_it_is_archived(
    node: Node, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than what is archived at once: the portal acknowledges nothing of it before its end."""
    node.redis_url = redis_server.url
    node.runtime.output = lambda: Printed([LogRecord(1, STDOUT, b"hello\n")], ended=True)
    monkeypatch.setattr("nodes.logs.spool.machine_boot", lambda: "one")
    spec = SPECS[0]
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, lambda report: report.log_end)
    node.runtime.end(spec.attempt, 137)
    with redis_server.client() as client:
        client.flushall()
    monkeypatch.setattr("nodes.logs.spool.machine_boot", lambda: "two")
    with node.life() as supervisor:
        supervisor.take(desired(2, replace(order(spec, Phase.RUN), begun=True)))
        wait_for(supervisor, spec, lambda report: report.log_complete)
        with redis_server.client() as client:
            wait_until(lambda: list(client.scan_iter("*:log:*")), "the log in Redis")


def test_a_log_that_does_not_end_is_looked_after_without_haste(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.runtime.output = Backlog
    spec, looks, real = SPECS[0], [0.0], node.runtime.find

    def counted(attempt: str) -> Found | None:
        looks.append(node.clock.monotonic())
        return real(attempt)

    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, in_state(ContainerState.RUNNING))
        node.runtime.end(spec.attempt, 0)
        supervisor.wake(spec.attempt)
        wait_for(supervisor, spec, in_state(ContainerState.TERMINATED))
        monkeypatch.setattr(node.runtime, "find", counted)
        wait_until(lambda: len(looks) > 2, "two looks")
    assert looks[2] - looks[1] > 0.5
