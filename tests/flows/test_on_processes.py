"""SQLite, one node, jobs as plain processes: the stack that `make demo` starts."""

import pytest

from berth.model import Metrics
from tests.flows.journeys import TRAINER, Journeys
from tests.support.person import Person, alice
from tests.support.stack import Stack
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Person:
    return alice(embedded_stack)


def measured(user: Person, job: int) -> Metrics | None:
    """The curves of its first task, once there is a reading of its processes."""
    curves = user.berth.jobs.metrics(job)
    return curves if any(one.metric == "memory" and any(one.max) for one in curves.series) else None


class TestOnProcesses(Journeys):
    def test_every_screen_may_say_that_it_is_not_isolated(self, user: Person) -> None:
        job = user.run("true")
        user.wait(job, "succeeded")
        (task,) = user.task_attempts(job)
        assert task["isolation"] == "process (not isolated)"
        assert "not isolated" in user.log_text(job, task["id"])

    def test_the_curves_of_a_running_task_are_live_and_its_hours_count(self, user: Person) -> None:
        job = user.run(TRAINER, gpu=1, name="measured")
        user.wait_line(job, "training")
        curves = wait_until(lambda: measured(user, job), "a reading of the task")
        (utilisation,) = [one for one in curves.series if one.metric == "gpu_utilisation"]
        assert 0 <= (utilisation.mean[-1] or 0) <= 100
        assert len(utilisation.mean) == len(curves.times)
        held = [row.gpu_hours for row in user.berth.usage(by=["user"]).rows if row.user == user.name]
        assert held[0] > 0
