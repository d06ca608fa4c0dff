"""When reports are sent; what is in them the agent's own tests say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from celery import Celery
from structlog.testing import capture_logs

from nodes.agent.attempts.reporter import COALESCE_S, FULL, MOST_WAITING, SOON_S, Reporter
from nodes.agent.attempts.supervisor import View
from nodes.agent.clock import SystemClock
from nodes.agent.contact import Contact
from nodes.protocol.accounts import url_with_account
from nodes.protocol.envelope import NodeKey
from nodes.protocol.messages import Inventory
from nodes.protocol.names import REPORTS_QUEUE
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

INVENTORY = Inventory(
    hostname="gpu01", cpu_milli=1000, memory_mb=1024, gpus=(), simulated=True, address="127.0.0.1", interface="lo",
    runtime="process",
)  # fmt: skip


class Looks:
    """What the supervisor shows, and how often it was asked."""

    def __init__(self) -> None:
        self.count = 0

    def view(self) -> View:
        self.count += 1
        return View(generation=self.count, answers=self.count, containers=(), specs_known=())


@pytest.fixture
def looks() -> Looks:
    return Looks()


def made(url: str, looks: Looks, folder: Path) -> Reporter:
    """One that is at work, and reports by itself once only."""
    reporter = Reporter(
        app=Celery("nodes", broker=url, set_as_current=False),
        cluster="berth", node="gpu01", key=NodeKey.generate(), boot=1, view=looks.view, sample=lambda: None,
        inventory=lambda: INVENTORY, clock=SystemClock(), contact=Contact(SystemClock()), every_s=3600,
        reported=folder / "reported",
    )  # fmt: skip
    reporter.open()
    return reporter


@pytest.fixture
def reporter(redis_server: RedisServer, looks: Looks, tmp_path: Path) -> Iterator[Reporter]:
    with closing(made(redis_server.url, looks, tmp_path)) as one:
        yield one


def sent(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.llen(REPORTS_QUEUE))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_change_is_reported_long_before_the_next_report_is_due(
    reporter: Reporter, redis_server: RedisServer, at_once: bool
) -> None:
    wait_until(lambda: sent(redis_server) == 1, "the first report")
    reporter.change(at_once)
    wait_until(lambda: sent(redis_server) == 2, "the report of the change")


def test_many_changes_travel_in_few_reports(reporter: Reporter, redis_server: RedisServer, looks: Looks) -> None:
    wait_until(lambda: sent(redis_server) == 1, "the first report")
    began = time.monotonic()
    while time.monotonic() - began < 5 * COALESCE_S:
        reporter.change(True)
    before = looks.count
    reporter.change(True)
    wait_until(lambda: looks.count > before, "a look after the last change")
    assert sent(redis_server) <= (time.monotonic() - began) / COALESCE_S + 2


def test_what_nobody_waits_for_travels_with_what_follows(reporter: Reporter, redis_server: RedisServer) -> None:
    wait_until(lambda: sent(redis_server) == 1, "the first report")
    began = time.monotonic()
    while time.monotonic() - began < 3 * SOON_S:
        reporter.change(False)
    assert sent(redis_server) <= (time.monotonic() - began) / SOON_S + 2


def test_where_nobody_takes_reports_in_their_number_has_an_end_and_they_go_on_at_once_when_somebody_does(
    reporter: Reporter, redis_server: RedisServer, tmp_path: Path
) -> None:
    proof = tmp_path / "reported"
    wait_until(lambda: sent(redis_server) == 1, "the first report")
    with redis_server.client() as client:
        client.lpush(REPORTS_QUEUE, *["another node's"] * (MOST_WAITING - 2))
        reporter.change(True)
        wait_until(lambda: sent(redis_server) == MOST_WAITING, "the last report for which there is room")
        with capture_logs() as told:
            before = proof.stat().st_mtime_ns
            reporter.change(True)
            wait_until(lambda: proof.stat().st_mtime_ns > before, "a report that is kept back")
            reporter.change(True)
            wait_until(lambda: len(told) > 0, "the line that says so")
        assert sent(redis_server) == MOST_WAITING
        assert [one["reason"] for one in told] == [FULL]
        client.delete(REPORTS_QUEUE)
    wait_until(lambda: sent(redis_server) == 1, "the report that was kept back, without any change", deadline_s=10)


def test_a_portal_that_lets_nobody_ask_how_many_wait_gets_reports_all_the_same(
    redis_server: RedisServer, looks: Looks, tmp_path: Path
) -> None:
    with redis_server.client() as root:
        root.acl_setuser("reports.gpu01", enabled=True, passwords=["+pw"], keys=[REPORTS_QUEUE],
                         commands=["+ping", "+select", "+lpush"])  # fmt: skip
    url = url_with_account(redis_server.url, account="reports.gpu01", password="pw")
    with closing(made(url, looks, tmp_path)):
        wait_until(lambda: sent(redis_server) == 1, "the first report")


def test_a_file_says_when_the_last_report_went_out(
    reporter: Reporter, redis_server: RedisServer, tmp_path: Path
) -> None:
    proof = tmp_path / "reported"
    wait_until(proof.exists, "the first report")
    redis_server.kill()
    before = proof.stat().st_mtime_ns
    reporter.change(True)
    time.sleep(2 * COALESCE_S)
    assert proof.stat().st_mtime_ns == before, "nothing went out"
    redis_server.start()
    reporter.change(True)
    wait_until(lambda: proof.stat().st_mtime_ns > before, "a report that goes out again")
