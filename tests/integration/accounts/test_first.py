"""The first administrator: by a code that each web process prints while there is none, and by nothing else."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.accounts.first import MOST_CODES, first_announce, first_code_make, started
from portal.accounts.models import AuditEntry, FirstCode, User
from portal.accounts.services import user_create
from tests.support.people.cast import person
from tests.support.people.pages import Browser, Page
from tests.support.run.waiting import early_in_a_minute

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-battery"


def code_in(log: pytest.LogCaptureFixture) -> str:
    found = re.search(r"Open http://127\.0\.0\.1:8000/first and give the code (\S+)", log.text)
    assert found, log.text
    log.clear()
    return found[1]


def make(code: str, username: str = "root", password: str = PASSWORD) -> Page:
    return Browser().send("/first", code=code, username=username, password=password)


def test_any_web_process_takes_the_code_that_any_has_printed_and_then_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    codes = []
    for _ in range(2):
        first_announce()
        codes.append(code_in(caplog))
    assert codes[0] != codes[1]
    assert not FirstCode.objects.filter(digest__in=codes).exists(), "the database knows only hashes"
    assert Browser().get("/login").links["Make the first administrator"] == "/first"
    page = make(codes[0])
    assert (page.status, "root" in page.text) == (200, True)
    root = User.objects.get()
    assert (root.username, root.role, root.is_superuser) == ("root", "admin", True)
    assert make(codes[1], "second").status == 404
    assert "Make the first administrator" not in Browser().get("/login").text
    assert not FirstCode.objects.exists()
    told = list(AuditEntry.objects.order_by("pk").values_list("action", "target"))
    assert told == [("user.create", "root"), ("sign_in", "root")]


def test_a_wrong_code_makes_nobody_and_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    early_in_a_minute()
    first_announce()
    page = make(f"x{code_in(caplog)}")
    assert (page.status, "This is not the code" in page.text) == (403, True)
    assert not User.objects.exists()
    assert AuditEntry.objects.get().action == "sign_in.refused"
    assert [make("wrong").status for _ in range(10)][-1] == 429


@pytest.mark.parametrize(("username", "password"), [("..", PASSWORD), ("root", "short")])
def test_a_name_or_password_that_cannot_be_leaves_the_code_as_it_is(username: str, password: str) -> None:
    code = first_code_make(now=timezone.now())
    assert make(code, username, password).status == 400
    assert not User.objects.exists()
    assert make(code).status == 200


def test_with_an_administrator_nothing_is_printed_and_no_page_is_there(caplog: pytest.LogCaptureFixture) -> None:
    user_create(username="root", password=PASSWORD, role="admin")
    first_announce()
    assert "Nobody administers" not in caplog.text
    assert Browser().get("/first").status == 404
    with pytest.raises(CommandError, match="reset_password"):
        call_command("first_code")


def test_others_do_not_keep_the_first_administrator_away(capsys: pytest.CaptureFixture[str]) -> None:
    person("alice")
    call_command("first_code")
    assert make(capsys.readouterr().out.strip()).status == 200


def test_codes_of_processes_of_long_ago_are_over() -> None:
    oldest = first_code_make(now=timezone.now())
    for _ in range(MOST_CODES):
        newest = first_code_make(now=timezone.now())
    assert make(oldest).status == 403
    assert make(newest).status == 200


@pytest.mark.django_db(transaction=True)
def test_a_web_process_announces_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    said: list[Any] = []

    async def life() -> None:
        events: asyncio.Queue[Any] = asyncio.Queue()
        events.put_nowait({"type": "lifespan.startup"})

        async def send(message: Any) -> None:
            said.append(message["type"])

        running = asyncio.create_task(started({"type": "lifespan"}, events.get, send))
        async with asyncio.timeout(10):
            while "Nobody administers" not in caplog.text:
                await asyncio.sleep(0.01)
        events.put_nowait({"type": "lifespan.shutdown"})
        await running

    with caplog.at_level(logging.WARNING):
        asyncio.run(life())
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert make(code_in(caplog)).status == 200
