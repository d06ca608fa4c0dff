"""Folders of code: uploaded once by hash, named in job files, read by nobody who may not."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client
from django.utils import timezone

from nodes.protocol.messages import Order
from nodes.protocol.packed import Bounds, PackedTooLarge, packed_check
from nodes.protocol.states import Phase
from portal.accounts.models import AuditEntry, Scope, User
from portal.code.models import CodeFolder
from portal.code.services import code_expire, code_upload
from portal.code.store import CodeFiles
from portal.code.tickets import PATH, ticket_open
from portal.job_file.problems import SpecInvalid
from portal.jobs.models import Job
from portal.jobs.services.submit import job_submit
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import HOST, Api, person
from tests.support.run.archives import HELLO, member, name_of, packed

pytestmark = pytest.mark.django_db

GZIP = "application/gzip"


@pytest.fixture(autouse=True)
def code_dir(settings: Any, tmp_path: Path) -> Path:
    settings.CODE_DIR = tmp_path / "code"
    return tmp_path / "code"


@pytest.fixture
def world() -> World:
    """Alice's, with Bob in her virtual cluster and Charlie in another."""
    made = World()
    made.node("gpu01")
    member_set(vc=made.vc, user=person("bob"), role="member", now=made.now)
    member_set(vc=vc_create(name="elsewhere", now=made.now), user=person("charlie"), role="lead", now=made.now)
    return made


def api(name: str, scope: Scope = Scope.SUBMIT) -> Api:
    return Api(User.objects.get(username=name), scope=scope)


def upload(who: Api, archive: bytes, status: int = 201) -> dict[str, Any]:
    answer = who.call("POST", "code", archive, kind=GZIP)
    assert answer.status_code == status, answer.content
    return dict(answer.json())


def content(answer: Any) -> bytes:
    """What an answer streams."""

    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def submit(who: Api, code: str, status: int = 201) -> dict[str, Any]:
    answer = who.call("POST", "jobs", job_file(berth={"code": code}), kind="text/yaml")
    assert answer.status_code == status, answer.content
    return dict(answer.json())


# ---------------------------------------------------------------- uploading


def test_an_upload_is_kept_under_its_hash_and_found_again(world: World, code_dir: Path) -> None:
    alice, archive = api("alice"), packed(HELLO)
    assert alice.call("HEAD", f"code/{name_of(archive)}").status_code == 404
    made = upload(alice, archive)
    assert (made["id"], made["size"], made["entries"]) == (name_of(archive), len(archive), 3)
    assert made["unpacked"] == sum(map(len, HELLO.values()))
    assert alice.get(f"code/{made['id']}") == made
    assert alice.call("HEAD", f"code/{made['id']}").status_code == 200
    assert upload(alice, archive, 200)["id"] == made["id"]
    assert alice.names("code", "id") == [made["id"]]
    (kept,) = files(code_dir)
    assert kept.read_bytes() == archive
    (entry,) = AuditEntry.objects.filter(action="code.upload")
    assert (entry.actor, entry.target) == ("alice", made["id"])


def test_what_two_upload_lies_there_once_and_belongs_to_both(world: World, code_dir: Path) -> None:
    archive = packed(HELLO)
    upload(api("alice"), archive)
    upload(api("charlie"), archive)
    assert len(files(code_dir)) == 1
    assert CodeFolder.objects.count() == 1
    assert api("charlie").names("code", "id") == [name_of(archive)]


@pytest.mark.parametrize(
    ("archive", "status", "said"),
    [
        (b"", 400, "empty"),
        (b"no archive", 400, "no gzip-compressed tar archive"),
        (packed({"../up": b"x"}), 400, "leaves the folder"),
        (packed({"link": member("link", tarfile.SYMTYPE, "/etc/shadow")}), 400, "leaves the folder"),
        (packed({"pipe": member("pipe", tarfile.FIFOTYPE)}), 400, "neither a file"),
        (packed({"su": b"x"}, modes={"su": 0o4755}), 400, "setuid or setgid"),
        (packed({"sg": b"x"}, modes={"sg": 0o2644}), 400, "setuid or setgid"),
        (packed({"a": b"x"}) + gzip.compress(bytes(3 << 20)), 400, "something stands behind its end"),
        (packed({"a": b"x"}) + bytes(1 << 17) + gzip.compress(b""), 400, "something stands behind its end"),
        (packed({"a": b"x"})[:-1], 400, "ends too early"),
        (packed({"zeros": bytes(3 << 20)}), 413, "unpacks to more than 2,097,152 bytes"),
        (packed({f"f{number}": b"" for number in range(51)}), 413, "more than 50 files"),
        (packed({"noise": os.urandom(1 << 20)}), 413, "At most 1048576 bytes"),
    ],
    ids=[
        "empty",
        "no archive",
        "up",
        "link",
        "pipe",
        "setuid",
        "setgid",
        "padded",
        "another",
        "cut",
        "bomb",
        "many",
        "large",
    ],
)
def test_a_bad_archive_is_refused_and_nothing_of_it_stays(
    world: World, code_dir: Path, settings: Any, archive: bytes, status: int, said: str
) -> None:
    settings.CODE_MAX_BYTES, settings.CODE_UNPACKED_MAX_BYTES, settings.CODE_MAX_ENTRIES = 1 << 20, 2 << 20, 50
    answer = api("alice").call("POST", "code", archive, kind=GZIP)
    assert answer.status_code == status
    assert said in answer.json()["detail"]
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert files(code_dir) == []
    assert not CodeFolder.objects.exists()


