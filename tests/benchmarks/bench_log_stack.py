"""From a line's printing in a container to its arrival at a websocket client, over the whole stack, printed beside
the design's goal: `python -m tests.benchmarks.bench_log_stack`.

Container, Engine, agent, Redis, archiver, web process and PostgreSQL are the real ones; only the browser's own
drawing is not in it. All processes share this machine's cores and its clock. Nothing here is asserted. Needs root.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from websockets.sync.client import ClientConnection

from tests.support.cluster.stack import Agent, Stack
from tests.support.images import images
from tests.support.people.person import Person
from tests.support.services.services import Services

SECONDS = 20
SETTLED_S = 5
"""The task waits so long before it prints, so that the reader is there and nothing else starts meanwhile."""
TEXT = "epoch 3 loss 0.123456 lr 1e-4 throughput 1234.5 samples/s, and some more words"  # 100 bytes with its time
PRINT = """
import sys, time
rate, seconds = {rate}, {seconds}
time.sleep({settled})
begin, printed = time.monotonic(), 0
while printed < rate * seconds:
    while printed < min(rate * seconds, (time.monotonic() - begin) * rate):
        sys.stdout.write("%020d {text}\\n" % time.time_ns())
        printed += 1
    sys.stdout.flush()
    time.sleep(0.005)
"""


def ages_ms(socket: ClientConnection) -> Iterator[float]:
    """How old each line is when it comes, until the log has ended."""
    rest = ""
    while (message := json.loads(socket.recv(timeout=60)))["type"] != "end":
        now = time.time_ns()
        lines = (rest + "".join(text for _, _, text in message.get("records", ()))).split("\n")
        rest = lines.pop()
        yield from ((now - int(line[:20])) / 1e6 for line in lines)


def flow(person: Person, image: str, rate: int) -> str:
    script = PRINT.format(rate=rate, seconds=SECONDS, settled=SETTLED_S, text=TEXT)
    job = person.run(f"python3 -c '{script}'", image=image, memory_mb=512)
    person.wait(job, "running")
    with person.log_socket(person.task_attempts(job)[0]["id"]) as socket:
        ages = sorted(ages_ms(socket))
    person.wait(job, "succeeded")
    p50, p95, p99 = (ages[int(share * (len(ages) - 1))] for share in (0.5, 0.95, 0.99))
    return (
        f"{rate:6} lines/s: {len(ages)} of {rate * SECONDS} lines, print to websocket client "
        f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms, slowest {ages[-1]:.0f} ms"
    )


@contextmanager
def running(services: Services) -> Iterator[tuple[Stack, str]]:
    """A stack with one node, and the image of its tasks."""
    services.postgres.start()
    services.docker.start()
    image = services.docker.ensure_image(images.PYTHON)
    agents = [Agent(name="gpu01")]
    database_url = services.postgres.create_database("bench")
    stack = Stack(services, database_url=database_url, docker_url=services.docker.url, agents=agents)
    with closing(stack):
        stack.start()
        yield stack, image


def main() -> None:
    with closing(Services()) as services, running(services) as (stack, image):
        person = Person(stack, "alice", "research")
        for rate in (10, 1_000, 10_000, 50_000):
            print(flow(person, image, rate), "(goal: p95 < 250 ms at 1 MB/s)", flush=True)
        print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
