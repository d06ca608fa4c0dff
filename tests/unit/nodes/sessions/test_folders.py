"""What a job's folder shows of a hostile user's files, and what it never opens."""

from __future__ import annotations

import io
import os
import socket
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from nodes.agent.sessions.folders import (
    DEEPEST,
    NAMES_AT_ONCE,
    FilesFailed,
    entry_at,
    failures,
    file_read,
    folder_archive,
    folder_list,
    path_open,
)
from nodes.protocol.messages import Mount
from nodes.protocol.sessions import FileEntry, SessionFault

SECRET = b"a secret of the node"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder on a storage, beside what must never be seen."""
    (tmp_path / "secret").write_bytes(SECRET)
    folder = tmp_path / "storage" / "alice" / "train-1"
    folder.mkdir(parents=True)
    return folder


def mount_of(job: Path) -> Mount:
    return Mount(storage="jobs", root=str(job.parents[1]), source=str(job), target="/berth/job")


def listed(job: Path, path: bytes = b"", *, after: bytes = b"", limit: int = 1000) -> tuple[list[FileEntry], bool]:
    with path_open(mount_of(job), path) as (folder, name), failures():
        listing = folder_list(folder, name, after=after, limit=limit)
    return list(listing.entries), listing.more


def content(job: Path, path: bytes, offset: int = 0, length: int | None = None) -> bytes:
    with path_open(mount_of(job), path) as (folder, name), failures():
        size = entry_at(folder, name).size if length is None else length
        return b"".join(file_read(folder, name, offset, size))


def archived(job: Path, path: bytes = b"") -> dict[str, tarfile.TarInfo]:
    out = io.BytesIO()
    with path_open(mount_of(job), path) as (folder, name), failures():
        folder_archive(folder, name, b"top", out.write)
    out.seek(0)
    with tarfile.open(fileobj=out, errors="surrogateescape") as archive:
        members = {}
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            member.pax_headers = {"content": file.read().decode(errors="surrogateescape")} if file else {}
            members[member.name] = member
    return members


def test_names_of_any_bytes_are_listed_in_order_and_can_be_read(job: Path) -> None:
    names = [b"a\nb", b"a\x1b[2J", b"b%41", b"\xff\xfe", "größe".encode(), b"-rf", b" ", b"z" * 255]
    for name in names:
        (Path(os.fsdecode(os.fsencode(job) + b"/" + name))).write_bytes(name[:10])
    entries, more = listed(job)
    assert [entry.name for entry in entries] == sorted(names)
    assert not more
    assert all(content(job, entry.name) == entry.name[:10] for entry in entries)
    assert {name.encode(errors="surrogateescape") for name in archived(job)} == {b"top", *(b"top/" + n for n in names)}


def test_a_long_list_comes_in_pages_with_every_name_once(job: Path) -> None:
    for number in range(25):
        (job / f"f{number:02}").touch()
    seen: list[bytes] = []
    more = True
    while more:
        entries, more = listed(job, after=seen[-1] if seen else b"", limit=10)
        assert len(entries) <= 10
        seen += [entry.name for entry in entries]
    assert seen == [f"f{number:02}".encode() for number in range(25)]


def test_kinds_sizes_and_times_are_told_of_the_names_themselves(job: Path) -> None:
    (job / "file").write_bytes(b"12345")
    (job / "folder").mkdir()
    (job / "link").symlink_to("/etc/passwd")
    os.mkfifo(job / "pipe")
    os.utime(job / "file", ns=(0, 1_700_000_000_123_000_000))
    entries = {entry.name: entry for entry in listed(job)[0]}
    assert {name: entry.kind for name, entry in entries.items()} == {
        b"file": "file", b"folder": "folder", b"link": "link", b"pipe": "other",
    }  # fmt: skip
    assert (entries[b"file"].size, entries[b"file"].changed_ms) == (5, 1_700_000_000_123)


OUTSIDE = [b"../secret", b"..", b".", b"a//b", b"/etc/passwd", b"a/../../secret", b"a/", b"file\0x"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_is_none_below_the_folder_is_refused(job: Path, path: bytes) -> None:
    with pytest.raises(FilesFailed) as failed:
        content(job, path)
    assert failed.value.fault is SessionFault.UNFIT


@pytest.mark.parametrize("path", [b"link", b"inside/secret", b"loop/x", b"up/secret", b"gone", b"far", b"task/../up"])
def test_no_link_is_followed_out_of_the_folder_wherever_it_stands(job: Path, path: bytes) -> None:
    (job / "link").symlink_to(job.parents[2] / "secret")
    (job / "inside").symlink_to(job.parents[2])
    (job / "up").symlink_to("../../..")
    (job / "loop").symlink_to("loop")
    (job / "far").symlink_to("here/back/../../secret")
    (job / "here").mkdir()
    (job / "here" / "back").symlink_to("..")
    for what in (content, listed):
        with pytest.raises(FilesFailed) as failed:
            what(job, path)
        assert failed.value.fault in (SessionFault.MISSING, SessionFault.UNFIT)
        assert SECRET.decode() not in failed.value.message


def test_a_link_that_stays_in_the_folder_leads_to_its_file(job: Path) -> None:
    (job / "model" / "epoch3").mkdir(parents=True)
    (job / "model" / "epoch3" / "last.pt").write_bytes(b"weights")
    links = {
        "last": "model/epoch3/last.pt", "model/best": "epoch3", "back": "model/../model/epoch3/../epoch3/last.pt",
        "task": "/berth/job/model//best/last.pt", "twice": "./last", "whole": "/berth/job",
    }  # fmt: skip
    for name, target in links.items():
        (job / name).symlink_to(target)
    for path in (b"last", b"back", b"task", b"twice", b"model/best/last.pt", b"whole/last"):
        assert content(job, path) == b"weights", path
    assert [entry.name for entry in listed(job, b"model/best")[0]] == [b"last.pt"]
    assert {entry.name for entry in listed(job, b"whole")[0]} >= {b"model", b"last"}


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "/berth/jobs/x", "model/../../x", "/berth/job/../x"])
def test_a_link_that_leads_out_of_the_folder_says_where_it_points(job: Path, target: str) -> None:
    (job / "model").mkdir()
    (job / "link").symlink_to(target)
    (job / "next").symlink_to("link")
    for path in (b"link", b"next", b"link/more"):
        with pytest.raises(FilesFailed) as failed:
            content(job, path)
        assert failed.value.message == f"It is a link that leads out of the job's folder, to {target}."


def test_links_leave_no_folder_open(job: Path) -> None:
    (job / "a").mkdir()
    (job / "a" / "up").symlink_to("../a")
    (job / "a" / "end").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    assert content(job, b"/".join([b"a", *[b"up"] * 39, b"end"])) == b"x"
    with pytest.raises(FilesFailed):
        content(job, b"/".join([b"a", *[b"up"] * 41, b"end"]))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_job_folder_that_is_a_link_itself_is_refused(job: Path) -> None:
    job.rmdir()
    job.symlink_to(job.parents[2])
    with pytest.raises(FilesFailed) as failed:
        content(job, b"secret")
    assert failed.value.fault is SessionFault.AWAY


def test_pipes_sockets_and_devices_are_never_opened(job: Path) -> None:
    os.mkfifo(job / "pipe")
    made = ["pipe", "socket"]
    with socket.socket(socket.AF_UNIX) as one:
        folder = os.open(job, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
    if os.geteuid() == 0:
        os.mknod(job / "null", 0o600 | 0o020000, os.makedev(1, 3))
        made.append("null")
    for name in made:
        with pytest.raises(FilesFailed, match="no plain file"):
            content(job, name.encode())
    (job / "kept").write_bytes(b"1")
    assert set(archived(job)) == {"top", "top/kept"}


def test_an_archive_has_files_folders_and_links_as_they_are(job: Path) -> None:
    (job / "deep" / "er").mkdir(parents=True)
    (job / "deep" / "er" / "model").write_bytes(b"weights")
    (job / "deep" / "run.sh").write_bytes(b"#!")
    (job / "deep" / "run.sh").chmod(0o4755)
    (job / "deep" / "out").symlink_to("/etc/passwd")
    members = archived(job, b"deep")
    assert list(members) == ["top", "top/er", "top/er/model", "top/out", "top/run.sh"]
    assert members["top/er/model"].pax_headers["content"] == "weights"
    assert (members["top/out"].issym(), members["top/out"].linkname) == (True, "/etc/passwd")
    assert members["top/run.sh"].mode == 0o755


def test_an_archive_of_many_files_takes_no_memory_for_each(job: Path) -> None:
    peaks = []
    for count in (NAMES_AT_ONCE, 5 * NAMES_AT_ONCE):
        folder = job / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"picture-{number:06}.jpg").touch()
        tracemalloc.start()
        with path_open(mount_of(job), str(count).encode()) as (place, name):
            folder_archive(place, name, b"top", lambda data: None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 150_000
    assert len(archived(job, str(count).encode())) == count + 1


def test_folders_without_end_end_an_archive_in_words(job: Path) -> None:
    deepest = job
    for _ in range(DEEPEST + 1):
        deepest = deepest / "d"
    deepest.mkdir(parents=True)
    with pytest.raises(FilesFailed, match=f"more than {DEEPEST} deep"):
        archived(job)


def test_a_file_that_changes_while_it_is_read_never_gives_more_than_was_promised(job: Path) -> None:
    (job / "log").write_bytes(b"0123456789")
    assert content(job, b"log", offset=4, length=3) == b"456"
    assert content(job, b"log", offset=8, length=100) == b"89"
    assert content(job, b"log", offset=20, length=5) == b""


def test_what_is_not_there_and_a_storage_that_is_not_are_told_apart(job: Path) -> None:
    with pytest.raises(FilesFailed) as missing:
        content(job, b"nothing")
    assert missing.value.fault is SessionFault.MISSING
    away = Mount(storage="jobs", root=str(job), source=str(job / "x"), target="", must_be_mount=True)
    with pytest.raises(FilesFailed) as failed, path_open(away, b""):
        pass
    assert failed.value.fault is SessionFault.AWAY
    assert "storage jobs is not mounted" in failed.value.message.lower()
