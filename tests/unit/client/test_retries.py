"""What the client tries again, and what it must not: against a server that answers as a broken one does."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from berth import BadAnswer, Client, Misused, NotSignedIn, Problem, ServerFault, TooMany, Unreachable

ME = {"id": 1, "username": "alice", "email": "", "role": "user", "scope": "read"}
Answer = tuple[int, dict[str, str], bytes]
CUT: Answer = (0, {}, b"")


def said(status: int, body: object, kind: str = "application/json", **headers: str) -> Answer:
    return status, {"Content-Type": kind, **headers}, json.dumps(body).encode()


def refused(status: int, **headers: str) -> Answer:
    return said(status, {"title": "T", "detail": "D.", "status": status}, "application/problem+json", **headers)


GOOD = said(200, ME)


class BrokenServer(socketserver.ThreadingTCPServer):
    """Gives the answers one after another, the last one for ever; `asked` holds what came."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: BrokenServer

    def handle_one(self) -> None:
        if self.headers.get("Authorization") != "Bearer berth_x":
            self.send_error(404)  # agents of other tests ask whatever listens on this machine what it is
            return
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        answers = self.server.answers
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_one

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def server(*answers: Answer) -> Iterator[tuple[BrokenServer, Client]]:
    with BrokenServer(list(answers)) as running, Client(running.url, "berth_x", trust_env=False) as client:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running, client
        running.shutdown()


@pytest.mark.parametrize(
    "trouble", [CUT, refused(503), said(502, "", "text/html"), refused(429, **{"Retry-After": "0"})]
)
def test_reading_is_tried_again(trouble: Answer) -> None:
    with server(trouble, trouble, GOOD) as (running, client):
        assert client.me().username == "alice"
        assert len(running.asked) == 3


def test_a_submission_is_sent_again_under_the_same_key() -> None:
    with server(CUT, refused(400)) as (running, client):
        with pytest.raises(Problem):
            client.jobs.submit("name: x")
        keys = {headers["idempotency-key"] for _, _, headers in running.asked}
        assert (len(running.asked), len(keys)) == (2, 1)


ONCE: dict[str, Callable[[Client], object]] = {
    "a stop": lambda client: client.jobs.stop(7),
    "a new token": lambda client: client.tokens.create("x"),
    "signing in": lambda client: client.login("alice", "secret"),
    "a move": lambda client: client.jobs.move(7, "vision"),
}


@pytest.mark.parametrize("trouble", [CUT, refused(503)])
@pytest.mark.parametrize("what", ONCE)
def test_what_would_do_more_when_sent_twice_is_sent_once(what: str, trouble: Answer) -> None:
    with server(trouble) as (running, client):
        with pytest.raises((Unreachable, ServerFault)):
            ONCE[what](client)
        assert len(running.asked) == 1


def test_trying_ends_and_says_what_was_wrong() -> None:
    with server(refused(503)) as (running, client):
        with pytest.raises(ServerFault, match=r"D\.") as error:
            client.me()
        assert error.value.status == 503
        assert len(running.asked) == 4


def test_a_fault_inside_the_server_is_told_at_once() -> None:
    with server(refused(500)) as (running, client):
        with pytest.raises(ServerFault):
            client.me()
        assert len(running.asked) == 1


def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    with server(refused(429, **{"Retry-After": "1"}), GOOD) as (running, client):
        begun = time.monotonic()
        client.me()
        assert time.monotonic() - begun >= 0.5, "half of it at least: the pause is drawn"
        assert len(running.asked) == 2


def test_a_long_wait_that_the_server_asks_for_is_left_to_whoever_asked() -> None:
    with server(refused(429, **{"Retry-After": "3600"})) as (running, client):
        begun = time.monotonic()
        with pytest.raises(TooMany) as error:
            client.me()
        assert time.monotonic() - begun < 5
        assert (error.value.retry_after_s, len(running.asked)) == (3600, 1)


def test_a_token_goes_to_its_own_server_alone() -> None:
    with server(GOOD) as (other, _):
        with (
            server((302, {"Location": f"{other.url}/api/v1/me"}, b"")) as (_, client),
            pytest.raises(BadAnswer, match="moved"),
        ):
            client.me()
        rows = {"next": f"{other.url}/api/v1/tokens?cursor=abc&limit=9", "results": []}
        with server(said(200, rows), said(200, {"next": None, "results": []})) as (running, client):
            assert list(client.tokens.list()) == []
            assert [path for _, path, _ in running.asked] == ["/api/v1/tokens", "/api/v1/tokens?cursor=abc"]
        assert other.asked == []


STRANGE = {
    "no JSON": said(200, "", "text/html")[:2] + (b"<html>",),
    "another shape": said(200, {"id": "x"}),
    "a page of something else": said(404, "", "text/html"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_is_no_answer_of_berths_is_said_to_be_none(case: str) -> None:
    with server(STRANGE[case]) as (_, client), pytest.raises(BadAnswer):
        client.me()


def test_a_server_of_tomorrow_may_say_more() -> None:
    with server(said(200, {**ME, "shoe_size": 43, "role": "wizard"})) as (_, client):
        assert client.me().role == "wizard"


def test_an_ended_token_is_not_tried_again() -> None:
    with server(refused(401)) as (running, client):
        with pytest.raises(NotSignedIn):
            client.me()
        assert len(running.asked) == 1


@pytest.mark.parametrize("url", ["", "berth.example.org", "ftp://x", "http://", "https://user:pw@x", "http://x/?a=1"])
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(Misused):
        Client(url)


@pytest.mark.parametrize("token", ["berth x", "berth\n", "bérth"])
def test_a_token_that_cannot_be_one_is_refused(token: str) -> None:
    with pytest.raises(Misused):
        Client("http://x", token)


def test_a_token_is_not_shown_by_printing_the_client() -> None:
    assert "berth_secret" not in repr(Client("http://x", "berth_secret").server)


def test_a_slow_server_is_given_up() -> None:
    with server(GOOD) as (running, _):
        running.shutdown()
        with Client(running.url, timeout_s=0.2, trust_env=False) as client, pytest.raises(Unreachable, match="in time"):
            client.login("alice", "x")
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
