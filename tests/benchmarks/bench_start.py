"""From submitting a job to its container running, printed beside plain `docker run` on the same Engine:
`python -m tests.benchmarks.bench_start`.

The whole stack on PostgreSQL and a Docker Engine with one node. Both are timed by one clock, from the call to the
Engine's own start event. Nothing here is asserted. Needs root.
"""

import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from docker import DockerClient

from tests.support.images import BUSYBOX
from tests.support.person import Person
from tests.support.services import Services
from tests.support.stack import Agent, Stack

RUNS = 20
LABEL = "berth.bench"


class Starts:
    """The Engine's start events, as they happen."""

    def __init__(self, client: DockerClient) -> None:
        self._events = client.events(filters={"type": "container", "event": "start"}, decode=True)
        self._changed = threading.Condition()
        self._times: list[float] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for event in self._events:
            with self._changed:
                self._times.append(event["timeNano"] / 1e9)
                self._changed.notify_all()

    def after(self, call: Callable[[], object]) -> float:
        """Milliseconds from the call to the next container's start."""
        before = len(self._times)
        began = time.time()
        call()
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._times) > before, timeout=60), "no container started"
            return (self._times[before] - began) * 1000


def told(name: str, times: list[float]) -> None:
    p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
    print(f"  {name:<16} p50 {statistics.median(times):7.0f} ms   p99 {p99:7.0f} ms   ({len(times)} runs)", flush=True)


@contextmanager
def running(services: Services) -> Iterator[Stack]:
    services.postgres.start()
    services.docker.start()
    services.docker.ensure_image(BUSYBOX)
    database_url = services.postgres.create_database("bench")
    agents = [Agent(name="gpu01")]
    stack = Stack(services, database_url=database_url, docker_url=services.docker.url, agents=agents)
    with closing(stack):
        stack.start()
        yield stack


def main() -> None:
    with closing(Services()) as services, running(services) as stack, services.docker.client() as client:
        starts = Starts(client)
        person = Person(stack, "alice", "research")

        def plain() -> None:
            client.containers.run(BUSYBOX, ["true"], detach=True, init=True)

        def job() -> None:
            last.append(person.run("true"))

        last: list[int] = []
        print("from the call to the container's start, one after the other")
        told("docker run", [starts.after(plain) for _ in range(RUNS)])
        times = []
        for _ in range(RUNS + 1):
            times.append(starts.after(job))
            person.wait(last[-1], "succeeded")
        told("berth", times[1:])
        print("  goal             at most 300 ms over it at p50, 1000 ms at p99")


if __name__ == "__main__":
    main()
