"""Bodies as clients really send them, over a real connection."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
from django.conf import settings

from portal.accounts.large_bodies import LARGE_BODIES
from portal.common import bodies
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, cookie_of, person
from tests.support.people.live_web import live_web
from tests.support.run.archives import packed
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def in_chunks(text: str) -> Iterator[bytes]:
    """A body whose length nobody names beforehand."""
    data = text.encode()
    yield from (data[at : at + 1000] for at in range(0, len(data), 1000))


@pytest.fixture
def client(transactional_db: None) -> Iterator[httpx.Client]:
    world = World()
    world.node("gpu01")
    with live_web() as web:
        headers = {**Api(world.user).headers, "Content-Type": "text/yaml"}
        with httpx.Client(base_url=f"http://{web.host}/api/v1", headers=headers, trust_env=False) as client:
            yield client


def test_a_body_that_comes_in_chunks_is_read_to_its_end(client: httpx.Client) -> None:
    padded = job_file() + "# " + "x" * 5000 + "\n"
    answer = client.post("/jobs", content=in_chunks(padded))
    assert answer.status_code == 201, answer.text
    assert client.get(f"/jobs/{answer.json()['id']}/config").text == padded


def test_a_body_that_never_names_its_length_is_refused_at_the_limit(client: httpx.Client) -> None:
    answer = client.post("/jobs", content=in_chunks("#" * (settings.MAX_JOB_FILE_BYTES + 1)))
    assert answer.status_code == 413
    assert str(settings.MAX_JOB_FILE_BYTES) in answer.json()["detail"]


def test_no_body_of_any_length_reaches_the_disk_beyond_its_limit(client: httpx.Client) -> None:
    most = settings.BODY_MAX_BYTES
    for path in ("/me", "/nowhere", "/login"):
        answer = client.post(path, content=in_chunks("#" * (most + 5000)), headers={"Authorization": ""})
        assert (answer.status_code, answer.headers["Content-Type"]) == (413, "application/problem+json")
        assert str(most) in answer.json()["detail"]
    assert named(client, "/jobs", most + 1) == 413


def named(client: httpx.Client, path: str, length: int) -> int:
    """The status for a body that is said to be so long, of which nothing comes."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=10) as raw:
        raw.sendall(f"POST /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n".encode())
        return int(raw.recv(100).split()[1])


def test_an_archive_may_be_larger_than_other_bodies_up_to_its_own_limit(client: httpx.Client) -> None:
    large = packed({"noise": os.urandom(settings.BODY_MAX_BYTES)})
    kind = {"Content-Type": "application/gzip"}
    answer = client.post("/code", content=(large[at : at + 65536] for at in range(0, len(large), 65536)), headers=kind)
    assert answer.status_code == 201, answer.text
    assert answer.json()["size"] == len(large)
    assert named(client, "/code", settings.CODE_MAX_BYTES + 1) == 413


@contextmanager
def uploading(client: httpx.Client, headers: dict[str, str], *, length: int = 0) -> Iterator[socket.socket]:
    """An upload of code that has begun; without ``length`` it comes in chunks, and more comes than anybody may send."""
    lines = {"Host": "127.0.0.1", "Content-Type": "application/gzip", **headers}
    lines |= {"Content-Length": str(length)} if length else {"Transfer-Encoding": "chunked"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=10) as raw:
        raw.sendall(f"POST /api/v1/code HTTP/1.1\r\n{head}\r\n".encode())
        if not length:
            most = settings.BODY_MAX_BYTES + 1
            raw.sendall(b"%x\r\n" % (2 * most) + bytes(most))
        yield raw


def answer_of(raw: socket.socket) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Its status, headers and problem document; waits for the connection's end."""
    told = b""
    with suppress(ConnectionResetError):
        while piece := raw.recv(65536):
            told += piece
    head, _, body = told.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), json.loads(body)


STRANGERS: dict[str, dict[str, str]] = {
    "nothing is shown": {},
    "the token is unknown": {"Authorization": "Bearer berth_x"},
    "the session is unknown": {"Cookie": f"{settings.SESSION_COOKIE_NAME}=x", "Origin": "http://127.0.0.1"},
}


@pytest.mark.parametrize("case", STRANGERS)
@pytest.mark.parametrize("length", [0, settings.BODY_MAX_BYTES + 1])
def test_strangers_cannot_begin_an_upload_that_is_larger_than_other_bodies(
    client: httpx.Client, case: str, length: int
) -> None:
    with uploading(client, STRANGERS[case], length=length) as raw:
        status, headers, document = answer_of(raw)
    assert (status, headers["www-authenticate"], document["title"]) == (401, 'bearer realm="berth"', "Not signed in")


def test_a_session_may_send_a_large_body_and_not_too_many_at_once(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LARGE_BODIES, "_each", lambda: 1)
    host = client.base_url.netloc.decode()
    shown = {"Cookie": cookie_of(person("carol")), "Host": host, "Origin": f"http://{host}"}
    large = settings.BODY_MAX_BYTES + 1
    with uploading(client, shown, length=large):
        wait_until(lambda: LARGE_BODIES._seats, "the first to be under way")
        with uploading(client, shown, length=large) as second:
            status, headers, _ = answer_of(second)
        assert (status, headers["retry-after"]) == (429, "5")
        monkeypatch.setattr(LARGE_BODIES, "_overall", 1)
        with uploading(client, Api(person("dave")).headers, length=large) as third:
            status, headers, _ = answer_of(third)
        assert (status, headers["retry-after"]) == (503, "5")
    wait_until(lambda: not LARGE_BODIES._seats, "the place of one that broke off to be free again")


def test_a_body_that_stops_coming_is_not_waited_for(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE_S", 0.3)
    monkeypatch.setattr(bodies, "PIECE_BYTES", 1000)
    with uploading(client, Api(person("carol")).headers, length=settings.BODY_MAX_BYTES + 1) as raw:
        for _ in range(5):  # in time
            raw.sendall(bytes(1000))
        with suppress(OSError):  # a byte now and then is no progress
            for _ in range(200):
                if select.select([raw], [], [], 0.05)[0]:
                    break
                raw.sendall(b"x")
        assert answer_of(raw)[0] == 408
    wait_until(lambda: not LARGE_BODIES._seats, "its place to be free again")


def test_no_answer_is_kept_by_caches(client: httpx.Client) -> None:
    for path in ("/me", "/jobs", "/jobs/9"):
        assert client.get(path).headers["Cache-Control"] == "no-store"


def test_who_sends_too_much_by_a_form_gets_a_page(client: httpx.Client) -> None:
    headers = {"Accept": "text/html,*/*;q=0.8", "Authorization": ""}
    with httpx.Client(base_url=str(client.base_url.join("/")), headers=headers, trust_env=False) as browser:
        answer = browser.post("/users/import", content=in_chunks("#" * (settings.BODY_MAX_BYTES + 1)))
    assert (answer.status_code, answer.headers["Content-Type"]) == (413, "text/html; charset=utf-8")
    assert "Nothing was changed." in answer.text
