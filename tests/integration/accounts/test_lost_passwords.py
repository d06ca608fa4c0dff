"""A lost password: the link by mail and by command, who gets one, and for how long it holds."""

from __future__ import annotations

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import AuditEntry, User
from portal.accounts.resets import LinkOver, reset_link_make, reset_password
from portal.accounts.services import user_create
from portal.accounts.tasks import RETRIES, password_mail
from portal.common.errors import Refused
from tests.support.people.pages import Browser, Page
from tests.support.run.waiting import early_in_a_minute
from tests.support.services.mail_server import MailServer
from tests.support.services.processes import free_port
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db
OLD, NEW = "correct-horse-battery", "another-good-staple"
SAME = "If there is an account with the name or address"


@pytest.fixture
def alice() -> User:
    return user_create(username="alice", password=OLD, email="alice@example.org")


def ask(typed: str) -> Page:
    return Browser().send("/password/forgotten", typed=typed)


def carry_out(redis_server: RedisServer) -> int:
    """What a control worker does with the orders that wait; how many there were."""
    count = 0
    with redis_server.client() as client:
        while order := client.lpop("control"):
            args, _, _ = json.loads(base64.b64decode(json.loads(order)["body"]))
            password_mail(*args)
            count += 1
    return count


def path_in(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:8000(/password/new/\S+)", text)
    assert found, text
    return found[1]


@pytest.mark.parametrize("typed", ["alice", "Alice@Example.org"])
def test_a_link_comes_by_mail_and_sets_the_password_once(
    alice: User, mail_server: MailServer, redis_server: RedisServer, typed: str
) -> None:
    before = Browser()
    before.send("/login", username="alice", password=OLD)
    assert SAME in ask(typed).text
    assert carry_out(redis_server) == 1
    (letter,) = mail_server.letters
    assert (letter["To"], letter["Subject"]) == ("alice@example.org", "[berth] A new password for alice")
    path = path_in(letter.get_content())
    weak = Browser().send(path, new="short")
    assert (weak.status, "too short" in weak.text) == (400, True)
    assert "Log in with it now." in Browser().send(path, new=NEW).text
    assert before.client.get("/profile").status_code == 302, "who was logged in with the old one is logged out"
    again = Browser().get(path)
    assert (again.status, "This link holds no more" in again.text) == (410, True)
    assert Browser().send("/login", username="alice", password=NEW).status == 200
    told = list(AuditEntry.objects.filter(action__startswith="user.password").values_list("action", "target"))
    assert told == [("user.password", "alice"), ("user.password_link", "alice")]


def test_the_answer_is_the_same_whether_or_not_there_is_an_account(
    alice: User, mail_server: MailServer, redis_server: RedisServer
) -> None:
    user_create(username="dora", password=OLD)
    gone = user_create(username="gone", password=OLD, email="gone@example.org")
    outside = user_create(username="outside", password=None, email="outside@example.org")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    names = ["alice", "nobody", "dora", gone.username, outside.username]
    pages = [ask(name).text.replace(name, "NAME") for name in names]
    assert len(set(pages)) == 1
    assert carry_out(redis_server) == len(names)
    assert [letter["To"] for letter in mail_server.letters] == ["alice@example.org"]


def test_asking_is_slowed_down_by_name_and_by_address(alice: User, mail_server: MailServer) -> None:
    early_in_a_minute()
    assert [ask("alice").status for _ in range(11)] == [200] * 10 + [429]


def test_nobodys_mailbox_is_filled_from_here(alice: User, mail_server: MailServer, caplog: Any) -> None:
    """Asked for by name and by address, from anywhere, again and again."""
    for number in range(14):
        password_mail("alice" if number % 2 else "alice@example.org")
    assert len(mail_server.letters) == 10
    assert "alice asks for a new password again and again" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_of_two_who_use_one_link_at_one_moment_one_sets_the_password(alice: User) -> None:
    uid, token = reset_link_make(user=alice, now=timezone.now(), actor="").split("/")[-2:]
    barrier = Barrier(2)

    def use(password: str) -> bool:
        try:
            barrier.wait(10)
            reset_password(uid=uid, token=token, password=password)
        except LinkOver:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(2) as pool:
        done = dict(zip((NEW, OLD + "2"), pool.map(use, (NEW, OLD + "2")), strict=True))
    assert sorted(done.values()) == [False, True]
    alice.refresh_from_db()
    assert [password for password, used in done.items() if used] == [
        password for password in done if alice.check_password(password)
    ]


def test_while_the_broker_is_away_one_is_told_to_come_again(
    alice: User, mail_server: MailServer, redis_server: RedisServer
) -> None:
    redis_server.kill()
    page = ask("alice")
    assert (page.status, "Try again in some minutes" in page.text) == (503, True)


def test_where_no_mail_is_sent_the_page_says_what_to_do(alice: User) -> None:
    page = Browser().get("/password/forgotten")
    assert "This portal sends no e-mail. An administrator can set a new password" in page.text
    assert "typed" not in page.attribute("input", "name")
    assert Browser().get("/login").links["Forgot your password?"] == "/password/forgotten"


def test_the_command_prints_a_link_that_holds_for_a_day_also_for_who_never_had_a_password(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    dora = user_create(username="dora", password=None)
    call_command("reset_password", "dora")
    path = path_in(capsys.readouterr().out)
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert Browser().get(path).status == 410
    settings.PASSWORD_RESET_TIMEOUT = timedelta(days=1).total_seconds()
    assert "Log in with it now." in Browser().send(path, new=NEW).text
    dora.refresh_from_db()
    assert dora.check_password(NEW)
    entry = AuditEntry.objects.get(action="user.password_link")
    assert (entry.actor, entry.via, entry.target) == ("", "system", "dora")


def test_the_command_asks_for_a_password_twice(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter([NEW, "not the same", "short", "short", NEW, NEW])
    monkeypatch.setattr("portal.accounts.management.commands.reset_password.getpass", lambda prompt: next(typed))
    for wrong in ("The two are not the same", "too short"):
        with pytest.raises(CommandError, match=wrong):
            call_command("reset_password", "alice", "--ask")
    call_command("reset_password", "alice", "--ask")
    alice.refresh_from_db()
    assert alice.check_password(NEW)


@pytest.mark.parametrize(
    ("change", "said"), [({"username": "other"}, "no user alice"), ({"is_active": False}, "disabl")]
)
def test_the_command_says_who_gets_no_link(alice: User, change: dict[str, Any], said: str) -> None:
    User.objects.update(**change)
    with pytest.raises(CommandError, match=said):
        call_command("reset_password", "alice")


def test_what_is_no_link_opens_nothing(alice: User, settings: Settings) -> None:
    path = path_in(reset_link_make(user=alice, now=timezone.now(), actor=""))
    uid, token = path.split("/")[-2:]
    zeros = base64.urlsafe_b64encode(b"9" * 30).decode()
    for other in (f"{uid}/x{token}", f"MTAw/{token}", f"%00/{token}", f"{zeros}/{token}", f"{uid}/-"):
        assert Browser().get(f"/password/new/{other}").status == 410, other
    settings.PASSWORDS = False
    assert Browser().get(path).status == 410
    with pytest.raises(Refused, match="BERTH_PASSWORDS"):
        reset_link_make(user=alice, now=timezone.now(), actor="")


def test_a_mail_server_that_is_away_is_one_sentence_in_the_log_with_each_try(
    alice: User, settings: Settings, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings.EMAIL_PORT = free_port()
    for tried in (0, RETRIES):
        caplog.clear()
        done = password_mail.apply(args=("alice",), retries=tried)
        told = [record.getMessage() for record in caplog.records if record.name == "portal.accounts.tasks"]
        assert told[0] == (
            "a link for a new password is not sent: Nothing listens where the mail server of BERTH_EMAIL_URL should: "
            "start it, open its port, or correct BERTH_EMAIL_URL."
        )
        assert len(told) == RETRIES + 1 - tried
        assert done.state == "SUCCESS", "the last try has said it"
