"""A key press in a shell to its echo, a flood of output and a download, over the whole stack with the process runtime:
`python -m tests.benchmarks.bench_sessions`.

Agent, Redis and web process are the real ones, and share this machine's cores. Nothing here is asserted.
"""

import json
import os
import time
from contextlib import closing

from websockets.sync.client import ClientConnection

from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import Person, alice
from tests.support.services.services import Services

KEYS = 500
MEGABYTES = 200


def keys_ms(socket: ClientConnection) -> list[float]:
    """From each key press to its echo, sorted; a person presses one after another."""
    ages = []
    for number in range(KEYS):
        key = b"%d\n" % number
        began = time.perf_counter()
        socket.send(key)
        seen = b""
        while not seen.endswith(key):
            message = socket.recv(timeout=10)
            seen += message[1:] if isinstance(message, bytes) else b""
        ages.append((time.perf_counter() - began) * 1000)
        time.sleep(0.02)
    return sorted(ages)


def flood(socket: ClientConnection) -> float:
    """MB of output a second, to the program's end."""
    began, size = time.perf_counter(), 0
    while True:
        message = socket.recv(timeout=60)
        if isinstance(message, bytes):
            size += len(message) - 1
        elif json.loads(message)["type"] == "end":
            return size / 1e6 / (time.perf_counter() - began)


def start(socket: ClientConnection, *command: str) -> None:
    socket.send(json.dumps({"type": "start", "tty": False, "command": command}))
    while json.loads(socket.recv(timeout=30))["type"] != "started":
        continue


def measure(person: Person) -> None:
    job = person.run(f"head -c {MEGABYTES}000000 /dev/zero >$BERTH_JOB_DIR/big; echo ready; while :; do sleep 1; done")
    person.wait_line(job, "ready")
    path = f"/ws/exec/{person.task_attempts(job)[0]['id']}"
    with person.socket(path) as socket:
        start(socket, "cat")
        ages = keys_ms(socket)
    p50, p95 = (ages[int(share * (len(ages) - 1))] for share in (0.5, 0.95))
    print(f"key press to echo at a websocket client: p50 {p50:.1f} ms, p95 {p95:.1f} ms, slowest {ages[-1]:.0f} ms")
    with person.socket(path) as socket:
        start(socket, "head", "-c", f"{MEGABYTES}000000", "/dev/zero")
        print(f"output of a program: {flood(socket):.0f} MB/s")
    began = time.perf_counter()
    size = sum(map(len, person.berth.download(job, "big")))
    print(f"download of a file: {size / 1e6 / (time.perf_counter() - began):.0f} MB/s")
    person.clear()


def main() -> None:
    agents = [Agent(name="here", runtime="process")]
    with closing(Services()) as services:
        database = f"sqlite:///{services.new_folder('sqlite')}/berth.sqlite3"
        with closing(Stack(services, database_url=database, agents=agents)) as stack:
            stack.start()
            measure(alice(stack))
            print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
