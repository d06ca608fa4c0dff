"""What the portal's processes say, and do meanwhile, while the database or Redis is away."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import httpx
import pytest
from websockets.exceptions import WebSocketException

from tests.integration.common.test_outages import CLOSED, NOBODY
from tests.support.cluster.stack import BIN, CELERY, Stack
from tests.support.people.person import Person
from tests.support.run.waiting import wait_until
from tests.support.services.migrated import sqlite_copy
from tests.support.services.processes import free_port
from tests.support.services.redis_server import RedisServer
from tests.support.services.services import Services


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.redis
def test_processes_that_go_on_say_it_once_and_no_traceback(services: Services, running_redis: RedisServer) -> None:
    """Web and scheduler, whose database nobody serves."""
    folder, port = services.new_folder("away"), free_port()
    env = {**os.environ, "BERTH_DATA_DIR": str(folder), "BERTH_DATABASE_URL": CLOSED}
    commands = {
        "web": [str(BIN / "uvicorn"), "portal.asgi:application", "--port", str(port), "--no-access-log"],
        "scheduler": [*CELERY, "-Q", "scheduler", "-B", "-c", "1", "-n", "scheduler@away"],
    }
    processes = {name: services.new_process(name, command, folder, env) for name, command in commands.items()}
    for process in processes.values():
        process.start()
    try:
        wait_until(lambda: all(NOBODY in one.tail() for one in processes.values()), "the sentence", deadline_s=60)
        wait_until(lambda: listens(port), "the web process to serve all the same")
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=30, trust_env=False)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        for process in processes.values():
            assert process.is_running()
            told = process.log.read_text()
            assert told.count(NOBODY) == 1, told
            assert "Traceback" not in told
            assert "GET /healthz" not in told, "the log of accesses stays off"
    finally:
        for process in processes.values():
            process.kill()


@pytest.mark.redis
def test_a_redis_that_goes_away_is_said_once_by_each_process_and_keeps_nobody_from_changes(services: Services) -> None:
    """Web and scheduler with everything, until Redis ends; and after its return."""
    url = sqlite_copy(services.new_folder("without") / "berth.sqlite3")
    with closing(Stack(services, database_url=url, agents=())) as stack:
        stack.start("web", "scheduler")
        wait_until(lambda: stack.sql("SELECT until FROM scheduler_cyclelease"), "a first scheduling cycle")
        stack.redis.kill()
        sentence = (
            f"Nothing listens where Redis at 127.0.0.1:{stack.redis.port} should: start it, open its port, or correct "
            "BERTH_REDIS_URL."
        )
        root = stack.client("root")
        for number in range(3):
            assert root.post("/virtual-clusters", json={"name": f"team{number}"}).status_code == 201
            told = root.post(f"/virtual-clusters/team{number}/members", json={"name": "alice", "role": "member"})
            assert told.is_success, told.text
        with pytest.raises(WebSocketException), Person(stack, "root", "").socket("/ws/events") as socket:
            socket.recv(timeout=30)
        processes = [stack.processes[name] for name in ("web", "scheduler")]
        wait_until(lambda: all(sentence in one.log.read_text() for one in processes), "the sentence")
        assert stack.answers()
        for process in processes:
            assert process.is_running()
            told_by = process.log.read_text()
            each = {"web": {1}, "scheduler": {1, 2}}[process.name]  # beat is a process of its own beside the scheduler
            assert told_by.count(sentence) in each, told_by
            assert "Traceback" not in told_by, told_by
        (before,) = stack.sql("SELECT until FROM scheduler_cyclelease")
        stack.redis.start()
        wait_until(lambda: stack.sql("SELECT until FROM scheduler_cyclelease") != [before], "a scheduling cycle")
