"""Logs through the client and the command: whole, in order, and on from where a connection broke."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from berth import AsyncClient, Client, LogIncomplete, NotFound, NotSignedIn, TlsFailed, Unreachable
from berth.cli.exit_codes import error_text
from berth.model.jobs import LogRecord
from nodes.agent.logs.base import OpenLine
from nodes.protocol.logs import STDOUT
from tests.integration.client.conftest import token_for
from tests.integration.client.test_code import read_terminal
from tests.support.cluster.agent_logs import lines, text_of
from tests.support.people.shell import BERTH, Shell
from tests.support.run.waiting import wait_until
from tests.support.services.proxy import CuttingProxy
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from tests.integration.logs.conftest import RunningLog
    from tests.support.cluster.world import World
    from tests.support.people.live_web import LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)
LINE = 23


@pytest.fixture
def running_log(
    transactional_db: None, tmp_path: Path, redis_server: RedisServer, settings: Any
) -> Iterator[RunningLog]:
    from tests.integration.logs.conftest import RunningLog

    running = RunningLog(tmp_path, redis_server.url)
    settings.LOG_DIR = running.archive.folder
    yield running
    running.close()


@pytest.fixture
def world(running_log: RunningLog) -> World:
    return running_log.world


@pytest.fixture
def web(world: World) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    with live_web() as running:
        yield running


def printed(running_log: RunningLog, count: int, first: int = 0) -> None:
    running_log.source.print(*lines(count, first=first))
    running_log.sent((first + count) * LINE)


def ended(running_log: RunningLog) -> None:
    """The container's end, as its node reports it."""
    running_log.source.end()
    wait_until(lambda: running_log.pipeline.status(running_log.attempt).complete, "the container's end")
    running_log.report()


def test_a_log_is_followed_through_cut_connections_without_gap_and_without_double(
    running_log: RunningLog, proxy: CuttingProxy, token: str
) -> None:
    printed(running_log, 500)
    with Client(proxy.url, token, trust_env=False) as berth:
        log, seen, cuts = berth.follow(running_log.attempt), "", 0
        for record in log:
            seen += record.text
            if seen.endswith(text_of(lines(500, first=500 * cuts))) and cuts < 3:
                cuts += 1
                assert proxy.cut() == 1
                printed(running_log, 500, first=500 * cuts)
                if cuts == 3:
                    ended(running_log)
    assert seen == text_of(lines(2000))
    assert log.offset == 2000 * LINE
    assert proxy.accepted >= 4


async def test_the_async_client_follows_through_a_cut_as_well(
    running_log: RunningLog, proxy: CuttingProxy, token: str
) -> None:
    from asgiref.sync import sync_to_async

    printed(running_log, 500)
    async with AsyncClient(proxy.url, token, trust_env=False) as berth:
        seen = ""
        async for record in berth.follow(running_log.attempt, offset=100 * LINE):
            seen += record.text
            if seen == text_of(lines(400, first=100)):
                assert proxy.cut() == 1
                await sync_to_async(ended)(running_log)
        assert seen == text_of(lines(400, first=100))
        text = [piece async for piece in berth.log_text(running_log.row.task.job_id, running_log.attempt)]
    assert "".join(text) == text_of(lines(500))


def test_a_log_that_was_deleted_says_so_in_place_of_lines(
    running_log: RunningLog, url: str, token: str, shell: Shell
) -> None:
    from portal.jobs.models import Job

    printed(running_log, 5)
    ended(running_log)
    running_log.archive_all()
    running_log.redis.flushall()
    running_log.archive.remove(running_log.attempt)
    job = running_log.row.task.job_id
    Job.objects.filter(pk=job).update(logs_dropped_at=running_log.world.now)
    at = f"{running_log.world.now:%Y-%m-%d %H:%M}"
    with Client(url, token, trust_env=False) as berth:
        (said,) = berth.follow(running_log.attempt)
        text = "".join(berth.log_text(job, running_log.attempt))
    assert said.text == text == f"… this log was deleted at {at} UTC: its virtual cluster has no room for more logs\n"
    assert "was deleted at" in shell.start("logs", str(job), "--tail").communicate(timeout=60)[1]


def over(running_log: RunningLog) -> None:
    """The task's end is known, of its log no more than what has come."""
    running_log.report()
    type(running_log.row).objects.update(state="terminated", ended_at=running_log.world.now)


