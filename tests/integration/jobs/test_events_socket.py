"""``/ws/events``: who may listen, who hears what, and when the line is cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from websockets.exceptions import InvalidStatus

from portal.accounts import websockets
from portal.accounts.models import ClusterRole, Scope, Token, User
from portal.accounts.services import token_create, token_revoke
from portal.common import lasting
from portal.common.live import announce
from portal.job_pages import live_events
from portal.teams.models import Membership
from portal.teams.services.teams import member_set, vc_create
from tests.support.people.cast import HOST, Api, cookie_of, person
from tests.support.people.live_web import Listener, LiveWeb, live_web
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
EVENTS = "/ws/events"


@pytest.fixture
def web(transactional_db: None) -> Iterator[LiveWeb]:
    with live_web() as running:
        yield running


def by_token(user: User) -> dict[str, Any]:
    return {"additional_headers": Api(user).headers}


def heard(listener: Listener, **payload: object) -> list[dict[str, object]]:
    """What arrives when these are announced, up to a mark that everybody hears."""
    announce("job", payload)
    announce("node", {"name": "mark"})
    messages = []
    while (message := listener.next())["kind"] != "node":
        messages.append(message)
    return messages


@pytest.mark.parametrize("way", ["header", "subprotocol", "session"])
def test_one_may_listen_by_token_or_from_a_page_of_the_portal(web: LiveWeb, way: str) -> None:
    alice = person("alice")
    secret = token_create(user=alice, name="t", scope=Scope.READ, now=timezone.now(), expires_at=None).secret
    ways: dict[str, dict[str, Any]] = {
        "header": {"additional_headers": {"Authorization": f"Bearer {secret}"}},
        "subprotocol": {"subprotocols": ["bearer", secret]},
        "session": {"additional_headers": {"Cookie": cookie_of(alice)}, "origin": f"http://{web.host}"},
    }
    with web.socket(EVENTS, **ways[way]) as listener:
        assert heard(listener, id=1, user=alice.pk, vc=0) == [{"kind": "job", "id": 1, "user": alice.pk, "vc": 0}]


REFUSED: dict[str, dict[str, Any]] = {
    "nothing is shown": {},
    "the token is unknown": {"additional_headers": {"Authorization": "Bearer berth_x"}},
    "the page is foreign": {"origin": "http://evil.example"},
    "the page is another server's on this machine": {"origin": "http://127.0.0.1:1"},
    "the origin is missing": {"origin": None},
    "the host is not ours": {"origin": "http://evil.example", "host": "evil.example"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_others_are_closed_out_with_a_code_that_scripts_can_read(web: LiveWeb, case: str) -> None:
    options = dict(REFUSED[case])
    headers = dict(options.pop("additional_headers", {}))
    if "origin" in options:
        headers["Cookie"] = cookie_of(person("alice"))
    if host := options.pop("host", None):
        headers["Host"] = host
    with web.socket(EVENTS, additional_headers=headers, **options) as listener:
        assert listener.close_code() == websockets.CLOSED_NOT_SIGNED_IN


def test_a_path_that_nobody_serves_is_refused(web: LiveWeb) -> None:
    with pytest.raises(InvalidStatus), web.socket("/ws/nothing", **by_token(person("alice"))):
        pass


WHO_HEARS = {"owner": True, "member": True, "admin": True, "auditor": True, "other": False}


@pytest.mark.parametrize("who", WHO_HEARS)
def test_of_a_job_hear_those_who_may_see_it(web: LiveWeb, who: str) -> None:
    owner = person("owner")
    people = {
        "owner": owner,
        "member": person("member"),
        "other": person("other"),
        "admin": person("admin", ClusterRole.ADMIN),
        "auditor": person("auditor", ClusterRole.AUDITOR),
    }
    vc = vc_create(name="vision", now=timezone.now())
    member_set(vc=vc, user=people["member"], role="member", now=timezone.now())
    with web.socket(EVENTS, **by_token(people[who])) as listener:
        assert bool(heard(listener, id=7, user=owner.pk, vc=vc.pk)) is WHO_HEARS[who]


def test_one_who_is_taken_out_of_the_team_stops_hearing_of_its_jobs(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting, "RECHECK_S", 0.05)
    bob, vc = person("bob"), vc_create(name="vision", now=timezone.now())
    member_set(vc=vc, user=bob, role="member", now=timezone.now())
    with web.socket(EVENTS, **by_token(bob)) as listener:
        assert heard(listener, id=1, user=0, vc=vc.pk)
        Membership.objects.all().delete()
        wait_until(lambda: not heard(listener, id=1, user=0, vc=vc.pk), "silence")


def test_a_revoked_token_an_ended_session_and_a_disabled_account_end_the_socket(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting, "RECHECK_S", 0.05)
    alice, bob, carol = person("alice"), person("bob"), person("carol")
    api, cookie = Api(alice), cookie_of(bob)
    with (
        web.socket(EVENTS, additional_headers=api.headers) as by_alice,
        web.socket(EVENTS, additional_headers={"Cookie": cookie}, origin=f"http://{web.host}") as by_bob,
        web.socket(EVENTS, **by_token(carol)) as by_carol,
    ):
        for listener in (by_alice, by_bob, by_carol):
            assert heard(listener, id=1, user=0, vc=0) == []
        token_revoke(token=api.token, now=timezone.now())
        Client(HTTP_HOST=HOST, headers={"Cookie": cookie}).post("/logout")
        User.objects.filter(pk=carol.pk).update(is_active=False)
        for listener in (by_alice, by_bob, by_carol):
            assert listener.close_code() == websockets.CLOSED_NOT_SIGNED_IN


@contextmanager
def tokens_away() -> Iterator[None]:
    """The database fails whoever asks for a token."""
    name = Token._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name} RENAME TO away")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE away RENAME TO {name}")


def not_asked(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the portal has found that a socket's user could not be asked for."""
    return any(record.name == "portal.common.lasting" for record in caplog.records)


