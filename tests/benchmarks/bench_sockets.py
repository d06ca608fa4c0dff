"""Many live views that come back at once when the web process starts again, as after an update of the portal:
`python -m tests.benchmarks.bench_sockets`.

Web process, PostgreSQL, Redis and agent are the real ones; each view is a log's websocket, and is there with its first
message. All share this machine's cores with this client. Nothing here is asserted. `BENCH_SOCKETS`: how many.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import closing

from websockets.asyncio.client import connect

from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import Person
from tests.support.services.services import Services

SOCKETS = int(os.environ.get("BENCH_SOCKETS", 200))
ROUNDS = 3
ENV = {"BERTH_SOCKETS_PER_USER": "10000"}


async def first_messages(address: str, token: str) -> list[float]:
    """Seconds until each of so many who come at once has its log, sorted."""
    began = time.perf_counter()

    async def one() -> float:
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(address, additional_headers=headers, proxy=None, open_timeout=120) as socket:
            await socket.recv()
            return time.perf_counter() - began

    return sorted(await asyncio.gather(*(one() for _ in range(SOCKETS))))


def main() -> None:
    with closing(Services()) as services:
        services.postgres.start()
        url = services.postgres.create_database("bench")
        with closing(Stack(services, database_url=url, agents=[Agent(name="here", runtime="process")])) as stack:
            stack.start()
            person = Person(stack, "alice", "research")
            job = person.run("for s in $(seq 100); do echo step $s; done")
            person.wait(job, "succeeded")
            address = f"{stack.url.replace('http', 'ws', 1)}/ws/logs/{person.task_attempts(job)[0]['id']}?offset=tail"
            for _ in range(ROUNDS):
                stack.kill9("web")
                stack.restart("web", **ENV)
                stack.wait_ready()
                took = asyncio.run(first_messages(address, stack.tokens["alice"]))
                p50, p95 = (took[int(share * (len(took) - 1))] for share in (0.5, 0.95))
                print(f"{SOCKETS} views at once: p50 {p50:.2f} s, p95 {p95:.2f} s, last {took[-1]:.2f} s", flush=True)
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
