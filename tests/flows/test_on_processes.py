"""SQLite, one node, jobs as plain processes: the stack that `make demo` starts."""

import pytest

from tests.flows.journeys import Journeys
from tests.support.person import Person, alice
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Person:
    return alice(embedded_stack)


class TestOnProcesses(Journeys):
    def test_every_screen_may_say_that_it_is_not_isolated(self, user: Person) -> None:
        job = user.run("true")
        user.wait(job, "succeeded")
        (task,) = user.task_attempts(job)
        assert task["isolation"] == "process (not isolated)"
        assert "not isolated" in user.log_text(job, task["id"])
