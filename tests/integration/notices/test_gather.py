"""Events are gone through once and none is missed, in whatever order transactions end; and it costs jobs nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.jobs.exits import END
from portal.jobs.models import Job, JobEvent
from portal.notices.models import Notice, Place
from portal.notices.services.gather import notices_gather
from portal.notices.states import JobNotice, Told
from tests.integration.notices.telling import choose, ended_jobs, hook
from tests.support.cluster.world import World
from tests.support.services.mail_server import MailServer

pytestmark = pytest.mark.django_db


def fail(job: Job, number: int) -> None:
    JobEvent.objects.create(job=job, at=timezone.now(), code="failed", data=END(what=f"It failed, {number}").stored())


def told() -> list[str]:
    return list(Notice.objects.order_by("id").values_list("message", flat=True))


def test_an_event_whose_transaction_ends_later_than_a_newer_one_is_not_missed(
    world: World, mail_server: MailServer
) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    job = world.submit()
    written, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            fail(job, 1)
            written.set()
            go_on.wait(30)
        connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert written.wait(30)
    if connection.vendor == "postgresql":  # SQLite lets nobody else write meanwhile
        fail(job, 2)
        for _ in range(3):
            notices_gather(now=timezone.now())
            assert told() == [], "the earlier one may still come"
    go_on.set()
    thread.join()
    if connection.vendor != "postgresql":
        fail(job, 2)
    notices_gather(now=timezone.now())
    assert told() == ["It failed, 2. (And 1 more like it.)"]
    notices_gather(now=timezone.now())
    assert len(told()) == 1


def test_that_ends_count_as_a_jobs_own_is_mailed_to_its_owner_unless_they_chose_otherwise(
    world: World, mail_server: MailServer
) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()

    def counted() -> int:
        for code in ("faults_counted", "idle_warned"):
            JobEvent.objects.create(job=job, at=timezone.now(), code=code, data=END(what=code).stored())
        notices_gather(now=timezone.now())
        return len(told())

    assert counted() == 1
    assert told() == ["faults_counted."]
    choose(world.user)
    assert counted() == 1, "nothing was chosen: that is a choice"
    choose(world.user, "warned")
    assert counted() == 2


def test_two_workers_that_gather_at_once_tell_each_event_once(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    ended_jobs(world.submit(), 300)

    def work() -> None:
        notices_gather(now=timezone.now())
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notices_gather(now=timezone.now())
    assert Notice.objects.count() == 300


def test_whoever_dies_while_it_decides_has_decided_nothing(
    world: World, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    ended_jobs(world.submit(), 3)
    before = Place.objects.get(pk="job").done
    with CaptureQueriesContext(connection) as all_of_it, transaction.atomic():
        notices_gather(now=timezone.now())
        transaction.set_rollback(True)
    statements = len(all_of_it)
    for number in range(1, statements, 5):
        with pytest.raises(Killed), connection.execute_wrapper(dies_at(number)):
            notices_gather(now=timezone.now())
        if Notice.objects.exists():
            break
        gone_by = JobEvent.objects.filter(pk__gt=before, pk__lte=Place.objects.get(pk="job").done)
        assert not gone_by.exists(), "no event is gone by that nothing was decided of"
    notices_gather(now=timezone.now())
    assert Notice.objects.count() == 3


class Killed(Exception):
    """Where the process would have been killed."""


def dies_at(number: int) -> Any:
    passed = 0

    def before(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal passed
        passed += 1
        if passed == number:
            raise Killed
        return execute(sql, params, many, context)

    return before


def test_a_thousand_events_take_a_fixed_number_of_queries(world: World, mail_server: MailServer) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    job = world.submit()
    counts = []
    for many in (10, 1000):
        ended_jobs(job, many, name=f"many-{many}")
        with CaptureQueriesContext(connection) as queries:
            notices_gather(now=timezone.now())
        counts.append(len(queries))
    assert Notice.objects.count() == 1010
    # What is inserted in pieces costs a statement for each piece.
    assert counts[1] <= counts[0] + 1000 // 90


def test_the_first_reading_starts_at_the_end_and_tells_nothing_of_the_past(
    world: World, mail_server: MailServer
) -> None:
    choose(world.user, "failed")
    world.node("gpu01", gpus=1)
    ended_jobs(world.submit(), 3)
    Place.objects.all().delete()
    notices_gather(now=timezone.now())
    assert told() == []


def test_a_job_that_starts_and_ends_costs_no_statement_of_notices(world: World, mail_server: MailServer) -> None:
    """Whoever listens: events are read by the control worker, and those who write them know nothing of it."""
    node = world.node("gpu01", gpus=1)

    def statements() -> list[str]:
        world.submit()
        with CaptureQueriesContext(connection) as queries:
            world.settle()
            node.finish()
            world.settle()
        return [query["sql"] for query in queries]

    choose(world.user, *JobNotice.values)
    hook("https://example.org/", *Told.values)
    assert [sql for sql in statements() if "notices_" in sql] == []
