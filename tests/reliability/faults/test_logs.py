"""A log while every process on its way is killed: each line reaches browser and archive once, and in order."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster.stack import Stack
from tests.support.cluster.watching import Browser
from tests.support.people.person import Person, alice
from tests.support.run.waiting import wait_until

MORE = 60
"""Lines that must come after each fault."""


@pytest.fixture
def user(embedded_stack: Stack) -> Iterator[Person]:
    user = alice(embedded_stack)
    yield user
    user.clear()


def killed(name: str) -> Callable[[Stack], None]:
    return lambda stack: stack.restart(name)


FAULTS: dict[str, Callable[[Stack], None]] = {
    "the agent is killed": killed("here"),
    "the archiver is killed": killed("control"),
    "the reports' worker is killed": killed("reports"),
    "the web process is killed": killed("web"),
    "Redis is killed and loses everything": lambda stack: stack.redis.restart_empty(),
    "the agent is killed again": killed("here"),
}


def test_whatever_is_killed_every_line_comes_once_and_in_order(embedded_stack: Stack, user: Person) -> None:
    stop = embedded_stack.jobs_root / "stop"
    job = user.run(
        "i=0",
        f"while [ ! -e {stop} ]; do echo line $i; i=$((i+1)); sleep 0.02; done",
        'echo "that was $i"',
    )
    user.wait(job, "running")
    (task,) = user.task_attempts(job)
    browser = Browser(task["id"], user)
    try:
        wait_until(lambda: browser.lines > MORE, "the first lines")
        for fault, happen in FAULTS.items():
            before = browser.lines
            happen(embedded_stack)
            wait_until(lambda: browser.broken or browser.lines > before + MORE, f"lines after {fault}", deadline_s=60)  # noqa: B023
            assert browser.broken is None, f"{fault}: {browser.broken}"
        stop.touch()
        wait_until(embedded_stack.answers, "the web process")
        user.wait(job, "succeeded")
        wait_until(lambda: browser.ended, "the log's end")
    finally:
        stop.touch()
        browser.close()

    *counted, last = browser.printed.splitlines()
    assert counted == [f"line {n}" for n in range(len(counted))]
    assert last == f"that was {len(counted)}"
    assert user.log_text(job, task["id"]) == browser.text
