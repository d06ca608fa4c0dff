"""What must hold after every fault, whatever it was: asked of the database, the Engine and the logs themselves."""

import json
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

from nodes.protocol.logs import MARK
from nodes.protocol.names import LABEL
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

LINES_PER_RUN = 40
"""Lines that a job of `counting` prints."""


def counting(every_s: float = 0.25, lines: int = LINES_PER_RUN) -> tuple[str, ...]:
    """Commands of a job whose log tells whether a line was lost, doubled or reordered."""
    return (f"i=0; while [ $i -lt {lines} ]; do echo line $i; sleep {every_s}; i=$((i+1)); done",)


def counted(lines: int = LINES_PER_RUN) -> list[str]:
    """The log of such a job."""
    return [f"line {number}" for number in range(lines)]


def assert_all_is_well(user: Person, jobs: Collection[int], *, gone: Collection[str] = ()) -> None:
    """Wait until these jobs are over and cleared away, then check everything. `gone`: nodes that never come back."""
    for job in jobs:
        user.wait(job, "succeeded", "failed", "stopped", deadline_s=120)
    stack = user.stack
    _assert_cleared(stack, gone)
    _assert_ended_once(stack, jobs)
    _assert_no_leaf_twice(stack)
    _assert_no_task_twice(stack)


def assert_no_orphan(engine: DockerEngine, nodes: Iterable[str]) -> None:
    """No container of these nodes is left, running or not."""

    def left() -> list[str]:
        with engine.client() as client:
            labels = [f"{LABEL.NODE}={node}" for node in nodes]
            return [
                one.name or "" for label in labels for one in client.containers.list(all=True, filters={"label": label})
            ]

    wait_until(lambda: not left(), "every container to be removed", deadline_s=60)


def _assert_cleared(stack: Stack, gone: Collection[str]) -> None:
    """Every attempt's container is removed and its GPUs are free; those of nodes that are gone stay fenced."""
    rows = """SELECT n.name, t.id FROM jobs_taskattempt t JOIN hardware_node n ON n.id = t.node_id
              WHERE t.removed_at IS NULL"""
    wait_until(lambda: not _elsewhere(stack.sql(rows), gone), "every container to be removed", deadline_s=90)
    held = """SELECT n.name, a.id FROM jobs_allocation a JOIN jobs_taskattempt t ON t.id = a.task_attempt_id
              JOIN hardware_node n ON n.id = t.node_id WHERE a.released_at IS NULL"""
    assert _elsewhere(stack.sql(held), gone) == [], "GPUs held by attempts that are over"


def _elsewhere(rows: list[tuple[Any, ...]], gone: Collection[str]) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] not in gone]


def _assert_ended_once(stack: Stack, jobs: Collection[int]) -> None:
    for job in jobs:
        state, reason, message = stack.sql("SELECT state, end_reason, end_message FROM jobs_job WHERE id = %s", job)[0]
        codes = [row[0] for row in stack.sql("SELECT code FROM jobs_jobevent WHERE job_id = %s", job)]
        ends = [code for code in codes if code in ("succeeded", "failed", "stopped")]
        assert ends == [state], f"job {job} is {state} and ended as {ends}"
        assert reason, f"job {job} has no end reason"
        assert message, f"job {job} has no cause in words"
        attempts = stack.sql(
            "SELECT number, state, end_reason FROM jobs_jobattempt WHERE job_id = %s ORDER BY number", job
        )
        assert [row[0] for row in attempts] == list(range(1, len(attempts) + 1))
        assert all(state == "ended" and reason for _, state, reason in attempts), attempts
        opened_again = codes.count("task_back")  # one task each; of a gang that was lost the attempt had ended
        assert len(attempts) <= codes.count("attempt_ended") <= len(attempts) + opened_again
        assert codes.count("placed") >= len(attempts)


def _assert_no_leaf_twice(stack: Stack) -> None:
    """No GPU has two holders in the books, and none was ever used by two containers at once."""
    twice = "SELECT leaf_id FROM jobs_allocation WHERE released_at IS NULL GROUP BY leaf_id HAVING count(*) > 1"
    assert stack.sql(twice) == []
    rows = stack.sql(
        """SELECT a.leaf_id, t.started_at, t.ended_at FROM jobs_allocation a
           JOIN jobs_taskattempt t ON t.id = a.task_attempt_id
           WHERE t.started_at IS NOT NULL ORDER BY a.leaf_id, t.started_at"""
    )
    for before, after in pairwise(rows):
        if before[0] == after[0] and before[2] is not None:
            assert before[2] <= after[1], f"two containers held GPU row {before[0]} at once"


def _assert_no_task_twice(stack: Stack) -> None:
    """Of each task's attempts one ended before the next was made, or was given up with its node."""
    rows = stack.sql(
        "SELECT task_id, number, created_at, ended_at, lost_at FROM jobs_taskattempt ORDER BY task_id, number"
    )
    for before, after in pairwise(rows):
        if before[0] == after[0]:
            assert after[1] == before[1] + 1
            assert before[4] is not None or before[3] is not None, "a task's next attempt was made while one lived"


def assert_log(user: Person, job: int, expected: list[str], task: int = 0) -> None:
    """Every line there once and in order, over the websocket and over REST; lines of Berth's own left out."""
    attempt = user.task_attempts(job)[task]["id"]
    over_socket = "".join(user.log_pieces(attempt, marks=False)).splitlines()
    assert over_socket == expected
    records, offset = [], 0
    while True:
        answer = user.get(f"/jobs/{job}/logs?task_attempt={attempt}&offset={offset}")
        records += [text for _, stream, text in answer["records"] if stream != MARK]
        if answer["complete"]:
            break
        assert answer["next_offset"] > offset, json.dumps(answer)
        offset = answer["next_offset"]
    assert "".join(records).splitlines() == expected
