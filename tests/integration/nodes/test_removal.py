"""What deletes a job's folder: all of it and nothing beside it, whatever lies in it; and what is left alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.storage.delete_job_folder import FolderKept, Removal, deleting_name, folder_remove
from nodes.agent.storage.delete_tree import DELETING
from nodes.protocol.messages import Mount

DEEP = 2000
DAY = 86_400


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A storage with folders of two jobs of alice's, beside what must stay."""
    root = tmp_path / "storage"
    for number in (1, 2):
        job_folder(root / "alice" / f"train-{number}")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("not a job's")
    return root


@pytest.fixture
def job(storage: Path) -> Path:
    return storage / "alice" / "train-1"


def job_folder(folder: Path) -> None:
    (folder / ".berth").mkdir(parents=True)
    (folder / ".berth" / "lease.worker.0").write_text("4f1d8a3e 17\n")
    (folder / "model.pt").write_text("weights")
    for path in (folder / ".berth" / "lease.worker.0", folder / ".berth"):
        os.utime(path, (time.time() - DAY - 10,) * 2)


def removal(folder: Path, *, root: Path | None = None, roots: tuple[str, ...] | None = None, path: str = "") -> Removal:
    root = root or folder.parents[1]
    mount = Mount(storage="jobs", root=str(root), source=path or str(folder), target="")
    return Removal(mount=mount, roots=(str(root),) if roots is None else roots, still_s=60, unwritten_s=DAY)


def removed(folder: Path, **about: Any) -> None:
    folder_remove(removal(folder, **about), sleep=lambda seconds: None)


def kept(folder: Path, **about: Any) -> str:
    with pytest.raises(FolderKept) as refusal:
        removed(folder, **about)
    return str(refusal.value)


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ------------------------------------------------------------ what goes


def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else_does(storage: Path, job: Path) -> None:
    (job / "out" / "deep").mkdir(parents=True)
    (job / "out" / "deep" / "file").write_text("1")
    (job / "out" / "empty").mkdir()
    removed(job)
    assert below(storage) == {
        "alice", *(f"alice/{name}" for name in (
            "train-2", "train-2/.berth", "train-2/.berth/lease.worker.0", "train-2/model.pt",
        )),
    }  # fmt: skip


def test_links_go_and_where_they_lead_to_stays(tmp_path: Path, job: Path) -> None:
    precious = tmp_path / "precious"
    (job / "in").mkdir()
    for place in (job, job / "in"):
        (place / "folder").symlink_to(precious)
        (place / "file").symlink_to(precious / "file")
        (place / "up").symlink_to("../../..")
        os.link(precious / "file", place / "hard")
    removed(job)
    assert not job.exists()
    assert (precious / "file").read_text() == "not a job's"
    assert (precious / "file").stat().st_nlink == 1


def test_names_of_any_bytes_pipes_and_sockets_go(job: Path) -> None:
    for name in (b"a\nb", b"\xff\xfe", b"-rf", b"z" * 255):
        os.mkdir(os.fsencode(job) + b"/" + name)
        Path(os.fsdecode(os.fsencode(job) + b"/" + name + b"/" + name)).touch()
    os.mkfifo(job / "pipe")
    removed(job)
    assert not job.exists()


def test_a_tree_deeper_than_any_stack_or_path_goes(job: Path) -> None:
    folder = os.open(job, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=folder)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    removed(job)
    assert os.listdir(job.parent) == ["train-2"]


def test_a_folder_that_is_gone_is_gone_and_so_is_its_users(storage: Path, job: Path) -> None:
    removed(job)
    removed(job)
    shutil.rmtree(storage / "alice")
    removed(job)


def test_a_name_as_long_as_names_may_be_goes(storage: Path) -> None:
    longest = storage / "alice" / ("n" * 253 + "-1")
    job_folder(longest)
    removed(longest)
    assert not longest.exists()
    assert deleting_name(longest.name) != deleting_name("m" * 253 + "-1")


# ------------------------------------------------------------ killed, and two at once


