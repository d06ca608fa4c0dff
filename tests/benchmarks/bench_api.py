"""Every list and detail of the REST API on a large database, printed beside the goal:
`python -m tests.benchmarks.bench_api [finished jobs] [seconds]`.

PostgreSQL as it waits for the disk, the web processes as an installation runs them (two), and 8 clients that ask one
thing after another: a user, a lead and an administrator, mixed over all addresses of the OpenAPI document. Nothing here
is asserted.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from time import monotonic, perf_counter

from tests.benchmarks.api_calls import BASE, Reader, operations
from tests.benchmarks.big_cluster import database
from tests.benchmarks.fill import fill
from tests.benchmarks.filling.sizes import Sizes
from tests.benchmarks.machine import machine_told
from tests.benchmarks.wire import Wire
from tests.support.cluster.stack import BIN
from tests.support.run.waiting import wait_until
from tests.support.services.processes import free_port
from tests.support.services.services import Services

CLIENTS = 8
WORKERS = 2
GOAL_MS = 100
ELSEWHERE = {403, 404, 503}
"""What a reader may not see, what is not there, and what only a node could answer: none is up."""
REPORTS = {"usage_report", "audit_export"}
"""They go through all that they sum up or write out: there is no goal for them, and they are asked by themselves."""
PAGES = (
    "/", "/jobs", "/jobs?state=failed", "/jobs?text=llama", "/queue", "/submit", "/templates", "/cluster",
    "/cluster/nodes", "/virtual-clusters", "/usage", "/users", "/groups", "/alerts", "/audit", "/storages", "/images",
    "/skus", "/idle", "/profile", "/help",
)  # fmt: skip
DETAILS = {"/cluster/nodes/{}": "node", "/virtual-clusters/{}": "vc", "/users/{}": "user"}
"""Pages of one thing, by what a reader knows some of."""
PAGES_GOAL_MS = 150

Call = tuple[str, str, dict[str, str]]
"""What it is counted as, its address, and its headers."""


@contextmanager
def web(services: Services) -> Iterator[int]:
    """The web processes; their port."""
    import os

    port = free_port()
    command = [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(port), "--no-access-log"]
    env = {name: value for name, value in os.environ.items() if name != "BERTH_USAGE_KEPT"}  # as installed
    env["BERTH_LOG_LEVEL"] = "WARNING"
    process = services.new_process("web", [*command, "--workers", str(WORKERS)], services.new_folder("web"), env)
    process.start()
    try:
        wait_until(lambda: answers(port), "the web processes")
        yield port
    finally:
        process.kill()


def answers(port: int) -> bool:
    try:
        return Wire(port, timeout_s=5).ask("/healthz", {})[0] == 200
    except OSError:
        return False


def readers() -> list[Reader]:
    """One of each role; the plan of the last cycle stays readable, though no scheduler works here."""
    from portal.accounts.models import ClusterRole, User
    from portal.common.wake import redis_once
    from portal.queue.outlook import QUEUE_KEY
    from portal.teams.models import Membership
    from tests.support.people.cast import person

    redis_once().persist(QUEUE_KEY)
    found = {
        role: User.objects.get(pk=str(Membership.objects.filter(role=role).order_by("id")[5].user_id))
        for role in ("member", "lead")
    }
    found["admin"] = person("bench-admin", ClusterRole.ADMIN)
    return [Reader(role, user) for role, user in found.items()]


def calls_of(people: Sequence[Reader], document: dict[str, object]) -> dict[str, list[Call]]:
    """Those of the API by what they are counted as; what a reader may not is left to the others."""
    found: dict[str, list[Call]] = defaultdict(list)
    for one in operations(document):
        for person in people:
            headers = {"Authorization": f"Bearer {person.token}"}
            calls = [(one.name, address, headers) for address in person.addresses(one)]
            found[one.name] += calls if any(allowed(call) for call in calls[:3]) else []
    if nobody := [name for name, calls in found.items() if not calls]:
        print(f"not measured, since there is none to be read: {', '.join(sorted(nobody))}")
    return {name: calls for name, calls in found.items() if calls}


def pages_of(people: Sequence[Reader]) -> dict[str, list[Call]]:
    """Those of the pages, in the browser's session; what a reader may not open is left to the others."""
    found: dict[str, list[Call]] = defaultdict(list)
    for person in people:
        cookie = {"Cookie": f"sessionid={session(person)}"}
        for name, addresses in addresses_of(person).items():
            calls = [(name, address, cookie) for address in addresses]
            found[name] += calls if allowed(calls[0]) else []
    return dict(found)


