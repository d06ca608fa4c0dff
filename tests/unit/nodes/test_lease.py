"""A job folder is free when its lease has stood still by the agent's own clock."""

from __future__ import annotations

import os
from pathlib import Path

from nodes.agent.attempts.folder_lease import LeaseWatch


def watch(tmp_path: Path) -> tuple[LeaseWatch, Path]:
    return LeaseWatch(root=str(tmp_path), path=f"{tmp_path}/lease", still_s=60), tmp_path / "lease"


def test_a_folder_without_a_lease_is_free_at_once(tmp_path: Path) -> None:
    assert watch(tmp_path)[0].remaining(0.0) == 0


def test_a_lease_must_stand_still_for_the_whole_time_from_the_first_look_on(tmp_path: Path) -> None:
    lease, file = watch(tmp_path)
    file.write_text("a 1")
    os.utime(file, (0, 0))  # the file server's clock is years behind: it does not matter
    assert [lease.remaining(now) for now in (100.0, 130.0, 159.0, 160.0)] == [60, 30, 1, 0]


def test_each_touch_begins_the_wait_anew(tmp_path: Path) -> None:
    lease, file = watch(tmp_path)
    file.write_text("a 1")
    assert lease.remaining(100.0) == 60
    file.write_text("a 2")
    assert lease.remaining(159.0) == 60
    assert lease.remaining(218.0) == 1


def test_a_change_of_time_alone_counts_as_a_touch(tmp_path: Path) -> None:
    lease, file = watch(tmp_path)
    file.write_text("a 1")
    lease.remaining(100.0)
    os.utime(file, (5, 5))
    assert lease.remaining(150.0) == 60