def test_what_a_killed_process_has_begun_is_gone_on_with(job: Path) -> None:
    job.rename(job.parent / f"train-1{DELETING}")
    shutil.rmtree(job.parent / f"train-1{DELETING}" / ".berth")
    removed(job)
    assert os.listdir(job.parent) == ["train-2"]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Lets whoever changes something on the disk die before the change of this number, from 1."""
    left = 0

    def before(change: Callable[..., None]) -> Callable[..., None]:
        def changed(*what: Any, **where: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            change(*what, **where)

        return changed

    for name in ("rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, before(getattr(os, name)))

    def die(number: int) -> None:
        nonlocal left
        left = number

    yield die
    left = 0


def test_killed_before_any_change_it_comes_to_its_end_when_asked_again(
    storage: Path, dying: Callable[[int], None]
) -> None:
    number, ended = 0, False
    while not ended:
        number += 1
        job = storage / "alice" / f"run-{number}"
        job_folder(job)
        (job / "in" / "deep").mkdir(parents=True)
        (job / "in" / "deep" / "file").touch()
        dying(number)
        ended = True
        with suppress(Killed):
            removed(job)
            continue
        ended = False
        removed(job)
        assert {one.name for one in job.parent.iterdir()} == {"train-1", "train-2"}, number
    assert number > 10


def test_two_at_once_are_harmless_and_both_come_to_an_end(job: Path) -> None:
    for number in range(60):
        (job / f"d{number}" / "in").mkdir(parents=True)
        for name in range(20):
            (job / f"d{number}" / "in" / str(name)).touch()
    together, faults = threading.Barrier(2), list[BaseException]()

    def one() -> None:
        try:
            folder_remove(removal(job), sleep=lambda seconds: together.wait(10) and None)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (faults, os.listdir(job.parent)) == ([], ["train-2"])


# ------------------------------------------------------------ what is left alone


OUTSIDE = [
    "{root}", "{root}/alice", "{root}/alice/train", "{root}/alice/train-0", "{root}/alice/train-1/out-1",
    "{root}/../precious-1", "{root}/alice/../alice/train-1", "{root}/../storage/alice/train-1", "/etc/passwd-1",
    "{root}//alice/train-1", "{root}/alice/train-1/", "{root}/alice/./train-1", "{root}/train-1",
    "{root}/alice/train-1.being-deleted", "/", "", "alice/train-1",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_is_no_jobs_folder_is_refused(storage: Path, job: Path, path: str) -> None:
    (job / "out-1").mkdir()
    before = below(storage.parent)
    source = path.format(root=storage) or "x"
    assert kept(job, root=storage, path=source) == f"{source} is no job's folder of the storage jobs."
    assert below(storage.parent) == before


def test_a_root_that_the_servers_policy_does_not_allow_is_refused(storage: Path, job: Path) -> None:
    elsewhere = storage.parent / "elsewhere"
    elsewhere.symlink_to(storage)
    for root, roots in ((storage, ()), (storage, ("/mnt/other",)), (elsewhere, (str(storage.parent),))):
        folder = root / "alice" / "train-1"
        assert kept(folder, roots=roots) == f"The node's policy does not allow files from {root}."
    assert job.exists()


def test_of_a_storage_that_is_not_mounted_no_folder_is_taken_for_gone(storage: Path, job: Path) -> None:
    about = removal(job)
    unmounted = replace(about, mount=replace(about.mount, must_be_mount=True))
    with pytest.raises(FolderKept, match="Storage jobs is not mounted at"):
        folder_remove(unmounted, sleep=lambda seconds: None)
    assert job.exists()


def test_no_link_on_the_way_to_the_folder_is_followed(storage: Path, tmp_path: Path) -> None:
    job_folder(tmp_path / "precious" / "train-1")
    (storage / "bob").symlink_to(tmp_path / "precious")
    (storage / "alice" / "train-3").symlink_to(tmp_path / "precious" / "train-1")
    (storage / "alice" / "train-4").write_text("a file")
    (storage / "alice" / f"train-5{DELETING}").symlink_to(tmp_path / "precious" / "train-1")
    for folder in ("bob/train-1", "alice/train-3", "alice/train-4", "alice/train-5"):
        assert "cannot be" in kept(storage / folder), folder
    assert (tmp_path / "precious" / "train-1" / "model.pt").read_text() == "weights"
    assert (storage / "alice" / "train-4").exists()


TOUCHES: list[Callable[[Path], object]] = [
    lambda lease: lease.write_text("4f1d8a3e 18\n"),
    lambda lease: os.utime(lease, (5, 5)),
    lambda lease: lease.unlink(),
    lambda lease: lease.with_name("lease.worker.7").write_text("another"),
]


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_folder_whose_leases_change_is_left_alone(job: Path, touch: Callable[[Path], object]) -> None:
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        touch(job / ".berth" / "lease.worker.0")

    with pytest.raises(FolderKept, match="is still written to: a lease in it changed within 60 s"):
        folder_remove(removal(job), sleep=sleep)
    assert (slept, (job / "model.pt").read_text()) == ([60], "weights")


def test_a_folder_whose_leases_were_written_of_late_is_left_alone_whatever_the_portals_clock_says(job: Path) -> None:
    for late in (job / ".berth" / "lease.worker.0", job / ".berth"):
        os.utime(late, (time.time() - DAY + 60,) * 2)
        assert re.fullmatch(
            rf"A lease in {job} was written at [0-9: -]+ UTC, which is not long enough ago\.", kept(job)
        )
        os.utime(late, (time.time() - DAY - 10,) * 2)
    removed(job)
    assert not job.exists()


def test_a_folder_without_the_mark_of_a_jobs_is_left_alone_unless_it_is_empty(storage: Path) -> None:
    folder = storage / "alice" / "backups-2024"
    folder.mkdir()
    (folder / "file").write_text("put there by hand")
    assert "has no folder .berth" in kept(folder)
    (folder / ".berth").symlink_to(storage / "alice" / "train-2" / ".berth")
    assert "has no folder .berth" in kept(folder)
    (folder / ".berth").unlink()
    (folder / "file").unlink()
    removed(folder)
    assert not folder.exists()


# ------------------------------------------------------------ what cannot go

AS_ROOT = pytest.mark.docker
"""Mounts and immutable files are root's, as the Engine of the tests is."""