def test_the_log_of_a_task_that_has_ended_is_printed_to_its_end(running_log: RunningLog, shell: Shell) -> None:
    printed(running_log, 500)
    over(running_log)
    job = str(running_log.row.task.job_id)
    commands = [shell.start("logs", job), shell.start("logs", job, "--json")]
    for command in commands:
        assert command.stdout
        assert "000000000" in command.stdout.readline()
    printed(running_log, 500, first=500)
    ended(running_log)
    texts = [command.stdout.read() if command.stdout else "" for command in commands]
    assert [command.wait(30) for command in commands] == [0, 0]
    assert texts[0] == text_of(lines(1000, first=0)).split("\n", 1)[1]
    assert "".join(json.loads(row)["text"] for row in texts[1].splitlines()) == text_of(lines(999, first=1))


def test_a_log_whose_end_does_not_come_is_not_taken_for_the_whole(
    running_log: RunningLog, url: str, token: str
) -> None:
    printed(running_log, 500)
    job, seen = running_log.row.task.job_id, list[str]()
    with Client(url, token, trust_env=False) as berth:
        assert "".join(berth.log_text(job, running_log.attempt)) == text_of(lines(500)), "as it is now: the task runs"
        over(running_log)
        with pytest.raises(LogIncomplete) as failed:
            seen.extend(berth.log_text(job, running_log.attempt, patience_s=0.2))
        assert "".join(seen) == text_of(lines(500))
        assert failed.value.offset == 500 * LINE
        assert error_text(failed.value)[1] == 74
        ended(running_log)
        assert "".join(berth.log_text(job, running_log.attempt, patience_s=0)) == text_of(lines(500))


def test_what_has_no_end_yet_is_told_and_comes_once(running_log: RunningLog, url: str, token: str) -> None:
    tails: list[list[str]] = []

    def tail(records: Sequence[LogRecord]) -> None:
        tails.append([record.text for record in records])
        if len(tails) == 1:
            running_log.source.open = {}
            printed(running_log, 1)
            ended(running_log)

    running_log.source.open = {STDOUT: OpenLine(0, b"\r 10%")}
    with Client(url, token, trust_env=False) as berth:
        seen = [record.text for record in berth.follow(running_log.attempt, tail=tail)]
    assert tails[0] == ["\r 10%"]
    assert "".join(seen) == text_of(lines(1))


def test_who_has_no_token_or_no_right_is_not_tried_again(running_log: RunningLog, url: str) -> None:
    from tests.support.people.cast import person

    printed(running_log, 1)
    with Client(url, "berth_nonsense", trust_env=False) as nobody, pytest.raises(NotSignedIn):
        next(iter(nobody.follow(running_log.attempt)))
    with Client(url, token_for(person("charlie")), trust_env=False) as charlie, pytest.raises(NotFound):
        next(iter(charlie.follow(running_log.attempt)))


def test_a_server_that_stays_away_ends_the_following(running_log: RunningLog, proxy: CuttingProxy, token: str) -> None:
    printed(running_log, 1)
    with Client(proxy.url, token, trust_env=False) as berth:
        log = berth.follow(running_log.attempt, patience_s=0.5)
        records = iter(log)
        assert next(records).text == text_of(lines(1))
        assert log.offset == 0, "whoever stops here comes back with this record unread"
        proxy.close()
        with pytest.raises(Unreachable):
            next(records)


def test_the_command_prints_a_log_as_it_is(running_log: RunningLog, shell: Shell) -> None:
    printed(running_log, 5000)
    running_log.report()
    job = str(running_log.row.task.job_id)
    assert shell.berth("logs", job) == text_of(lines(5000))
    tail = shell.berth("logs", job, "--tail", "--task", "worker/0")
    assert text_of(lines(5000)).endswith(tail)
    assert 60_000 < len(tail) * LINE / len(text_of(lines(1))) < 70_000, "as bytes of the log"
    rows = [json.loads(line) for line in shell.berth("logs", job, "--json").splitlines()]
    assert "".join(row["text"] for row in rows) == text_of(lines(5000))
    assert "has no task worker/7" in shell.berth("logs", job, "-t", "worker/7", code=66)


def test_the_command_follows_across_a_reconnect_to_the_jobs_end(
    running_log: RunningLog, proxy: CuttingProxy, shell: Shell
) -> None:
    from django.utils import timezone

    from portal.jobs.models import Job

    printed(running_log, 300)
    shell.url = proxy.url
    Job.objects.update(state="running", started_at=timezone.now())
    process = shell.start("logs", "-f", str(running_log.row.task.job_id))
    assert process.stdout
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(process.stdout or ()), daemon=True)
    reader.start()
    wait_until(lambda: len(seen) == 300, "the log so far")
    proxy.cut()
    printed(running_log, 300, first=300)
    wait_until(lambda: len(seen) == 600, "what came after the cut")
    ended(running_log)
    Job.objects.update(state="failed", exit_code=7, ended_at=timezone.now())
    try:
        assert process.wait(timeout=30) == 7, process.stderr.read() if process.stderr else ""
    finally:
        process.kill()
    reader.join(10)
    assert "".join(seen) == text_of(lines(600))
    assert process.stderr
    assert "train#1 failed after" in process.stderr.read()


