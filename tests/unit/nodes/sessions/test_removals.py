"""Deletions that the portal asks for: answered at once, done by processes, as many as a node does at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.agent.sessions.deletions import AT_ONCE, GOING, GONE, JobFolderDeletions
from nodes.agent.sessions.folders import FilesFailed
from nodes.protocol.messages import Mount
from nodes.protocol.sessions import DeleteRequest, SessionFault
from tests.support.run.waiting import wait_until


def job_folder(root: Path, number: int) -> Path:
    folder = root / "alice" / f"train-{number}"
    (folder / ".berth").mkdir(parents=True)
    (folder / "model.pt").write_text("weights")
    os.utime(folder / ".berth", (0, 0))
    return folder


def request(folder: Path) -> DeleteRequest:
    mount = Mount(storage="jobs", root=str(folder.parents[1]), source=str(folder), target="")
    return DeleteRequest(mount=mount, unwritten_s=86_400)


def removals(root: Path, *, still_s: float = 0) -> JobFolderDeletions:
    return JobFolderDeletions(roots=(str(root),), still_s=still_s)


def test_it_goes_on_until_it_is_gone_and_stays_gone(tmp_path: Path) -> None:
    made, folder = removals(tmp_path), job_folder(tmp_path, 1)
    assert made.ask(request(folder)) == GOING
    assert folder.exists()
    for _ in range(2):
        wait_until(lambda: made.ask(request(folder)) == GONE, "the folder's end")
        assert list((tmp_path / "alice").iterdir()) == []


def test_what_is_kept_is_told_once_and_then_tried_anew(tmp_path: Path) -> None:
    made, folder = removals(tmp_path), job_folder(tmp_path, 1)
    (folder / ".berth").rename(folder / "berth")

    with pytest.raises(FilesFailed) as failed:
        wait_until(lambda: made.ask(request(folder)) != GOING, "the refusal")
    told = f"{folder} has no folder .berth, as each job's folder has, and is left alone."
    assert (failed.value.fault, failed.value.message) == (SessionFault.UNFIT, told)
    (folder / "berth").rename(folder / ".berth")
    wait_until(lambda: made.ask(request(folder)) == GONE, "the folder's end")


def test_as_many_as_a_node_does_at_once_and_no_more(tmp_path: Path) -> None:
    made = removals(tmp_path, still_s=600)
    folders = [job_folder(tmp_path, number) for number in range(1, AT_ONCE + 2)]
    try:
        assert [made.ask(request(folder)) for folder in folders[:AT_ONCE]] == [GOING] * AT_ONCE
        assert made.ask(request(folders[0])) == GOING
        with pytest.raises(FilesFailed) as failed:
            made.ask(request(folders[-1]))
        assert failed.value.fault is SessionFault.BUSY
    finally:
        made.close()
    assert all(folder.exists() for folder in folders)


def test_a_process_that_was_killed_is_told_and_another_goes_on(tmp_path: Path) -> None:
    slow, folder = removals(tmp_path, still_s=600), job_folder(tmp_path, 1)
    assert slow.ask(request(folder)) == GOING
    slow.close()
    with pytest.raises(FilesFailed, match="ended with status -9"):
        wait_until(lambda: slow.ask(request(folder)) != GOING, "its end")
    made = removals(tmp_path)
    made.ask(request(folder))
    wait_until(lambda: made.ask(request(folder)) == GONE, "the folder's end")
