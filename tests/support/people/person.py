"""A user at the portal's doors, over REST and websockets: what a person could do and see, nothing more."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import yaml
from websockets.sync.client import ClientConnection, connect

from berth import Client, Conflict
from berth.model.jobs import LIVE
from nodes.agent.runtimes.process.runtime import ProcessRuntime
from nodes.protocol.logs import MARK
from tests.support.cluster.stack import Stack
from tests.support.run.waiting import wait_until

OVER = ("succeeded", "failed", "stopped")
MOST_S = 0.3
"""Between two questions to the portal, which each cost it some 20 ms."""


class Person:
    """`vc` is where this person's jobs go; `url` the web process that is asked, if not the stack's first."""

    def __init__(self, stack: Stack, name: str, vc: str, *, url: str = "") -> None:
        self.stack, self.name, self.vc, self.url = stack, name, vc, url or stack.url
        self.http = stack.client(name, url=self.url)
        self.berth = Client(self.url, stack.tokens[name], trust_env=False)

    # ------------------------------------------------------------ jobs

    def submit(self, text: str, key: str = "", code: str | None = None) -> int:
        """Submit a job file, with the id of its code if it has any. Returns the job's id; the portal must accept it."""
        return self.berth.jobs.submit(text, key=key or None, code=code).id

    def run(self, *commands: str, **changes: Any) -> int:
        """Submit a job of `commands`; see `job_file`."""
        return self.submit(job_file(*commands, vc=self.vc, **changes))

    def job(self, job_id: int) -> dict[str, Any]:
        return self.get(f"/jobs/{job_id}")

    def stop(self, job_id: int) -> None:
        self.berth.jobs.stop(job_id)

    def wait(self, job_id: int, *states: str, deadline_s: float = 60) -> dict[str, Any]:
        """The job once it is in one of the states. Fails at once when it is over in another one."""

        def there() -> dict[str, Any] | None:
            job = self.job(job_id)
            assert job["state"] in states or job["state"] not in OVER, f"{job['label']}: {job['end_message']}"
            return job if job["state"] in states else None

        return wait_until(there, f"job {job_id} to be {' or '.join(states)}", deadline_s=deadline_s, most_s=MOST_S)

    def wait_for(self, job_id: int, seen: Callable[[dict[str, Any]], object], deadline_s: float = 60) -> dict[str, Any]:
        """The job once `seen` says so of it."""

        def there() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if seen(job) else None

        return wait_until(there, f"job {job_id} to show it", deadline_s=deadline_s, most_s=MOST_S)

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """Newest first."""
        return list(self.get(f"/jobs/{job_id}/attempts")["results"])

    def tasks(self, job_id: int) -> list[dict[str, Any]]:
        """In the file's order, each with its `attempts`, newest first."""
        return list(self.get(f"/jobs/{job_id}/tasks")["results"])

    def task_attempts(self, job_id: int) -> list[dict[str, Any]]:
        """The newest attempt of each task, in the file's order."""
        return [task["attempts"][0] for task in self.tasks(job_id)]

    def events(self, job_id: int) -> list[dict[str, Any]]:
        return list(self.get(f"/jobs/{job_id}/events?limit=200")["results"])

    def clear(self) -> None:
        """Stop whatever this person still has, and wait until it has ended."""
        live = [job.id for job in self.berth.jobs.list(user=self.name, state=LIVE)]
        for job_id in live:
            with suppress(Conflict):  # it has ended meanwhile
                self.berth.jobs.stop(job_id)
        for job_id in live:
            self.wait(job_id, *OVER)

    # ------------------------------------------------------------ logs

    def log_lines(self, job_id: int, task: int = 0) -> list[str]:
        """What a task's newest attempt wrote, as the REST API has it now, line by line."""
        attempts = self.tasks(job_id)[task]["attempts"]
        text = self.log_text(job_id, attempts[0]["id"]) if attempts else ""
        return [line for line in text.splitlines() if line != ProcessRuntime.notice]

    def log_text(self, job_id: int, task_attempt: str) -> str:
        return "".join(self.berth.log_text(job_id, task_attempt))

    def wait_line(self, job_id: int, line: str, task: int = 0, deadline_s: float = 60) -> None:
        """Wait until this very line stands in the log."""
        what = f"the line {line!r}"
        wait_until(lambda: line in self.log_lines(job_id, task), what, deadline_s=deadline_s, most_s=MOST_S)

    @contextmanager
    def log_socket(self, task_attempt: str, offset: int | str = 0) -> Iterator[ClientConnection]:
        """The live log of a task attempt, from an offset or from its `tail`."""
        with self.socket(f"/ws/logs/{task_attempt}?offset={offset}") as socket:
            yield socket

    @contextmanager
    def socket(self, path: str) -> Iterator[ClientConnection]:
        url = f"{self.url.replace('http', 'ws', 1)}{path}"
        headers = {"Authorization": f"Bearer {self.stack.tokens[self.name]}"}
        with connect(url, additional_headers=headers, proxy=None, max_size=2**24) as socket:
            yield socket

    def log_to_its_end(self, task_attempt: str, deadline_s: float = 60) -> str:
        """Everything that the task wrote, as the websocket sends it until it says that this was all."""
        return "".join(self.log_pieces(task_attempt, marks=False, deadline_s=deadline_s))

    def log_pieces(
        self, task_attempt: str, offset: int = 0, *, marks: bool = True, deadline_s: float = 60
    ) -> Iterator[str]:
        """Text of each record as it comes, with or without Berth's own. Asserts that offsets go on without gap and
        without repetition."""
        with self.log_socket(task_attempt, offset) as socket:
            while True:
                message = json.loads(socket.recv(timeout=deadline_s))
                if message["type"] == "end":
                    assert message["offset"] == offset
                    return
                assert (message["type"], message["from"]) == ("records", offset)
                offset = message["to"]
                yield from (text for _, stream, text in message["records"] if marks or stream != MARK)

    def get(self, path: str) -> dict[str, Any]:
        """What the API answers; the request must succeed."""
        answer = self.http.get(path)
        assert answer.status_code == httpx.codes.OK, answer.text
        return dict(answer.json())


def alice(stack: Stack, *, url: str = "") -> Person:
    return Person(stack, "alice", "research", url=url)


def carol(stack: Stack) -> Person:
    return Person(stack, "carol", "vision")


def job_file(
    *commands: str,
    vc: str,
    name: str = "train",
    image: str = "busybox:latest",
    instances: int = 1,
    gpu: int = 1,
    cpu: int = 1,
    memory_mb: int = 128,
    gang: bool = True,
    completion: dict[str, int] | None = None,
    berth: dict[str, Any] | None = None,
    extras: dict[str, Any] | None = None,
    **top: Any,
) -> str:
    """A job file with one role `worker`; `completion`, `berth`, `extras` and `top` add keys where they belong."""
    worker = {
        "instances": instances,
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": cpu, "memoryMB": memory_mb, "gpu": gpu},
        "commands": list(commands) or ["true"],
    }
    job = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": image}],
        "taskRoles": {"worker": worker | ({"completion": completion} if completion else {})},
        "defaults": {"virtualCluster": vc},
        "extras": {"gangAllocation": gang, **({"berth": berth} if berth else {}), **(extras or {})},
        **top,
    }
    return yaml.safe_dump(job, sort_keys=False)