def test_where_no_websocket_gets_through_a_log_is_asked_for_to_its_end(
    running_log: RunningLog, proxy: CuttingProxy, shell: Shell
) -> None:
    from django.utils import timezone

    from portal.jobs.models import Job

    proxy.refused, shell.url = {b"Upgrade: websocket": 403}, proxy.url
    printed(running_log, 300)
    Job.objects.update(state="running", started_at=timezone.now())
    process = shell.start("logs", "-f", str(running_log.row.task.job_id))
    assert process.stdout
    assert process.stderr
    seen = [process.stdout.readline() for _ in range(300)]
    printed(running_log, 300, first=300)
    ended(running_log)
    Job.objects.update(state="succeeded", exit_code=0, ended_at=timezone.now())
    seen += process.stdout
    assert process.wait(timeout=30) == 0
    assert "".join(seen) == text_of(lines(600))
    assert "asked every 3 s" in process.stderr.read()


def test_where_no_websocket_gets_through_a_terminal_shows_what_has_no_end_yet(
    running_log: RunningLog, proxy: CuttingProxy, shell: Shell
) -> None:
    from django.utils import timezone

    from portal.jobs.models import Job

    proxy.refused, shell.url = {b"Upgrade: websocket": 403}, proxy.url
    Job.objects.update(state="running", started_at=timezone.now())
    running_log.source.open = {STDOUT: OpenLine(0, b"\r 10%")}
    ours, theirs = pty.openpty()
    words = [*BERTH, "logs", "-f", str(running_log.row.task.job_id)]
    environment = {**shell.environment(), "TERM": "xterm"}
    process = subprocess.Popen(words, cwd=shell.home, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while b" 10%" not in seen:
        assert (more := read_terminal(ours)), seen
        seen += more
    running_log.source.open = {}
    printed(running_log, 1)
    ended(running_log)
    Job.objects.update(state="succeeded", exit_code=0, ended_at=timezone.now())
    rest = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    assert process.wait(30) == 0
    assert "asked every 3 s" in seen.decode()
    assert rest.count("000000000") == 1
    assert " 10%" not in rest.split("000000000")[1]


def test_a_log_of_a_job_that_is_over_is_printed_though_its_tasks_could_not_be_told_at_first(
    running_log: RunningLog, proxy: CuttingProxy, shell: Shell
) -> None:
    from django.utils import timezone

    from portal.jobs.models import Job

    printed(running_log, 300)
    ended(running_log)
    Job.objects.update(state="succeeded", exit_code=0, ended_at=timezone.now())
    proxy.refused, shell.url = {b"/tasks": 500}, proxy.url
    process = shell.start("logs", "-f", "--all", str(running_log.row.task.job_id))
    assert process.stderr
    assert "trying again" in process.stderr.readline()
    proxy.refused = {}
    text, _ = process.communicate(timeout=60)
    assert (process.returncode, text) == (0, text_of(lines(300)))


def test_over_tls_only_a_certificate_that_is_trusted_will_do(
    running_log: RunningLog, shell: Shell, token: str, tmp_path: Path
) -> None:
    from tests.support.people.live_web import live_web

    printed(running_log, 3)
    ended(running_log)
    key, certificate = certificate_made(tmp_path)
    with live_web(ssl_keyfile=key, ssl_certfile=certificate) as web:
        url = f"https://{web.host}"
        with Client(url, token, trust_env=False) as stranger:
            with pytest.raises(TlsFailed, match="self.signed certificate"):
                stranger.me()
            with pytest.raises(TlsFailed, match="self.signed certificate"):
                next(iter(stranger.follow(running_log.attempt)))
        with Client(url, token, ca_file=certificate, trust_env=False) as berth:
            assert "".join(record.text for record in berth.follow(running_log.attempt)) == text_of(lines(3))
        shell.url = url
        assert "name that by BERTH_CA_FILE" in shell.berth("ls", code=69)
        shell.more["BERTH_CA_FILE"] = certificate
        assert "train#1" in shell.berth("ls")
        shell.more["BERTH_CA_FILE"] = "/nowhere"
        assert "/nowhere cannot be read" in shell.berth("ls", code=78)


def certificate_made(folder: Path) -> tuple[str, str]:
    """Files of a key and of a certificate for 127.0.0.1 that nobody has signed."""
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=berth"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


def test_a_reader_that_has_enough_ends_the_command_quietly(running_log: RunningLog, shell: Shell) -> None:
    printed(running_log, 30_000)
    process = shell.start("logs", str(running_log.row.task.job_id))
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()
    try:
        assert process.wait(30) != 0
    finally:
        process.kill()
    assert process.stderr.read() == ""
