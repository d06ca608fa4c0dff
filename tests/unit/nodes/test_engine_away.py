"""An Engine that is away just then, or kills nobody: stops get through once it can, and are told as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from signal import SIGKILL, SIGTERM

import pytest
from structlog.testing import capture_logs

from nodes.agent.attempts.journal import Journal
from nodes.agent.clock import SystemClock
from nodes.agent.config.policy import Policy
from nodes.agent.log_throttle import AGAIN_S
from nodes.agent.runtimes.base import RuntimeContainer, RuntimeUnavailable
from nodes.agent.sessions.server import SessionServer
from nodes.protocol.envelope import PortalKey
from nodes.protocol.messages import Stop
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.supervised_node import KEY, NO_REDIS, SPECS, Node, desired, in_state, order, soon, wait_for
from tests.support.run.waiting import wait_until

STOP = Stop(reason=StopReason.PREEMPTED, grace_s=600)


@dataclass
class Restarting(MemoryRuntime):
    """It is away when the first `deaf` signals are sent."""

    deaf: int = 0
    finds: int = 0

    def find(self, attempt: str) -> RuntimeContainer | None:
        self.finds += 1
        return super().find(attempt)

    def signal(self, attempt: str, number: int) -> None:
        if self.deaf:
            self.deaf -= 1
            raise RuntimeUnavailable("the Docker Engine does not answer")
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

    def found(self) -> dict[str, RuntimeContainer]:
        self.looks += 1
        return super().found()

    def end_leftover_shells(self) -> None:
        self.sweeps += 1
        super().end_leftover_shells()


def test_an_engine_that_is_away_is_said_once_and_again_every_ten_minutes_and_so_is_its_return(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.agent.attempts.supervisor.POLL_EVERY_S", 0.02)
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
    monkeypatch.setattr("nodes.agent.sessions.server.SWEEP_AGAIN_S", 0.02)
    runtime = Asked(away=True)
    door = SessionServer(
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
            raise RuntimeUnavailable("the Engine cannot send a signal")
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
        assert waiting.progress is not None
        assert waiting.progress.message == "the Engine cannot send a signal", "what the portal's alert quotes"
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