def test_a_socket_is_asked_again_after_the_database_failed_it_once(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lasting, "RECHECK_S", 0.05)
    api = Api(person("alice"))
    with web.socket(EVENTS, additional_headers=api.headers) as listener:
        with tokens_away():
            wait_until(lambda: not_asked(caplog), "a round that failed")
        assert heard(listener, id=1, user=0, vc=0) == []
        token_revoke(token=api.token, now=timezone.now())
        assert listener.close_code() == websockets.CLOSED_NOT_SIGNED_IN


def test_a_socket_of_which_nobody_can_be_asked_is_closed_so_that_its_client_comes_back(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting, "RECHECK_S", 0.05)
    monkeypatch.setattr(lasting, "UNASKED_S", 0.2)
    with web.socket(EVENTS, **by_token(person("alice"))) as listener, tokens_away():
        assert listener.close_code() == websockets.CLOSED_UNASKED


def test_a_browser_that_reads_too_slowly_is_told_that_it_missed_something(
    web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "MOST_WAITING", 2)
    gate = threading.Event()
    send = live_events.EventsConsumer.send
    slow_ones: list[live_events.EventsConsumer] = []

    async def slow(self: live_events.EventsConsumer, *args: Any, **kwargs: Any) -> None:
        """A browser's full buffers: nothing goes out until the gate opens."""
        slow_ones.append(self)
        while not gate.is_set():
            await asyncio.sleep(0.01)
        await send(self, *args, **kwargs)

    monkeypatch.setattr(live_events.EventsConsumer, "send", slow)
    with web.socket(EVENTS, **by_token(person("admin", ClusterRole.ADMIN))) as listener:
        for number in range(20):
            announce("job", {"id": number, "user": 0, "vc": 0})
        wait_until(lambda: slow_ones and slow_ones[0].skipped, "the queue to be full")
        gate.set()
        kinds = [listener.next()["kind"]]
        while kinds[-1] != "skipped":
            kinds.append(listener.next()["kind"])
        assert len(kinds) < 10


def test_a_change_is_told_to_nobody_and_breaks_nothing_while_redis_is_away(redis_server: RedisServer) -> None:
    redis_server.kill()
    announce("queue", {})


def test_listeners_hear_again_after_redis_was_away(web: LiveWeb, redis_server: RedisServer) -> None:
    with web.socket(EVENTS, **by_token(person("alice"))) as listener:
        assert heard(listener, id=1, user=0, vc=0) == []
        redis_server.kill()
        redis_server.start()

        def heard_again() -> bool:
            announce("node", {"name": "back"})
            try:
                return bool(listener.next(deadline_s=0.3) == {"kind": "node", "name": "back"})
            except TimeoutError:
                return False

        wait_until(heard_again, "events after the restart")
