"""Requests that no client of ours sends: each is refused, and none of them is a fault in the portal's log."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from portal.accounts.websockets import CLOSED_NOT_VISIBLE
from tests.support.people.cast import Api, cookie_of, person
from tests.support.people.live_web import LiveWeb, live_web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web(transactional_db: None) -> Iterator[LiveWeb]:
    with live_web() as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_failed(web: LiveWeb, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No traceback, whatever was asked."""
    yield
    assert not [record.getMessage() for record in caplog.records if record.exc_info], caplog.text
    assert "Traceback" not in caplog.text


UNKNOWN = [
    "/ws/", "/ws", "/ws/nothing", "/", "/api/v1/me", "/ws/logs/", "/ws/logs/a/b", "/ws/jobs/x/logs", "/ws/jobs/-1/logs",
    "/ws/jobs/1", "/ws/jobs/1/logs/", "/ws/exec/", "/ws/events/", "/WS/events", "/ws/%00", "/ws/%ff%fe",
    "/ws/%0a", "/ws/../ws",
]  # fmt: skip


@pytest.mark.parametrize("path", UNKNOWN)
def test_a_websocket_that_is_not_there_is_not_found_by_anybody(web: LiveWeb, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused, web.socket(path):
        pass
    assert refused.value.response.status_code == 404


NOT_THERE = [
    "/ws/logs/nothing", "/ws/logs/%00", "/ws/logs/00000000-0000-0000-0000-000000000000", "/ws/jobs/1/logs",
    "/ws/jobs/99999999999999999999999/logs", "/ws/logs/x?offset=" + "9" * 5000,
    "/ws/jobs/1/logs?attempt=" + "9" * 5000, "/ws/jobs/1/logs?log=%ff&log=x",
]  # fmt: skip


@pytest.mark.parametrize("path", NOT_THERE)
def test_one_of_something_that_is_not_there_is_closed(web: LiveWeb, path: str) -> None:
    with web.socket(path, additional_headers=Api(person("alice")).headers) as listener:
        assert listener.close_code() == CLOSED_NOT_VISIBLE


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://a:b:c", "//", "\u00ff"])
def test_an_origin_that_is_none_is_a_foreign_one(web: LiveWeb, origin: str) -> None:
    headers = {"Cookie": cookie_of(person("alice"))}
    with web.socket("/ws/events", additional_headers=headers, origin=origin) as listener:
        assert listener.close_code() == 4401


@pytest.mark.parametrize("method", ["BREW", "TRACE", "PROPFIND"])
def test_an_unknown_method_is_refused(web: LiveWeb, method: str) -> None:
    with httpx.Client(base_url=f"http://{web.host}", trust_env=False) as client:
        for path in ("/", "/login", "/api/v1/me", "/api/v1/jobs", "/healthz", "/nowhere"):
            assert client.request(method, path).status_code in {302, 400, 401, 403, 404, 405}, path


@pytest.mark.parametrize("host", ["evil.example", "a b", "[", "[::1", "127.0.0.1:x", "", "\u00ff", "a" * 300])
def test_a_host_that_is_not_ours_is_a_bad_request(web: LiveWeb, host: str) -> None:
    name, _, port = web.host.partition(":")
    for path in ("/login", "/api/v1/me", "/nowhere"):
        with socket.create_connection((name, int(port)), timeout=30) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
            assert line.makefile("rb").readline().split()[1] == b"400", path