def test_of_a_bomb_no_more_is_read_than_its_limit(world: World) -> None:
    """Not even of one whose every file is passed over."""
    bomb = io.BytesIO(packed({f"f{number}": bytes(1 << 20) for number in range(200)}))
    with pytest.raises(PackedTooLarge):
        packed_check(bomb, Bounds(unpacked=2 << 20, entries=1000))
    assert bomb.tell() < len(bomb.getvalue()) // 2


def test_one_upload_of_a_person_is_looked_at_at_a_time(world: World, code_dir: Path) -> None:
    alice, archive = api("alice"), packed(HELLO)
    with CodeFiles(code_dir).turn(User.objects.get(username="alice").pk) as alone:  # as another process has it
        assert alone
        refused = alice.call("POST", "code", archive, kind=GZIP)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert "An upload of yours is being looked at" in refused.json()["detail"]
        upload(api("charlie"), archive)
    upload(alice, archive)
    assert files(code_dir) == [CodeFiles(code_dir).path(name_of(archive).partition(":")[2])]


def test_an_archive_of_another_kind_is_not_taken(world: World) -> None:
    assert api("alice").call("POST", "code", packed(HELLO), kind="application/zip").status_code == 415


def test_only_who_may_submit_may_upload(world: World) -> None:
    outsider = Api(person("outsider"))
    assert "membership" in upload(outsider, packed(HELLO), 403)["detail"]
    assert "scope" in upload(api("alice", Scope.READ), packed(HELLO), 403)["detail"]


def test_one_user_fills_no_disk_and_can_make_room(world: World, settings: Any) -> None:
    settings.CODE_USER_BYTES = 1 << 20
    alice = api("alice")
    first = upload(alice, packed({"a": os.urandom(700_000)}))["id"]
    more = packed({"b": os.urandom(700_000)})
    assert "1 MB is the most" in upload(alice, more, 409)["detail"]
    upload(api("bob"), more)
    assert alice.call("DELETE", f"code/{first}").status_code == 204
    assert alice.call("GET", f"code/{first}").status_code == 404
    upload(alice, more)


