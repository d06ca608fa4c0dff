"""Agents killed, nodes gone, the broker emptied, the portal away: jobs run on, and no line is lost."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.protocol.names import LABEL
from portal.node_orders.services.desired import EXPIRES_S
from tests.reliability.faults.conftest import LOST_AFTER_S
from tests.support.cluster.invariants import assert_all_is_well, assert_log, assert_no_orphan, counted, counting
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, carol
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

PORTAL = ("web", "scheduler", "reports", "control")
NODES = ("gpu01", "gpu02")


@pytest.fixture
def stack(shaky_stack: Stack) -> Stack:
    return shaky_stack


@pytest.fixture
def user(shaky_user: Person) -> Person:
    return shaky_user


def running(user: Person, *jobs: int) -> None:
    for job in jobs:
        user.wait(job, "running")


def started_over(user: Person, jobs: list[int]) -> list[int]:
    return [user.job(job)["retries"] for job in jobs]


def test_containers_outlive_their_killed_agents_and_are_adopted_with_their_whole_log(
    stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    """Agents die while containers run, while one ends, and while one is being stopped."""
    long = user.run(*counting(), name="long", instances=2)
    short = user.run(*counting(0.02), name="short")
    running(user, long)
    for name in NODES:
        stack.kill9(name)
    stopped = user.run("true", name="late")
    user.stop(long)
    for name in NODES:
        stack.restart(name)
    user.wait(short, "succeeded")
    assert_log(user, short, counted())
    assert user.wait(long, "stopped")["retries"] == 0
    assert_all_is_well(user, [long, short, stopped])
    assert_no_orphan(running_docker, NODES)


def test_a_redis_that_comes_back_empty_in_mid_job_costs_no_line_and_no_start(
    stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    jobs = [user.run(*counting(), name=f"job{number}") for number in range(2)]
    for job in jobs:
        user.wait_line(job, "line 3")
    stack.redis.restart_empty()
    late = user.run(*counting(0.02), name="late")
    for job in (*jobs, late):
        user.wait(job, "succeeded", deadline_s=90)
        assert_log(user, job, counted())
    assert started_over(user, [*jobs, late]) == [0, 0, 0]
    assert_all_is_well(user, [*jobs, late])
    assert_no_orphan(running_docker, NODES)


@pytest.mark.parametrize(
    "away_s",
    [
        pytest.param(LOST_AFTER_S * 1.5, id="longer than a node may be silent"),
        pytest.param(600.0, id="ten minutes", marks=[pytest.mark.soak, pytest.mark.timeout(1500)]),
    ],
)
def test_a_portal_and_broker_that_are_away_stop_and_requeue_nothing(
    stack: Stack, user: Person, running_docker: DockerEngine, away_s: float
) -> None:
    lines = int(away_s * 2) + 40
    lasting = user.run(*counting(0.5, lines), name="lasting")
    ending = user.run(*counting(0.1), name="ending")
    running(user, lasting, ending)
    for name in PORTAL:
        stack.kill9(name)
    stack.redis.kill()
    back_at = time.monotonic() + away_s
    wait_until(lambda: time.monotonic() > back_at, "the time to pass", deadline_s=away_s * 2, every_s=0.5)
    stack.redis.start()
    for name in PORTAL:
        stack.restart(name)
    stack.wait_ready()
    assert started_over(user, [lasting, ending]) == [0, 0]
    user.wait(ending, "succeeded")
    user.wait(lasting, "succeeded", deadline_s=90)
    assert_log(user, lasting, counted(lines))
    assert_log(user, ending, counted())
    assert started_over(user, [lasting, ending]) == [0, 0]
    assert stack.sql("SELECT count(*) FROM hardware_nodeevent WHERE code = 'lost'") == [(0,)]
    assert_all_is_well(user, [lasting, ending])
    assert_no_orphan(running_docker, NODES)


def test_a_node_that_is_gone_for_good_has_its_job_requeued_on_the_other(
    stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    job = user.run("echo attempt $BERTH_JOB_ATTEMPT", *counting(), gpu=4, name="moves")
    user.wait_line(job, "line 1")
    (first,) = user.task_attempts(job)
    assert first["node"] in NODES
    stack.kill9(first["node"])
    _kill_containers(running_docker, first["node"])
    user.wait_for(job, lambda one: one["retries"] == 1, deadline_s=LOST_AFTER_S * 4)
    user.wait(job, "succeeded", deadline_s=90)
    (second,) = user.task_attempts(job)
    assert second["node"] != first["node"]
    assert_log(user, job, ["attempt 2", *counted()])
    assert [attempt["end_reason"] for attempt in user.attempts(job)] == ["succeeded", "node_lost"]
    assert first["node"] in user.attempts(job)[1]["end_message"]
    stack.restart(first["node"])
    assert_all_is_well(user, [job])
    assert_no_orphan(running_docker, NODES)


def test_a_job_folder_never_has_two_writers_though_the_old_container_still_runs(
    stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    """The agent is dead, its container is not: the next attempt waits for the lease in the folder to stand still."""
    job = user.run(
        'until [ -e "$BERTH_JOB_DIR/stop" ]; do echo $BERTH_JOB_ATTEMPT >>"$BERTH_JOB_DIR/writers"; sleep 0.1; done',
        gpu=4,
        name="writes",
    )
    folder = stack.jobs_root / user.name / "writes-1"
    running(user, job)
    (first,) = user.task_attempts(job)
    stack.kill9(first["node"])
    waiting = wait_until(lambda: _waiting_for_lease(user, job), "the second attempt to wait", deadline_s=90)
    assert waiting == f"attempt 1 on {first['node']} still writes"
    assert set(_writers(folder)) == {"1"}
    _kill_containers(running_docker, first["node"])
    user.wait_for(job, lambda one: one["state"] == "running" and one["retries"] == 1, deadline_s=60)
    wait_until(lambda: "2" in _writers(folder), "the second attempt to write")
    (folder / "stop").touch()
    user.wait(job, "succeeded")
    writers = _writers(folder)
    assert writers == sorted(writers), "no line of attempt 1 after the first of attempt 2"
    stack.restart(first["node"])
    assert_all_is_well(user, [job])
    assert_no_orphan(running_docker, NODES)


UNTIL_OVER = 'i=0; until [ -e "$BERTH_JOB_DIR/over" ]; do echo line $i; sleep 0.25; i=$((i+1)); done'


def test_what_comes_back_with_its_node_goes_on_or_counts_unless_it_was_begun_anew(
    stack: Stack, user: Person, running_docker: DockerEngine
) -> None:
    """The agent of a node stands still until its tasks are given up and its order to stop has expired, and goes on."""
    with _cordoned(stack, "gpu01"):
        other = carol(stack)
        filler = other.run("sleep 900", gpu=4, name="filler")
        running(other, filler)
    with _cordoned(stack, "gpu02"):
        goes_on = user.run(UNTIL_OVER, name="goes-on")
        done = user.run(UNTIL_OVER, name="done")
        fails = user.run(UNTIL_OVER, "exit 3", name="fails")
        moves = user.run('echo $BERTH_JOB_ATTEMPT >>"$BERTH_JOB_DIR/writers"', UNTIL_OVER, gpu=0, name="begun-anew")
        for job in (goes_on, done, fails, moves):
            user.wait(job, "running", deadline_s=240)
    stack.processes["gpu01"].suspend()
    for name in ("done", "fails"):
        _let_end(stack, user, name)
    waits = wait_until(lambda: _waiting_for_lease(user, moves), "the job to begin anew", deadline_s=240)
    assert waits == "attempt 1 on gpu01 still writes"
    back_at = time.monotonic() + EXPIRES_S + 1
    wait_until(lambda: time.monotonic() > back_at, "the order to expire", deadline_s=60, every_s=0.5)
    assert [user.job(job)["state"] for job in (goes_on, done, fails)] == ["waiting"] * 3
    stack.processes["gpu01"].resume()

    assert user.wait(goes_on, "running", deadline_s=120)["retries"] == 0
    assert user.wait(done, "succeeded", deadline_s=120)["retries"] == 0
    failed = user.wait(fails, "failed", deadline_s=120)
    assert (failed["retries"], failed["exit_code"]) == (0, 3)
    user.wait_for(moves, lambda one: one["state"] == "running" and one["retries"] == 1, deadline_s=120)
    for name in ("goes-on", "begun-anew"):
        _let_end(stack, user, name)
    for job in (goes_on, moves):
        user.wait(job, "succeeded")
    assert started_over(user, [goes_on, moves]) == [0, 1]
    for job in (goes_on, done, fails, moves):
        lines = user.log_to_its_end(user.task_attempts(job)[0]["id"]).splitlines()
        assert_log(user, job, counted(sum(line.startswith("line") for line in lines)))
    new, old = user.tasks(moves)[0]["attempts"]
    assert (old["node"], old["stop_reason"], new["node"], new["cause"]) == ("gpu01", "lost", "gpu02", "exited")
    assert old["ended_at"] < new["started_at"]
    assert _writers(stack.jobs_root / user.name / "begun-anew-1") == ["1", "2"]
    other.stop(filler)
    assert_all_is_well(other, [filler])
    assert_all_is_well(user, [goes_on, done, fails, moves])
    assert_no_orphan(running_docker, NODES)


@contextmanager
def _cordoned(stack: Stack, node: str) -> Iterator[None]:
    with stack.client("root") as root:
        assert root.patch(f"/nodes/{node}", json={"intent": "cordoned", "reason": "a test"}).is_success
        yield
        assert root.patch(f"/nodes/{node}", json={"intent": "open"}).is_success


def _let_end(stack: Stack, user: Person, name: str) -> None:
    (stack.jobs_root / user.name / f"{name}-1" / "over").touch()


def _writers(folder: Path) -> list[str]:
    return (folder / "writers").read_text().split()


def _waiting_for_lease(user: Person, job: int) -> str:
    newest = user.task_attempts(job)[0]
    return str(newest["progress"].get("message", "")) if newest["progress"].get("code") == "lease" else ""


def _kill_containers(engine: DockerEngine, node: str) -> None:
    with engine.client() as client:
        for container in client.containers.list(filters={"label": f"{LABEL.NODE}={node}"}):
            container.kill()
