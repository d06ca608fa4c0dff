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
from dataclasses import dataclass

from docker import DockerClient

from tests.support.cluster.stack import Agent, Stack
from tests.support.images.images import BUSYBOX
from tests.support.people.person import Person
from tests.support.services.services import Services

RUNS = 20
LABEL = "berth.bench"


@dataclass(frozen=True, slots=True)
class Start:
    """Milliseconds after the call: when it returned, when the Engine made the container, when that ran."""

    answered: float
    created: float
    started: float


class Starts:
    """The Engine's own events, as they happen."""

    def __init__(self, client: DockerClient) -> None:
        wanted = {"type": "container", "event": ["create", "start"]}
        self._events = client.events(filters=wanted, decode=True)
        self._changed = threading.Condition()
        self._times: dict[str, list[float]] = {"create": [], "start": []}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for event in self._events:
            with self._changed:
                self._times[event["Action"]].append(event["timeNano"] / 1e9)
                self._changed.notify_all()

    def after(self, call: Callable[[], object]) -> Start:
        """How the next container came to run after the call."""
        before, times = len(self._times["start"]), self._times
        began = time.time()
        call()
        answered = time.time()
        with self._changed:
            assert self._changed.wait_for(lambda: len(times["start"]) > before, timeout=60), "no container started"
        moments = answered, times["create"][before], times["start"][before]
        return Start(*((moment - began) * 1000 for moment in moments))


def told(name: str, starts: list[Start]) -> None:
    times = [one.started for one in starts]
    p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
    print(f"  {name:<16} p50 {statistics.median(times):7.0f} ms   p99 {p99:7.0f} ms   ({len(times)} runs)")
    hops = {
        "the call returns after": [one.answered for one in starts],
        "the container is there after": [one.created for one in starts],
        "and runs after another": [one.started - one.created for one in starts],
    }
    for words, found in hops.items():
        print(f"    {words:<29} p50 {statistics.median(found):5.0f} ms", flush=True)


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
        plains, jobs = [], []
        for _ in range(RUNS + 1):  # in turns: whatever else the machine does slows both
            plains.append(starts.after(plain))
            jobs.append(starts.after(job))
            person.wait(last[-1], "succeeded")
        print("from the call to the container's start, in turns, the first of each left out")
        told("docker run", plains[1:])
        told("berth", jobs[1:])
        print("  goal             at most 300 ms over it at p50, 1000 ms at p99")


if __name__ == "__main__":
    main()
