"""The tables of legal moves, pair by pair: what stands in no line here is refused."""

from collections.abc import Collection, Mapping

import pytest
from django.db import models

from portal.jobs.states import ATTEMPT_MOVES, JOB_MOVES, TASK_MOVES, AttemptState, JobState, TaskState

MOVES = {
    "job": """
        waiting: starting stopped failed
        starting: running waiting stopping succeeded failed stopped
        running: waiting stopping succeeded failed stopped
        stopping: succeeded failed stopped
        succeeded:
        failed:
        stopped:
    """,
    "attempt": """
        starting: running ending
        running: ending
        ending: ended
        ended:
    """,
    "task": """
        waiting: starting stopped
        starting: running waiting succeeded failed stopped
        running: waiting succeeded failed stopped
        succeeded: waiting
        failed: waiting
        stopped: waiting
    """,
}
TABLES: dict[str, tuple[Mapping[str, Collection[str]], type[models.TextChoices]]] = {
    "job": (JOB_MOVES, JobState),
    "attempt": (ATTEMPT_MOVES, AttemptState),
    "task": (TASK_MOVES, TaskState),
}


@pytest.mark.parametrize("kind", MOVES)
def test_the_moves_are_these_and_no_others(kind: str) -> None:
    table, states = TABLES[kind]
    names = {str(one.value) for one in states}
    expected = {
        old: set(new.split())
        for old, _, new in (line.strip().partition(":") for line in MOVES[kind].split("\n") if line.strip())
    }
    assert expected.keys() == names
    assert {name: set(table.get(name, ())) for name in names} == expected
