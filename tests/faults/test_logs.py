"""A log while every process on its way is killed: each line reaches browser and archive once, and in order."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator

import pytest
from websockets.exceptions import WebSocketException

from nodes.protocol import MARK
from tests.support.person import Person, alice
from tests.support.stack import Stack
from tests.support.waiting import wait_until

MORE = 60
"""Lines that must come after each fault."""


class Browser:
    """Watches a log and comes back with its last offset whenever the line is cut."""

    def __init__(self, user: Person, task_attempt: str) -> None:
        self.rows: list[tuple[int, str]] = []
        self.ended = False
        self.broken: str | None = None
        self._user, self._attempt, self._offset = user, task_attempt, 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """Everything, with Berth's own lines."""
        return "".join(text for _, text in self.rows)

    @property
    def printed(self) -> str:
        """What the job printed."""
        return "".join(text for stream, text in self.rows if stream != MARK)

    @property
    def lines(self) -> int:
        return self.printed.count("\n")

    def close(self) -> None:
        self._closing.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not (self._closing.is_set() or self.ended or self.broken):
            with contextlib.suppress(WebSocketException, OSError):
                self._watch()
            self._closing.wait(0.2)

    def _watch(self) -> None:
        with self._user.log_socket(self._attempt, self._offset) as socket:
            while not (self._closing.is_set() or self.ended or self.broken):
                with contextlib.suppress(TimeoutError):
                    self._take(json.loads(socket.recv(timeout=1)))

    def _take(self, message: dict[str, object]) -> None:
        if message["type"] == "end":
            self.ended = True
        elif message["type"] == "records":
            if message["from"] != self._offset:
                self.broken = f"a message from {message['from']} after one to {self._offset}"
            self.rows += [(stream, text) for _, stream, text in message["records"]]  # type: ignore[attr-defined]
            self._offset = int(str(message["to"]))


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
    browser = Browser(user, task["id"])
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
