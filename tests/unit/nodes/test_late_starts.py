"""Nothing starts on a node that the portal may have given up, for its job may have begun elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.contact import Contact
from nodes.agent.runtimes.base import Image
from nodes.protocol.messages import ContainerReport, ContainerSpec, Progress
from nodes.protocol.states import ContainerState, Phase
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.supervised_node import SPECS, Node, ShiftedClock, desired, in_state, order, wait_for

SPEC = SPECS[0]
RUN = order(SPEC, Phase.RUN)
LOST_AFTER_S = 60


@dataclass
class SlowPull(MemoryRuntime):
    """Its images come when the test says so."""

    pulled: threading.Event = field(default_factory=threading.Event)

    def image(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        self.pulled.wait()
        return super().image(spec, mirrors=mirrors, progress=progress, cancelled=cancelled)


def waits(supervisor: Supervisor) -> None:
    wait_for(supervisor, SPEC, _waits_for_the_portal)


def _waits_for_the_portal(report: ContainerReport) -> bool:
    return report.progress is not None and report.progress.code == "portal"


def runs(supervisor: Supervisor) -> None:
    assert wait_for(supervisor, SPEC, in_state(ContainerState.RUNNING)).progress is None


def pulling_while_nobody_was_heard(tmp_path: Path, runtime: SlowPull) -> tuple[Node, Callable[[Supervisor], None]]:
    node = Node(tmp_path, runtime=runtime)

    def pull(supervisor: Supervisor) -> None:
        supervisor.take(desired(1, RUN))
        wait_for(supervisor, SPEC, in_state(ContainerState.PULLING))
        node.clock.ahead_s = 7200
        runtime.pulled.set()
        waits(supervisor)

    return node, pull


def test_a_pull_that_outlasts_the_portals_patience_starts_nothing_until_it_is_heard_again(tmp_path: Path) -> None:
    node, pull = pulling_while_nobody_was_heard(tmp_path, SlowPull())
    with node.life() as supervisor:
        pull(supervisor)
        node.contact.sent(2)
        supervisor.take(desired(1, RUN, answers=1))
        supervisor.take(desired(2, RUN, answers=0))
        waits(supervisor)
        assert not node.runtime.starts, "neither a list that was late nor one that nothing asked for tells anything new"
        supervisor.take(desired(2, RUN, answers=2))
        runs(supervisor)


def test_a_node_that_was_given_up_hears_so_before_it_starts_anything(tmp_path: Path) -> None:
    node, pull = pulling_while_nobody_was_heard(tmp_path, SlowPull())
    with node.life() as supervisor:
        pull(supervisor)
        node.contact.sent(2)
        supervisor.take(desired(2, order(SPEC, Phase.STOP), answers=2))
        wait_for(supervisor, SPEC, in_state(ContainerState.TERMINATED))
    assert not node.runtime.starts


def test_an_engine_that_was_away_meanwhile_starts_nothing(node: Node) -> None:
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.PREPARE)))
        wait_for(supervisor, SPEC, in_state(ContainerState.PREPARED))
        node.runtime.away = True
        supervisor.take(desired(2, RUN))
        wait_for(supervisor, SPEC, lambda report: report.progress is not None and report.progress.code == "engine")
        node.clock.ahead_s = LOST_AFTER_S
        node.runtime.away = False
        waits(supervisor)
    assert not node.runtime.starts


def test_a_list_that_waited_for_the_engine_is_as_old_as_it_is(node: Node) -> None:
    node.runtime.away = True
    with node.life() as supervisor:
        supervisor.take(desired(1, RUN))
        node.clock.ahead_s = LOST_AFTER_S
        node.runtime.away = False
        waits(supervisor)
    assert not node.runtime.starts


def test_a_restarted_agent_starts_what_is_prepared_once_the_portal_has_answered_it(node: Node) -> None:
    with node.life() as supervisor:
        supervisor.take(desired(1, order(SPEC, Phase.PREPARE)))
        wait_for(supervisor, SPEC, in_state(ContainerState.PREPARED))
    with node.life() as supervisor:
        supervisor.take(desired(2, RUN, answers=0))
        waits(supervisor)
        supervisor.take(desired(2, RUN, answers=700))
        waits(supervisor)
        assert not node.runtime.starts, "what answered an earlier life tells of that one"
        supervisor.take(desired(2, RUN))
        runs(supervisor)


# ---------------------------------------------------------------- how long an answer is good for


@pytest.mark.parametrize(("lost_after_s", "good_s"), [(60, 45), (15, 11.25), (600, 585)])
def test_an_answer_is_good_for_less_than_the_portals_patience_since_its_report(
    lost_after_s: int, good_s: float
) -> None:
    clock = ShiftedClock()
    contact = Contact(clock)
    assert not contact.holds()
    contact.sent(1)
    clock.ahead_s = good_s - 0.5
    contact.answered(1, lost_after_s=lost_after_s)
    assert contact.holds()
    clock.ahead_s = good_s
    assert not contact.holds()


def test_an_answer_to_an_older_report_takes_nothing_back() -> None:
    clock = ShiftedClock()
    contact = Contact(clock)
    contact.sent(1)
    clock.ahead_s = 40
    contact.sent(2)
    contact.answered(2, lost_after_s=60)
    contact.answered(1, lost_after_s=60)
    clock.ahead_s = 80
    assert contact.holds()
