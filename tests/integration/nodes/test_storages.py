"""Folders of storages: made with the task's owner, never through a symbolic link, never outside the root."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.folders import (
    file_changed_ms,
    file_touch,
    lease_reading,
    lease_target,
    mount_open,
    mounts_prepare,
)
from nodes.protocol.messages import Mount
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import spec_of


def mount(root: Path, below: str, **changes: Any) -> Mount:
    return Mount(storage="home", root=str(root), source=f"{root}/{below}", target="/job", **changes)


def fails(spec: Any) -> Cause:
    with pytest.raises(AttemptFailed) as failed:
        mounts_prepare(spec)
    return failed.value.cause


def test_missing_folders_are_made_for_the_tasks_user(tmp_path: Path) -> None:
    uid = 5000 if os.geteuid() == 0 else os.getuid()
    mounts_prepare(spec_of("true", uid=uid, gid=uid, mounts=(mount(tmp_path, "alice/jobs/7", create=True),)))
    for folder in ("alice", "alice/jobs", "alice/jobs/7"):
        assert (tmp_path / folder).stat().st_uid == uid


# ------------------------------------------------------------ folders that cannot be given away

ALICE = {"uid": 5000, "gid": 6000}
AS_ROOT = pytest.mark.docker
"""Only root gives folders away."""


def of_alice(root: Path, **changes: Any) -> Any:
    """A task of alice's with a folder of its job and the lease in it."""
    own = mount(root, "alice/train-1", create=True)
    return spec_of("true", **ALICE, mounts=(own,), lease=f"{own.source}/.berth/lease.worker.0", **changes)


