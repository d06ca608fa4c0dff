"""Deaths of the agent, the broker and the portal: no task stops, no line is lost, nothing runs twice."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from threading import Thread

from kombu.exceptions import OperationalError

from nodes.protocol.names import DESIRED_TASK, node_queue
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from tests.support.cluster.portal_side import COUNT, PortalSide, lines, spec_of
from tests.support.run.waiting import wait_until

# ---------------------------------------------------------------- an agent that dies


def test_a_task_runs_on_while_its_agent_is_dead_and_no_line_is_lost(portal: PortalSide) -> None:
    attempt = portal.run(COUNT.format(lines=200, pause="sleep 0.02; "))
    first = portal.wait(attempt, lambda c: c.log_end > 500)
    portal.agent.kill()
    portal.start()
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code, ended.container) == (Cause.EXITED, 0, first.container)
    assert portal.output(attempt) == lines(200)


def test_an_end_that_came_while_the_agent_was_dead_is_told(portal: PortalSide) -> None:
    attempt = portal.run("sleep 1; echo bye; exit 4")
    portal.wait_state(attempt, ContainerState.RUNNING)
    portal.agent.kill()
    time.sleep(1.2)  # the task ends meanwhile, and nobody is there to see it
    portal.start()
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.code) == (Cause.EXITED, 4)
    assert portal.output(attempt) == "bye\n"


def test_a_container_prepared_by_a_dead_agent_is_started_by_the_next(portal: PortalSide) -> None:
    spec = spec_of("echo hello")
    attempt = portal.order(spec, Phase.PREPARE)
    prepared = portal.wait_state(attempt, ContainerState.PREPARED)
    portal.agent.kill()
    portal.start()
    portal.order(spec, Phase.RUN)
    assert portal.wait_end(attempt).container == prepared.container
    assert portal.output(attempt) == "hello\n"


def test_an_end_is_remembered_over_restarts_and_nothing_runs_twice(portal: PortalSide) -> None:
    job, mounts = portal.shared()
    spec = spec_of("echo once >> $BERTH_JOB_DIR/runs", mounts=mounts, job_dir="/job")
    attempt = portal.order(spec, Phase.RUN)
    portal.wait_end(attempt)
    for _ in range(2):
        portal.agent.kill()
        portal.start()
        portal.order(spec, Phase.RUN)
        again = portal.wait(attempt, lambda c: c.generation == portal.generation and c.log_complete)
        assert again.exit is not None
        assert again.exit.code == 0
    assert (job / "runs").read_text() == "once\n"


def test_a_stop_goes_on_over_a_restart(portal: PortalSide) -> None:
    attempt = portal.run("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    portal.wait(attempt, lambda c: c.log_end > 0)
    portal.stop(attempt, grace_s=2)
    wait_until(lambda: "stopped" in portal.text(attempt), "the stop to be under way")
    portal.agent.kill()
    portal.start()
    ended = portal.wait_end(attempt)
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.stop_reason) == (Cause.STOPPED, StopReason.USER)


def test_an_agent_that_is_told_to_end_leaves_its_tasks_running(portal: PortalSide) -> None:
    attempt = portal.run("sleep 1.5; echo bye")
    running = portal.wait_state(attempt, ContainerState.RUNNING)
    assert portal.agent.stop() == 0
    portal.start()
    assert portal.wait_end(attempt).started_ms == running.started_ms
    assert portal.output(attempt) == "bye\n"


# ---------------------------------------------------------------- a portal and a broker that are away


def test_no_job_stops_while_the_broker_is_away(portal: PortalSide) -> None:
    attempt = portal.run(COUNT.format(lines=100, pause="sleep 0.02; "))
    portal.wait(attempt, lambda c: c.log_end > 0)
    portal.redis.kill()
    time.sleep(3)  # longer than the task takes
    portal.redis.start()
    ended = portal.wait_end(attempt, deadline_s=60)
    assert ended.exit is not None
    assert ended.exit.code == 0
    wait_until(lambda: portal.output(attempt) == lines(100), "the log to be whole again", deadline_s=60)


def test_orders_are_heard_again_after_the_broker_came_back_empty(portal: PortalSide) -> None:
    portal.redis.restart_empty()
    attempt = portal.run("echo hello")
    portal.wait_end(attempt, deadline_s=60)
    assert portal.output(attempt) == "hello\n"


def test_a_broker_that_dies_under_a_flood_of_orders_leaves_no_deaf_agent(portal: PortalSide) -> None:
    for _ in range(3):
        sent: list[str] = []
        flood = Thread(target=_flood, args=(portal, sent))
        flood.start()
        wait_until(partial(_has_sent, sent, 200), "the flood")
        portal.redis.kill()
        flood.join()
        portal.redis.start()
    attempt = portal.run("echo hello")
    portal.wait_end(attempt, deadline_s=60)
    assert portal.output(attempt) == "hello\n"


def _has_sent(sent: list[str], count: int) -> bool:
    return len(sent) >= count


def _flood(portal: PortalSide, sent: list[str]) -> None:
    """Sends lists until the broker is gone."""
    with suppress(OperationalError):
        while True:
            text, queue = portal.envelope(portal.desired()), node_queue(portal.name)
            portal.app.send_task(DESIRED_TASK, args=[text], queue=queue, retry=False)
            sent.append(text)


def test_a_container_that_no_order_names_runs_on_and_is_reported(portal: PortalSide) -> None:
    gpus = (portal.gpu(0),)
    attempt = portal.run("sleep 600", gpus=gpus)
    portal.wait_state(attempt, ContainerState.RUNNING)
    portal.forget(attempt)
    portal.agent.kill()
    portal.start()
    kept = portal.wait(attempt, lambda c: c.generation == portal.generation)
    assert (kept.state, kept.gpus) == (ContainerState.RUNNING, gpus)


def test_a_container_whose_record_was_lost_is_taken_up_by_its_labels(portal: PortalSide) -> None:
    attempt = portal.run("sleep 600", gpus=(portal.gpu(2),))
    before = portal.wait_state(attempt, ContainerState.RUNNING)
    portal.agent.kill()
    (portal.state / "attempts" / f"{attempt}.json").unlink()
    portal.start()
    kept = portal.wait_state(attempt, ContainerState.RUNNING)
    assert (kept.container, kept.gpus, kept.spec_hash) == (before.container, before.gpus, before.spec_hash)
