"""The files of a job's folder over the API: what is listed and downloaded, by whom, and what is said when not."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import pytest

from berth import AsyncClient, BadAnswer, Client, Held, NotFound
from tests.support.run.waiting import wait_until
from tests.support.services.proxy import CuttingProxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.files.conftest import Running
    from tests.support.people.live_web import LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)


def api_of(user: Any) -> Any:
    from tests.support.people.cast import Api

    return Api(user)


def token_of(user: Any) -> str:
    """The secret of a new token."""
    return str(api_of(user).headers["Authorization"].partition(" ")[2])


def person_of(name: str, role: Any) -> Any:
    from tests.support.people.cast import person

    return person(name, role)


@pytest.fixture
def api(running: Running) -> Any:
    return api_of(running.world.user)


def body(answer: Any) -> bytes:
    """Of a streamed answer, whole."""
    return b"".join(answer)


def test_a_folder_is_listed_by_name_with_kinds_and_sizes(running: Running, api: Any) -> None:
    (running.folder / "model.pt").write_bytes(b"weights")
    (running.folder / "logs").mkdir()
    (running.folder / "last").symlink_to("model.pt")
    os.utime(running.folder / "model.pt", (1_700_000_000, 1_700_000_000))
    rows = api.get(f"jobs/{running.job.pk}/files")["results"]
    assert [(row["path"], row["kind"]) for row in rows] == [("last", "link"), ("logs", "folder"), ("model.pt", "file")]
    assert (rows[2]["size"], rows[2]["changed_at"]) == (7, "2023-11-14T22:13:20Z")
    (only,) = api.get(f"jobs/{running.job.pk}/files?path=model.pt&fields=path,size")["results"]
    assert only == {"path": "model.pt", "size": 7}


def test_pages_hold_every_name_once(running: Running, api: Any) -> None:
    for number in range(7):
        (running.folder / f"f{number}").touch()
    page = api.get(f"jobs/{running.job.pk}/files?limit=3")
    seen = [row["name"] for row in page["results"]]
    while page["next"]:
        page = api.get(f"jobs/{running.job.pk}/files?{urlsplit(page['next']).query}")
        seen += [row["name"] for row in page["results"]]
    assert seen == [f"f{number}" for number in range(7)]


HOSTILE = [b"a\nb.txt", b"100%.txt", b"\xff\xfe", b"%2e%2e", b'quote".txt', b"\x1b[2J", "größe 大".encode(), b" "]


def test_names_of_any_bytes_are_listed_and_downloaded_by_their_paths(running: Running, api: Any) -> None:
    (running.folder / "in").mkdir()
    for name in HOSTILE:
        with open(os.fsencode(running.folder / "in") + b"/" + name, "wb") as file:
            file.write(name)
    rows = api.get(f"jobs/{running.job.pk}/files?path=in")["results"]
    assert len(rows) == len(HOSTILE)
    for row, name in zip(rows, sorted(HOSTILE), strict=True):
        answer = api.call("GET", f"jobs/{running.job.pk}/files/content?path={quote(row['path'])}")
        assert body(answer) == name
        header = answer.headers["Content-Disposition"]
        assert header.startswith("attachment; filename")
        assert header.isprintable()


def test_a_file_comes_as_it_is_to_be_saved_and_never_shown(running: Running, api: Any) -> None:
    content = os.urandom(1_000_000)
    (running.folder / "page.html").write_bytes(content)
    answer = api.call("GET", f"jobs/{running.job.pk}/files/content?path=page.html")
    assert body(answer) == content
    assert answer.headers["Content-Length"] == "1000000"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


PARTS = {
    "bytes=0-9": (206, 0, 10), "bytes=290-": (206, 290, 300), "bytes=-7": (206, 293, 300), "bytes=-900": (206, 0, 300),
    "bytes=5-5": (206, 5, 6), "bytes=299-9999": (206, 299, 300),
    "bytes=9-5": (200, 0, 300), "bytes=1-2,5-6": (200, 0, 300), "lines=1-2": (200, 0, 300), "bytes=-": (200, 0, 300),
    "bytes=300-": (416, 0, 0), "bytes=-0": (416, 0, 0),
}  # fmt: skip


def test_a_part_of_a_file_comes_by_its_range_and_what_is_none_is_told(running: Running, api: Any) -> None:
    content = bytes(number % 251 for number in range(300))
    (running.folder / "model.pt").write_bytes(content)
    path = f"jobs/{running.job.pk}/files/content?path=model.pt"
    for asked, (status, first, end) in PARTS.items():
        answer = api.call("GET", path, Range=asked)
        assert answer.status_code == status, asked
        if status == 416:
            assert answer.headers["Content-Range"] == "bytes */300"
            assert json.loads(answer.content)["detail"] == "The file has 300 bytes, none of them there."
            continue
        assert body(answer) == content[first:end], asked
        assert answer.headers["Content-Length"] == str(end - first)
        expected = f"bytes {first}-{end - 1}/300" if status == 206 else None
        assert (answer.headers.get("Content-Range"), answer.headers["Accept-Ranges"]) == (expected, "bytes")
        answer.close()


def test_a_part_is_of_the_version_that_one_has_or_the_whole_file_comes(running: Running, api: Any) -> None:
    file, path = running.folder / "model.pt", f"jobs/{running.job.pk}/files/content?path=model.pt"
    file.write_bytes(b"0123456789")
    first = api.call("GET", path)
    mark = first.headers["ETag"]
    first.close()
    same = api.call("GET", path, Range="bytes=4-", If_Range=mark)
    assert (same.status_code, body(same)) == (206, b"456789")
    file.write_bytes(b"abcdefghijkl")
    other = api.call("GET", path, Range="bytes=4-", If_Range=mark)
    assert (other.status_code, body(other)) == (200, b"abcdefghijkl")
    folder = api.call("GET", f"jobs/{running.job.pk}/files/content", Range="bytes=4-")
    assert (folder.status_code, "ETag" in folder.headers) == (200, False)
    for one in (same, other, folder):
        one.close()


def test_a_folder_comes_as_an_archive(running: Running, api: Any) -> None:
    (running.folder / "out" / "deep").mkdir(parents=True)
    (running.folder / "out" / "deep" / "x").write_bytes(b"1" * 300_000)
    answer = api.call("GET", f"jobs/{running.job.pk}/files/content?path=out")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="out.tar"'
    with tarfile.open(fileobj=io.BytesIO(body(answer))) as archive:
        assert archive.getnames() == ["out", "out/deep", "out/deep/x"]
    whole = api.call("GET", f"jobs/{running.job.pk}/files/content")
    with tarfile.open(fileobj=io.BytesIO(body(whole))) as archive:
        assert archive.getnames()[0] == f"{running.job.name}-{running.job.run}"


BAD_PATHS = ["/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "100%", "%zz", "x" * 5000, "%00"]


def test_a_path_that_is_none_is_refused_by_name(running: Running, api: Any) -> None:
    for path in BAD_PATHS:
        for where in ("files", "files/content"):
            answer = api.call("GET", f"jobs/{running.job.pk}/{where}?path={quote(path, safe='')}")
            assert answer.status_code == 400, path
            assert [fault["path"] for fault in json.loads(answer.content)["errors"]] == ["path"]


def test_what_is_not_there_is_404_and_what_is_no_file_409(running: Running, api: Any) -> None:
    os.mkfifo(running.folder / "pipe")
    (running.folder / "link").symlink_to("/etc/passwd")
    expected = {"nothing": 404, "pipe": 409, "link": 409, "link/x": 409, "pipe/x": 404}
    found = {path: api.call("GET", f"jobs/{running.job.pk}/files/content?path={path}") for path in expected}
    assert {path: answer.status_code for path, answer in found.items()} == expected
    leads = "It is a link that leads out of the job's folder, to /etc/passwd."
    assert [json.loads(found[path].content)["detail"] for path in ("link", "link/x")] == [leads, leads]


def test_a_link_within_the_folder_is_listed_and_downloaded_as_what_it_leads_to(running: Running, api: Any) -> None:
    (running.folder / "model").mkdir()
    (running.folder / "model" / "3.pt").write_text("weights")
    (running.folder / "last.pt").symlink_to("/berth/job/model/3.pt")
    (running.folder / "best").symlink_to("model")
    answer = api.call("GET", f"jobs/{running.job.pk}/files/content?path=last.pt")
    assert body(answer) == b"weights"
    (row,) = api.get(f"jobs/{running.job.pk}/files?path=last.pt")["results"]
    assert (row["path"], row["kind"], row["size"]) == ("last.pt", "file", 7)
    assert [row["path"] for row in api.get(f"jobs/{running.job.pk}/files?path=best")["results"]] == ["best/3.pt"]


BAD_QUERIES = ["paht=x", "limit=0", "limit=1001", "cursor=%21", "fields=secret", "ordering=name"]


def test_a_parameter_that_cannot_be_is_refused(running: Running, api: Any) -> None:
    for query in BAD_QUERIES:
        assert api.call("GET", f"jobs/{running.job.pk}/files?{query}").status_code == 400, query


def test_the_files_are_there_after_the_jobs_end_and_from_any_node_that_has_the_storage(running: Running) -> None:
    from portal.jobs.models import Job

    (running.folder / "kept").write_bytes(b"1")
    running.node.finish()
    running.world.cycle()
    assert Job.objects.get(pk=running.job.pk).state == "succeeded"
    running.world.node("gpu00", gpus=1, root=str(running.root))  # first by name, and its agent does not answer
    api = api_of(running.world.user)
    assert [row["path"] for row in api.get(f"jobs/{running.job.pk}/files")["results"]] == ["kept"]


def test_without_a_node_that_has_the_storage_one_is_told(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.hardware.models import Node
    from portal.node_sessions import folders
    from portal.storages.models import Storage

    monkeypatch.setattr(folders, "ANSWER_WITHIN_S", 0.2)
    api = api_of(cluster.world.user)
    path = f"jobs/{cluster.job.pk}/files"
    silent = api.call("GET", path)
    Node.objects.update(health="lost")
    nobody = api.call("GET", path)
    Storage.objects.all().delete()
    nowhere = api.call("GET", path)
    assert [(one.status_code, json.loads(one.content)["detail"]) for one in (silent, nobody, nowhere)] == [
        (503, "The agent of gpu01 does not answer."),
        (503, "No node that has the storage jobs, where job folders lie, is up now."),
        (404, "No storage of this cluster is for job folders, so jobs have none."),
    ]


def test_a_folder_that_is_gone_is_404_and_not_a_server_that_is_away(running: Running, api: Any) -> None:
    running.folder.rmdir()
    for where in ("files", "files/content"):
        answer = api.call("GET", f"jobs/{running.job.pk}/{where}")
        assert answer.status_code == 404, where
        assert "has no folder" in json.loads(answer.content)["detail"]


def test_requests_that_wait_for_servers_are_few_and_none_waits_for_long(
    cluster: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.node_sessions import folders
    from tests.support.people.pages import Browser

    monkeypatch.setattr(folders, "ANSWER_WITHIN_S", 600)
    monkeypatch.setattr(folders, "WITHIN_S", 0.2)
    alice, path = cluster.world.user, f"jobs/{cluster.job.pk}/files"
    assert api_of(alice).call("GET", path).status_code == 503
    seen = []
    with contextlib.ExitStack() as held:
        for _ in range(6):
            held.enter_context(folders.WAITING.take(alice.pk))
        seen.append(api_of(alice).call("GET", path))
        assert "more files at once" in Browser(alice).get(f"/jobs/{cluster.job.pk}/files").text
        for number in range(18):
            held.enter_context(folders.WAITING.take(-1 - number))
        seen.append(api_of(person_of("root", "admin")).call("GET", path))
    assert [(one.status_code, one.headers["Retry-After"]) for one in seen] == [(429, "5"), (503, "5")]


def test_downloads_at_once_are_so_many_for_each_user(running: Running, api: Any, settings: Any) -> None:
    settings.DOWNLOADS_PER_USER = 1
    (running.folder / "big").write_bytes(bytes(1000))
    path = f"jobs/{running.job.pk}/files/content?path=big"
    first = api.call("GET", path)
    assert [api.call("GET", path).status_code for _ in range(2)] == [429, 429]
    assert api.call("GET", f"jobs/{running.job.pk}/logs/all").status_code == 429
    first.close()
    second = api.call("GET", path)
    assert body(second) == bytes(1000)
    second.close()


def test_a_node_whose_policy_forbids_it_is_not_obeyed_by_force(cluster: Running) -> None:
    with cluster.door(root=None):
        answer = api_of(cluster.world.user).call("GET", f"jobs/{cluster.job.pk}/files")
    assert answer.status_code == 503
    assert "policy does not allow" in json.loads(answer.content)["detail"]


def test_reading_anothers_files_is_an_entry_once_an_hour_and_ones_own_is_none(running: Running, api: Any) -> None:
    from portal.accounts.models import Audited, AuditEntry, ClusterRole
    from tests.support.people.cast import person

    admin = api_of(person("root", ClusterRole.ADMIN))
    path = f"jobs/{running.job.pk}/files"
    for one in (api, admin, admin):
        assert one.call("GET", path).status_code == 200
    (entry,) = AuditEntry.objects.filter(action=Audited.FILES_READ)
    assert (entry.actor, entry.target, entry.vc) == ("root", running.job.label, "vision")


def test_a_download_that_nobody_reads_to_its_end_is_let_go(running: Running, web: LiveWeb) -> None:
    from django.conf import settings
    from redis import Redis

    (running.folder / "big").write_bytes(bytes(50_000_000))
    with (
        Client(f"http://{web.host}", token_of(running.world.user), trust_env=False) as client,
        contextlib.closing(cast(Any, client.download(running.job.pk, "big"))) as pieces,
    ):
        assert next(pieces)
    with Redis.from_url(settings.REDIS_URL) as redis:
        wait_until(lambda: not redis.keys("berth:node:*:session:*:up"), "the session to end", deadline_s=20)


def test_a_download_goes_on_where_the_connection_broke_and_says_when_the_file_is_another(
    running: Running, web: LiveWeb, tmp_path: Path
) -> None:
    content = os.urandom(8_000_000)
    file = running.folder / "big"
    file.write_bytes(content)
    proxy, token = CuttingProxy(f"http://{web.host}"), token_of(running.world.user)
    with contextlib.closing(proxy), Client(proxy.url, token, trust_env=False) as client:
        seen = b""
        for piece in client.download(running.job.pk, "big"):
            seen += piece
            if proxy.accepted < 3:
                proxy.cut()
        assert seen == content
        assert proxy.accepted == 3
        held = Held(8_000_000 - 5, api_of(running.world.user).call(
            "GET", f"jobs/{running.job.pk}/files/content?path=big"
        ).headers["ETag"])  # fmt: skip
        assert (b"".join(client.download(running.job.pk, "big", held=held)), held.begins) == (content[-5:], 7_999_995)
        assert (list(client.download(running.job.pk, "big", held=held)), held.size) == ([], 8_000_000)
        pieces = client.download(running.job.pk, "big")
        next(pieces)
        file.write_bytes(content[1:])
        proxy.cut()
        with pytest.raises(BadAnswer, match="was changed while"):
            list(pieces)
        assert (b"".join(client.download(running.job.pk, "big", held=held)), held.begins) == (content[1:], 0)


async def test_the_python_clients_list_and_download_page_by_page(running: Running, web: LiveWeb) -> None:
    def fill() -> str:
        (running.folder / "out").mkdir()
        for number in range(1005):
            (running.folder / "out" / f"{number:04}").write_bytes(b"%d" % number)
        (running.folder / "big").write_bytes(bytes(2_000_000))
        return token_of(running.world.user)

    token, url, job = await asyncio.to_thread(fill), f"http://{web.host}", running.job.pk

    def blocking() -> tuple[list[str], int]:
        with Client(url, token, trust_env=False) as client:
            return [file.path for file in client.jobs.files(job, "out")], sum(map(len, client.download(job, "big")))

    paths, size = await asyncio.to_thread(blocking)
    assert (paths, size) == ([f"out/{number:04}" for number in range(1005)], 2_000_000)
    async with AsyncClient(url, token, trust_env=False) as client:
        assert [file.path async for file in client.jobs.files(job, "out")] == paths
        assert [piece async for piece in client.download(job, "out/0007")] == [b"7"]
        with pytest.raises(NotFound):
            _ = [piece async for piece in client.download(job, "nothing")]