def facts_of(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return facts.st_uid, facts.st_gid, facts.st_mode & 0o7777


ALICES = {
    "alice": (5000, 6000, 0o700),
    "alice/train-1": (5000, 6000, 0o700),
    "alice/train-1/.berth": (5000, 6000, 0o755),
}


def made(root: Path) -> dict[str, tuple[int, int, int]]:
    return {str(path.relative_to(root)): facts_of(path) for path in root.rglob("*")}


@pytest.fixture
def squashed(tmp_path: Path) -> Iterator[Path]:
    """A storage whose server lets root make folders and give none away, as one with ``root_squash`` does."""
    (tmp_path / "export").mkdir()
    (tmp_path / "squashed").mkdir()
    subprocess.run(["bindfs", "--chown-deny", tmp_path / "export", tmp_path / "squashed"], check=True)
    yield tmp_path / "squashed"
    subprocess.run(["umount", tmp_path / "squashed"], check=True)


@AS_ROOT
def test_a_folder_that_cannot_be_given_to_the_user_is_refused_at_each_try_and_does_not_stay(squashed: Path) -> None:
    for _ in range(3):
        with pytest.raises(AttemptFailed) as failed:
            mounts_prepare(of_alice(squashed))
        assert failed.value.cause is Cause.STORAGE_MISSING
        assert failed.value.message == (
            "the folder alice cannot be given to uid 5000: "
            "export storage home to this server with no_root_squash, or make the folder beforehand"
        )
        assert list(squashed.iterdir()) == []


class Killed(BaseException):
    """The agent ends here."""


@AS_ROOT
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("step", ["fchown", "fchmod"])
def test_a_folder_whose_maker_was_killed_is_given_to_the_user_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    real, left = getattr(os, step), number

    def killed(*where: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        real(*where)

    monkeypatch.setattr(os, step, killed)
    with pytest.raises(Killed):
        mounts_prepare(of_alice(tmp_path))
    assert list(made(tmp_path).values())[-1][2] == 0o1700
    mounts_prepare(of_alice(tmp_path))
    assert made(tmp_path) == ALICES


@AS_ROOT
def test_two_that_make_the_same_folders_at_once_both_have_them(tmp_path: Path) -> None:
    faults = list[BaseException]()

    def make(root: Path, together: threading.Barrier) -> None:
        try:
            together.wait(10)
            mounts_prepare(of_alice(root))
        except BaseException as fault:
            faults.append(fault)

    for number in range(30):
        (tmp_path / str(number)).mkdir()
        together = threading.Barrier(4)
        threads = [threading.Thread(target=make, args=(tmp_path / str(number), together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert (faults, made(tmp_path / str(number))) == ([], ALICES)


@AS_ROOT
def test_a_folder_that_its_user_put_in_place_of_a_new_one_is_not_given_away(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir(mode=0o755)
    (tmp_path / "alice" / "train-1").mkdir()
    (tmp_path / "alice" / "train-1").chmod(0o1700)
    (tmp_path / "alice" / "train-1" / "secret").touch(mode=0o600)
    assert fails(of_alice(tmp_path)) is Cause.STORAGE_MISSING
    assert facts_of(tmp_path / "alice" / "train-1") == (0, 0, 0o1700)


@AS_ROOT
@pytest.mark.parametrize(("below", "mode"), [("", 0o700), ("", 0o000), (".berth", 0o755)])
def test_a_folder_of_roots_that_the_user_cannot_use_is_told_and_left_as_it_is(
    tmp_path: Path, below: str, mode: int
) -> None:
    folder = tmp_path / "alice" / "train-1" / below
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.raises(
        AttemptFailed, match=r"is root's, and uid 5000 cannot use it: give it away \(chown 5000:6000\)"
    ) as failed:
        mounts_prepare(of_alice(tmp_path))
    assert failed.value.cause is Cause.STORAGE_MISSING
    assert facts_of(folder) == (0, 0, mode)
    mounts_prepare(of_alice(tmp_path, profile="root"))
    os.chown(folder, 5000, 6000)
    mounts_prepare(of_alice(tmp_path))


# ------------------------------------------------------------ folders that somebody could have replaced


@AS_ROOT
def test_a_folder_in_one_that_users_can_write_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    for mode in (0o777, 0o1777, 0o775, 0o757):
        tmp_path.chmod(mode)
        with pytest.raises(AttemptFailed) as failed:
            mounts_prepare(of_alice(tmp_path))
        assert (failed.value.cause, list(tmp_path.iterdir())) == (Cause.STORAGE_MISSING, [])
        assert failed.value.message == (
            f"{tmp_path} can be written by users, who could put a link in place of a folder there: make it root's "
            f"(chown root {tmp_path}; chmod go-w {tmp_path})"
        )
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 5000, 0)
    assert fails(of_alice(tmp_path)) is Cause.STORAGE_MISSING


@AS_ROOT
def test_one_that_is_not_its_users_is_entered_whoevers_it_is(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o755)
    mounts_prepare(of_alice(tmp_path))
    assert made(tmp_path) == ALICES


@AS_ROOT
def test_the_whole_of_one_that_users_can_write_is_mounted_and_what_lies_there_is_shown(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    mounts_prepare(spec_of("true", **ALICE, mounts=(replace(mount(tmp_path, ""), source=str(tmp_path)),)))
    (tmp_path / "alice").mkdir()
    with mount_open(mount(tmp_path, "alice"), uid=0, gid=0) as folder:
        assert os.listdir(folder) == []


# ------------------------------------------------------------ paths


@pytest.mark.parametrize(
    ("below", "changes", "cause"),
    [
        ("missing", {}, Cause.STORAGE_MISSING),
        ("missing", {"create": True, "read_only": True}, Cause.STORAGE_MISSING),
        ("there", {"must_be_mount": True}, Cause.STORAGE_MISSING),
        ("file", {}, Cause.REFUSED),
        ("out", {}, Cause.REFUSED),
        ("out/etc", {"create": True}, Cause.REFUSED),
        ("inside_link/new", {"create": True}, Cause.REFUSED),
        ("there/../../x", {"create": True}, Cause.REFUSED),
    ],
    ids=[
        "missing",
        "missing and read-only",
        "not mounted",
        "a file",
        "a link out",
        "below a link out",
        "below a link inside",
        "dots",
    ],
)
def test_a_path_that_may_not_be_used_is_refused(
    tmp_path: Path, below: str, changes: dict[str, Any], cause: Cause
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to("/")
    (tmp_path / "inside_link").symlink_to(tmp_path / "there")
    assert fails(spec_of("true", mounts=(mount(tmp_path, below, **changes),))) is cause
    assert list((tmp_path / "there").iterdir()) == []


def test_nothing_is_written_under_a_mount_point_that_is_not_mounted(tmp_path: Path) -> None:
    spec = spec_of("true", mounts=(mount(tmp_path, "alice", create=True, must_be_mount=True),))
    assert fails(spec) is Cause.STORAGE_MISSING
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_a_link_of_the_administrators_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    mounts_prepare(
        spec_of("true", uid=os.getuid(), gid=os.getgid(), mounts=(mount(tmp_path / "root", "a", create=True),))
    )
    assert (tmp_path / "real" / "a").is_dir()


def test_the_leases_folder_is_made_and_its_path_inside_known(tmp_path: Path) -> None:
    place = mount(tmp_path, "job", create=True)
    spec = spec_of("true", uid=os.getuid(), gid=os.getgid(), mounts=(place,), lease=f"{tmp_path}/job/.berth/lease")
    mounts_prepare(spec)
    assert (tmp_path / "job/.berth").is_dir()
    assert lease_target(spec) == "/job/.berth/lease"


def test_a_lease_outside_the_tasks_folders_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    assert fails(spec_of("true", mounts=(mount(tmp_path, "job"),), lease=f"{tmp_path}/other/lease")) is Cause.INVALID


def test_a_lease_that_was_replaced_by_a_link_is_neither_read_nor_touched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    os.utime(secret, ns=(0, 0))
    root = tmp_path / "root"
    root.mkdir()
    (root / "lease").symlink_to(secret)
    assert lease_reading(str(root), f"{root}/lease") is None
    file_touch(str(root), f"{root}/lease")
    assert secret.stat().st_mtime_ns == 0


def test_when_a_file_changed_is_seen_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/saved").touch()
    os.utime(root / "a/saved", ns=(0, 7_250_000_000))
    (root / "absurd").touch()
    os.utime(root / "absurd", (-10, -10))
    (root / "link").symlink_to(secret)
    (root / "b").symlink_to(root / "a")
    seen = {
        name: file_changed_ms(str(root), f"{root}/{name}") for name in ("a/saved", "absurd", "link", "b/saved", "none")
    }
    assert seen == {"a/saved": 7250, "absurd": None, "link": None, "b/saved": None, "none": None}
