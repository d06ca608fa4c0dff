"""Somebody who watches a log in a browser while parts of the portal go away."""

import contextlib
import itertools
import json
import threading

from websockets.exceptions import WebSocketException

from nodes.protocol.logs import MARK
from tests.support.people.person import Person


class Browser:
    """Watches a log and comes back with its last offset whenever the line is cut; with several users, who are one at
    several web processes, to each in turn. `cuts`: how often."""

    def __init__(self, task_attempt: str, *users: Person) -> None:
        self.rows: list[tuple[int, str]] = []
        self.ended = False
        self.broken: str | None = None
        self.cuts = -1
        self._users, self._attempt, self._offset = itertools.cycle(users), task_attempt, 0
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
            self.cuts += 1
            with contextlib.suppress(WebSocketException, OSError):
                self._watch()
            self._closing.wait(0.2)

    def _watch(self) -> None:
        with next(self._users).log_socket(self._attempt, self._offset) as socket:
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
