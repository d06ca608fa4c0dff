"""Folders of storages: made with the task's owner, never through a symbolic link, never outside the root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodes.protocol import Cause, Mount
from nodes.runtimes.base import Failed
from nodes.storages import file_changed_ms, file_touch, lease_reading, lease_target, mounts_prepare
from tests.nodes.portal_side import spec_of


def mount(root: Path, below: str, **changes: Any) -> Mount:
    return Mount(storage="home", root=str(root), source=f"{root}/{below}", target="/job", **changes)


def fails(spec: Any) -> Cause:
    with pytest.raises(Failed) as failed:
        mounts_prepare(spec)
    return failed.value.cause


def test_missing_folders_are_made_for_the_tasks_user(tmp_path: Path) -> None:
    uid = 5000 if os.geteuid() == 0 else os.getuid()
    mounts_prepare(spec_of("true", uid=uid, gid=uid, mounts=(mount(tmp_path, "alice/jobs/7", create=True),)))
    for folder in ("alice", "alice/jobs", "alice/jobs/7"):
        assert (tmp_path / folder).stat().st_uid == uid


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