@AS_ROOT
@pytest.mark.parametrize("place", ["data", "in/data"])
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_nothing_is_entered_that_is_mounted_in_it(job: Path, tmp_path: Path, kind: str, place: str) -> None:
    mounted = job / place
    mounted.mkdir(parents=True)
    what = ["--bind", str(tmp_path / "precious")] if kind == "bind" else ["-t", "tmpfs", "tmpfs"]
    subprocess.run(["mount", *what, str(mounted)], check=True)
    try:
        (mounted / "other").write_text("on another file system")
        message = kept(job)
        doomed_at = job.parent / f"train-1{DELETING}"
        assert message == f"{doomed_at} cannot be deleted whole: Device or resource busy."
        assert not (doomed_at / "model.pt").exists()
        found = doomed_at.rglob("other")
        assert [path.read_text() for path in found] == ["on another file system"]
    finally:
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if (at := line.split()[1]).startswith(str(job.parent)):
                subprocess.run(["umount", at], check=True)
    removed(job)
    assert os.listdir(job.parent) == ["train-2"]
    assert (tmp_path / "precious" / "file").exists()


@AS_ROOT
def test_a_folder_that_is_itself_a_mount_is_left_alone(job: Path, tmp_path: Path) -> None:
    job_folder(tmp_path / "precious")
    subprocess.run(["mount", "--bind", str(tmp_path / "precious"), str(job)], check=True)
    try:
        assert kept(job) == f"{job} cannot be deleted: Device or resource busy."
        assert (tmp_path / "precious" / "model.pt").exists()
    finally:
        subprocess.run(["umount", str(job)], check=True)


@AS_ROOT
def test_what_cannot_be_deleted_is_told_the_rest_goes_and_it_goes_once_it_can(job: Path) -> None:
    (job / "in" / "deep").mkdir(parents=True)
    (job / "in" / "deep" / "fixed").touch()
    subprocess.run(["chattr", "+i", str(job / "in" / "deep" / "fixed")], check=True)
    doomed_at = job.parent / f"train-1{DELETING}"
    try:
        assert kept(job) == f"{doomed_at} cannot be deleted whole: Operation not permitted."
        assert {path.name for path in doomed_at.rglob("*") if path.is_file()} == {"fixed"}
    finally:
        for path in doomed_at.rglob("fixed"):
            subprocess.run(["chattr", "-i", str(path)], check=True)
    removed(job)
    assert os.listdir(job.parent) == ["train-2"]


@AS_ROOT
def test_a_storage_that_is_read_only_is_told(job: Path, storage: Path) -> None:
    subprocess.run(["mount", "--bind", str(storage), str(storage)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(storage)], check=True)
        assert kept(job) == f"{job} cannot be deleted: Read-only file system."
    finally:
        subprocess.run(["umount", str(storage)], check=True)
    assert (job / "model.pt").exists()