def addresses_of(person: Reader) -> dict[str, list[str]]:
    found = {page: [page] for page in PAGES}
    found |= {page: [page.format(name) for name in person.values[kind][:20]] for page, kind in DETAILS.items()}
    return found | {"/jobs/{}": [f"/jobs/{job}" for job in person.jobs[:20]]}


def allowed(call: Call) -> bool:
    from django.test import Client

    from tests.support.people.cast import HOST

    answer = Client(HTTP_HOST=HOST).get(call[1], headers=call[2])
    answer.close()  # a download is under way until somebody has read it
    assert answer.status_code in {200, *ELSEWHERE}, (call[1], answer.status_code, answer.content)
    return answer.status_code == 200


def session(person: Reader) -> str:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(person.user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def queries_of(call: Call) -> int:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from tests.support.people.cast import HOST

    with CaptureQueriesContext(connection) as queries:
        Client(HTTP_HOST=HOST).get(call[1], headers=call[2]).close()
    return len(queries)


class Clients:
    """So many at once, each asking one thing after another."""

    def __init__(self, port: int, calls: dict[str, list[Call]], count: int = CLIENTS) -> None:
        self._port, self._calls, self._count = port, calls, count
        self.times: dict[str, list[float]] = defaultdict(list)
        self.slowest: dict[str, tuple[float, str]] = {}

    def run(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        threads = [threading.Thread(target=self._one, args=(number,)) for number in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, number: int) -> None:
        rng, connection = random.Random(number), Wire(self._port)
        names = list(self._calls)
        while monotonic() < self._end:
            name, address, headers = rng.choice(self._calls[rng.choice(names)])
            begin = perf_counter()
            status, _ = connection.ask(address, headers)
            took = (perf_counter() - begin) * 1000
            assert status in {200, *ELSEWHERE}, (status, address)
            if status != 200:
                continue
            self.times[name].append(took)
            if took > self.slowest.get(name, (0.0, ""))[0]:
                self.slowest[name] = took, address


def told(clients: Clients, calls: dict[str, list[Call]], goal_ms: int = GOAL_MS) -> None:
    """A line for each address; the slowest call of those that miss the goal."""
    every = [took for times in clients.times.values() for took in times]
    print(f"{'':<26} queries  calls    p50    p95    p99   ms; goal p95 < {goal_ms}")
    for name in sorted(clients.times):
        times = clients.times[name]
        cuts = quantiles(times, n=100) if len(times) > 1 else times * 99
        mark = "" if cuts[94] < goal_ms else f"   over: {clients.slowest[name][1]}"
        queries = max(queries_of(call) for call in calls[name][:12])
        print(f"{name:<26} {queries:7} {len(times):6} {median(times):6.0f} {cuts[94]:6.0f} {cuts[98]:6.0f}{mark}")
    cuts = quantiles(every, n=100)
    print(f"{'all':<26} {'':7} {len(every):6} {median(every):6.0f} {cuts[94]:6.0f} {cuts[98]:6.0f}", flush=True)


def size_of_database() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_size_pretty(pg_database_size(current_database()))")
        return str(cursor.fetchone()[0])


def main(arguments: Sequence[str]) -> None:
    finished = int(arguments[0]) if arguments else 1_000_000
    seconds = float(arguments[1]) if len(arguments) > 1 else 120
    with database() as services:
        begin = perf_counter()
        fill(Sizes(finished=finished))
        print(f"{finished:,} finished jobs filled in {perf_counter() - begin:.0f} s; {size_of_database()}", flush=True)
        with web(services) as port:
            measure(port, seconds)


def measure(port: int, seconds: float) -> None:
    """Ask for so long, after a short while that counts for nothing."""
    document = json.loads(Wire(port).ask(f"{BASE}/openapi.json", {})[1])
    people = readers()
    machine_told()
    print(f"{WORKERS} web processes")
    every = calls_of(people, document)
    lists = {name: calls for name, calls in every.items() if name not in REPORTS}
    reports = {name: calls for name, calls in every.items() if name in REPORTS}
    for what, calls, part, goal_ms, count in (
        ("lists and details", lists, 1.0, GOAL_MS, CLIENTS),
        ("reports and exports", reports, 0.25, GOAL_MS, CLIENTS),
        ("pages, whose time is the server's own", pages_of(people), 0.5, PAGES_GOAL_MS, 1),
    ):
        print(f"{what}: {count} at a time", flush=True)
        Clients(port, calls).run(min(seconds * part / 4, 15))
        clients = Clients(port, calls, count)
        clients.run(seconds * part)
        told(clients, calls, goal_ms)


if __name__ == "__main__":
    main(sys.argv[1:])
