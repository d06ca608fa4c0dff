"""Bodies as clients really send them, over a real connection."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings

from tests.support.archives import packed
from tests.support.cast import Api
from tests.support.live_web import live_web
from tests.support.world import World, job_file

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


def test_no_answer_is_kept_by_caches(client: httpx.Client) -> None:
    for path in ("/me", "/jobs", "/jobs/9"):
        assert client.get(path).headers["Cache-Control"] == "no-store"


def test_who_sends_too_much_by_a_form_gets_a_page(client: httpx.Client) -> None:
    headers = {"Accept": "text/html,*/*;q=0.8", "Authorization": ""}
    with httpx.Client(base_url=str(client.base_url.join("/")), headers=headers, trust_env=False) as browser:
        answer = browser.post("/users/import", content=in_chunks("#" * (settings.BODY_MAX_BYTES + 1)))
    assert (answer.status_code, answer.headers["Content-Type"]) == (413, "text/html; charset=utf-8")
    assert "Nothing was changed." in answer.text
