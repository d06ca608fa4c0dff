"""An agent tells that its runtime does not answer once that has lasted, and until it answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery import Celery

from nodes.agent.assembly import Agent
from nodes.agent.config.options import key_make, options_load
from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.engine_watch import AWAY_AFTER_S, EngineWatch
from nodes.protocol.envelope import PortalKey
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.supervised_node import Node, ShiftedClock, desired
from tests.support.run.waiting import wait_until


def unanswered(watch: EngineWatch, error: Exception) -> None:
    with pytest.raises(type(error)), watch.asked():
        raise error


def test_it_is_told_after_a_minute_and_no_more_after_an_answer() -> None:
    clock = ShiftedClock()
    watch = EngineWatch(clock)
    unanswered(watch, RuntimeUnavailable("gone"))
    clock.ahead_s += AWAY_AFTER_S - 5
    unanswered(watch, RuntimeUnavailable("still gone"))
    assert watch.away() == ""
    clock.ahead_s += 6
    assert watch.away() == "still gone"
    with watch.asked():
        assert watch.away() == "still gone", "it has not answered yet"
    assert watch.away() == ""
    clock.ahead_s += 1000
    assert watch.away() == "", "nobody has asked since"
    unanswered(watch, RuntimeUnavailable("gone"))
    assert watch.away() == "", "the time begins anew"


def test_a_runtime_that_hangs_is_told_while_it_is_waited_for() -> None:
    clock = ShiftedClock()
    watch = EngineWatch(clock)
    with watch.asked():
        clock.ahead_s += AWAY_AFTER_S
        assert watch.away() == "it gives no answer"


def test_an_answer_that_cannot_be_understood_is_none() -> None:
    clock = ShiftedClock()
    watch = EngineWatch(clock)
    unanswered(watch, KeyError("Labels"))
    clock.ahead_s += AWAY_AFTER_S
    assert watch.away() == "'Labels'"


def test_an_agent_that_starts_while_its_runtime_is_dead_tells_it_and_obeys_once_it_answers(tmp_path: Path) -> None:
    node = Node(tmp_path, MemoryRuntime(away=True))
    with node.life() as supervisor:
        supervisor.take(desired(7))
        assert supervisor.engine_away() == ""
        node.clock.ahead_s = AWAY_AFTER_S
        wait_until(supervisor.engine_away, "the runtime to be told away")
        assert supervisor.view().generation == 0
        node.runtime.away = False
        wait_until(lambda: not supervisor.engine_away(), "the runtime's answer")
        wait_until(lambda: supervisor.view().generation == 7, "the list that waited")


def test_the_next_report_says_it(tmp_path: Path) -> None:
    told = {
        "NAME": "gpu01", "REDIS_URL": "redis://127.0.0.1:1/0", "PORTAL_PUBLIC_KEY": PortalKey.generate().public,
        "STATE_DIR": str(tmp_path), "DOCKER_URL": f"unix://{tmp_path}/none.sock", "GPUS": "simulated:4xA100-80GB",
        "LISTENERS_EVERY_S": "0",
    }  # fmt: skip
    key_make(tmp_path / "node.key")
    clock = ShiftedClock()
    options = options_load([], {f"BERTH_NODE_{name}": value for name, value in told.items()})
    agent = Agent(options, Celery("agent", set_as_current=False), clock)
    agent.open()
    try:
        wait_until(lambda: agent._supervisor._engine._why, "the first question")
        assert agent._reporter.report().inventory.engine_away == ""
        clock.ahead_s = AWAY_AFTER_S
        report = agent._reporter.report()
        assert report.inventory.engine_away.startswith("no Docker Engine answers at ")
        assert report.generation == 0
    finally:
        agent.close()
