"""Heads of requests as strangers may send them, over a real connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from portal.common.heads import HEAD_BYTES, BoundedHeads
from tests.support.people.live_web import LiveWeb, live_web

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ENDLESS = {
    "an address": (b"GET /", b"a"),
    "a header": (FIRST + b"X-One: ", b"a"),
    "headers": (FIRST, b"X-Many: a\r\n"),
    "what follows a body": (
        b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
        b"X-Many: a\r\n",
    ),
}


@pytest.fixture
def web(transactional_db: None) -> Iterator[LiveWeb]:
    with live_web() as running:
        yield running


@pytest.mark.parametrize("what", ENDLESS)
def test_a_head_without_end_ends_its_connection(web: LiveWeb, what: str) -> None:
    first, more = ENDLESS[what]
    host, _, port = web.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as stranger, suppress(ConnectionError):
        stranger.sendall(first + more * (4 * HEAD_BYTES // len(more)))
        while stranger.recv(4096):
            pass


def test_a_request_with_large_cookies_and_a_large_body_is_answered(web: LiveWeb) -> None:
    url, large = f"http://{web.host}/healthz", {"Cookie": f"kept={'c' * 30_000}"}
    with httpx.Client(trust_env=False) as client:
        for _ in range(4):
            assert client.get(url, headers=large).status_code == 200
            assert client.post(url, headers=large, content=b"b" * (4 * HEAD_BYTES)).status_code in {403, 405}
            assert client.post(url, content=iter([b"b" * 100] * 5000)).status_code in {403, 405}


def test_the_tests_run_the_web_server_that_the_stack_does(web: LiveWeb) -> None:
    assert web.server.config.http_protocol_class is BoundedHeads