def test_uploads_are_limited_in_their_number(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.common.throttles import Rate, RateLimit
    from portal.job_pages.api import code

    monkeypatch.setattr(code, "UPLOADS", RateLimit("code", Rate(1, 3600)))
    upload(api("alice"), packed(HELLO))
    upload(api("alice"), packed(HELLO), 429)


def test_so_many_downloads_of_code_are_under_way_at_once(world: World, settings: Any) -> None:
    settings.DOWNLOADS_PER_USER = 1
    path = f"code/{upload(api('alice'), packed(HELLO))['id']}/archive"
    first = api("alice").call("GET", path)
    assert api("alice").call("GET", path).status_code == 429
    first.close()
    assert content(api("alice").call("GET", path)) == packed(HELLO)


# ---------------------------------------------------------------- whose it is


def test_to_know_a_hash_opens_nothing(world: World) -> None:
    code = upload(api("alice"), packed(HELLO))["id"]
    for other in (api("charlie"), api("bob")):
        for path in (f"code/{code}", f"code/{code}/archive"):
            assert other.call("GET", path).status_code == 404
        assert other.call("DELETE", f"code/{code}").status_code == 404
    (fault,) = submit(api("bob"), code, 400)["errors"]
    assert (fault["path"], fault["code"]) == ("extras.berth.code", "unknown")
    assert "berth submit --code" in fault["message"]


def test_who_may_see_a_job_may_read_and_use_its_code(world: World) -> None:
    archive = packed(HELLO)
    code = upload(api("alice"), archive)["id"]
    submit(api("alice"), code)
    bob = api("bob")
    answer = bob.call("GET", f"code/{code}/archive")
    assert content(answer) == archive
    assert AuditEntry.objects.filter(action="code.read", actor="bob", target=code).exists()
    assert submit(bob, code)["code"]["id"] == code
    assert bob.call("DELETE", f"code/{code}").status_code == 404, "only one's own upload"
    assert api("charlie").call("GET", f"code/{code}").status_code == 404


def test_a_job_says_which_code_comes_with_it(world: World) -> None:
    code = upload(api("alice"), packed(HELLO))
    job = submit(api("alice"), code["id"])
    shown = api("alice").get(f"jobs/{job['id']}")["code"]
    assert (shown["id"], shown["size"]) == (code["id"], code["size"])
    assert api("alice").get(f"jobs/{world.submit().pk}")["code"] is None


def test_unknown_code_and_a_storage_in_its_place_are_told_together(world: World) -> None:
    from portal.storages.models import Storage

    Storage.objects.create(name="data", root="/mnt/data", everyone=True)
    extras = {"berth": {"code": f"sha256:{'0' * 64}"}, "storages": [{"name": "data", "mountPath": "/workspace/"}]}
    answer = api("alice").call("POST", "jobs", job_file(extras=extras), kind="text/yaml")
    assert [fault["path"] for fault in answer.json()["errors"]] == [
        "extras.berth.code", "extras.storages[0].mountPath",
    ]  # fmt: skip


# ---------------------------------------------------------------- the node's way to it


def ordered(world: World, code: str) -> tuple[Job, Order]:
    job = job_submit(user=world.user, text=job_file(berth={"code": code}), now=timezone.now())
    world.cycle()
    (order,) = [one for one in world.nodes["gpu01"].desired().orders if one.phase is Phase.RUN]
    return job, order


def address(world: World, order: Order) -> str:
    """The path of the address that an order carries."""
    assert order.code is not None
    url = world.nodes["gpu01"].key.unseal(order.code).decode()
    return url[url.index(f"/{PATH}") :]


def test_an_order_carries_what_the_node_needs_to_fetch_the_code(world: World) -> None:
    archive = packed(HELLO)
    code = upload(api("alice"), archive)
    _, order = ordered(world, code["id"])
    node = world.nodes["gpu01"]
    spec = node.spec(order).code
    assert spec is not None
    assert (f"sha256:{spec.sha256}", spec.size, spec.entries) == (code["id"], len(archive), 3)
    path, anybody = address(world, order), Client(HTTP_HOST=HOST)
    assert content(anybody.get(path)) == archive
    rest = anybody.get(path, headers={"Range": "bytes=10-"})
    assert (rest.status_code, rest["Content-Range"]) == (206, f"bytes 10-{len(archive) - 1}/{len(archive)}")
    assert content(rest) == archive[10:]
    node.obey()
    (running,) = node.desired().orders
    assert running.code is None, "once it runs nobody needs the address"


def test_an_address_is_good_for_its_node_and_order_alone(world: World, code_dir: Path) -> None:
    from portal.code import tickets
    from portal.jobs.services.stop import job_stop

    code = upload(api("alice"), packed(HELLO))["id"]
    job, order = ordered(world, code)
    path, anybody = address(world, order), Client(HTTP_HOST=HOST)
    ticket = ticket_open(path.removeprefix(f"/{PATH}"))
    assert ticket is not None
    assert (ticket.attempt, ticket.node) == (order.attempt, "gpu01")
    elsewhere = tickets.ticket_address(tickets.Ticket(ticket.attempt, "gpu02", ticket.sha256))
    assert anybody.get(elsewhere[elsewhere.index("/node/") :]).status_code == 404
    assert anybody.get(path[:-1] + ("a" if path[-1] != "a" else "b")).status_code == 403
    assert anybody.post(path).status_code == 405
    away = code_dir.rename(code_dir.with_name("away"))
    assert anybody.get(path).status_code == 503, "what is not mounted now is not lost"
    away.rename(code_dir)
    (kept,) = files(code_dir)
    kept.unlink()
    assert anybody.get(path).status_code == 410
    job_stop(job=job, actor=world.user, now=timezone.now())
    assert order.attempt in {one.attempt for one in world.nodes["gpu01"].desired().orders if one.stop}
    assert anybody.get(path).status_code == 404


def test_an_address_grows_old(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.code import tickets

    code = upload(api("alice"), packed(HELLO))["id"]
    _, order = ordered(world, code)
    path = address(world, order)
    monkeypatch.setattr(tickets, "LIVES_S", -1)
    assert Client(HTTP_HOST=HOST).get(path).status_code == 403


# ---------------------------------------------------------------- keeping and forgetting


def test_code_that_no_job_names_goes_after_some_days(world: World, code_dir: Path, settings: Any) -> None:
    alice, bob = api("alice"), api("bob")
    named, unnamed = packed({"a": b"named"}), packed({"a": b"unnamed"})
    submit(alice, upload(alice, named)["id"])
    upload(bob, unnamed)
    later = timezone.now() + timedelta(days=settings.CODE_KEPT_DAYS - 1)
    assert code_expire(now=later) == 0
    assert code_expire(now=later + timedelta(days=2)) == 1
    assert alice.names("code", "id") == [name_of(named)]
    assert bob.names("code", "id") == []
    assert len(files(code_dir)) == 1
    upload(bob, unnamed)


def test_an_archive_that_the_database_does_not_know_goes_as_well(world: World, code_dir: Path, settings: Any) -> None:
    """Its upload was killed before the commit, or an older backup was restored."""
    alice, archive = api("alice"), packed(HELLO)
    upload(alice, archive)
    CodeFolder.objects.all().delete()
    later = timezone.now() + timedelta(days=settings.CODE_KEPT_DAYS + 1)
    assert code_expire(now=later) == 0, "it may be the wrong database, which knows of none"
    known = upload(alice, packed({"a": b"known"}))["id"]
    submit(alice, known)
    assert code_expire(now=timezone.now()) == 0, "its upload may be under way"
    assert code_expire(now=later) == 1
    assert [f"sha256:{path.name.partition('.')[0]}" for path in files(code_dir)] == [known]
    assert alice.names("code", "id") == [known]
    upload(alice, archive)


def test_an_upload_that_broke_off_is_swept_away(world: World, code_dir: Path) -> None:
    uploading = code_dir / "uploading"
    uploading.mkdir(parents=True)
    (uploading / "half").write_bytes(b"half")
    code_expire(now=timezone.now())
    assert len(files(code_dir)) == 1, "it may be still under way"
    code_expire(now=timezone.now() + timedelta(days=2))
    assert files(code_dir) == []


def test_code_whose_file_is_lost_is_uploaded_again(world: World, code_dir: Path) -> None:
    alice, archive = api("alice"), packed(HELLO)
    code = upload(alice, archive)["id"]
    files(code_dir)[0].unlink()
    assert alice.call("HEAD", f"code/{code}").status_code == 404
    submit(alice, code, 400)
    upload(alice, archive, 200)
    submit(alice, code)


# ---------------------------------------------------------------- at the same moment


def at_once(*works: Callable[[], object]) -> None:
    """Each in a thread of its own, begun together; what one raises is raised."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait(10)
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(run, work) for work in works]:
            done.result(60)


@pytest.mark.django_db(transaction=True)
def test_several_uploads_of_the_same_at_once_are_one(world: World, code_dir: Path) -> None:
    archive, users = packed({"noise": os.urandom(50_000)}), User.objects.filter(username__in=("alice", "bob"))
    at_once(*(partial(sent, user, archive) for user in users))
    assert len(files(code_dir)) == 1
    assert CodeFolder.objects.get().uploads.count() == 2


def sent(user: User, archive: bytes) -> None:
    code_upload(user=user, stream=io.BytesIO(archive), now=timezone.now())


def expired() -> None:
    """Deletes whatever no job names."""
    now = timezone.now()
    CodeFolder.objects.filter(used_at__lt=now).update(used_at=now - timedelta(days=365))
    code_expire(now=now)


@pytest.mark.django_db(transaction=True)
def test_an_upload_and_a_deletion_of_the_same_at_once_leave_a_row_with_its_file_or_neither(
    world: World, code_dir: Path
) -> None:
    archive = packed(HELLO)
    for _ in range(15):
        sent(world.user, archive)
        at_once(partial(sent, world.user, archive), expired)
        assert len(files(code_dir)) == CodeFolder.objects.count()


@pytest.mark.django_db(transaction=True)
def test_an_upload_of_what_is_deleted_as_unknown_is_there_afterwards(world: World, code_dir: Path) -> None:
    archive, known = packed(HELLO), packed({"a": b"known"})
    for _ in range(8):
        sent(world.user, archive)
        CodeFolder.objects.all().delete()
        for path in files(code_dir):
            os.utime(path, (0, 0))
        sent(world.user, known)
        at_once(partial(sent, world.user, archive), partial(code_expire, now=timezone.now()))
        assert len(files(code_dir)) == CodeFolder.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_code_that_a_job_names_at_the_moment_of_its_deletion_stays_or_the_job_is_refused(
    world: World, code_dir: Path
) -> None:
    archive, refused = packed(HELLO), []

    def submitted() -> None:
        try:
            world.submit(berth={"code": name_of(archive)})
        except SpecInvalid as error:
            refused.append(error.problems[0].path)

    for _ in range(8):
        sent(world.user, archive)
        at_once(submitted, expired)
        Job.objects.filter(code__isnull=False).update(code=None)
        expired()
        assert files(code_dir) == []
    assert set(refused) <= {"extras.berth.code"}
    assert Job.objects.count() + len(refused) == 8
