"""What tasks leave behind on the node's own disk goes, however deep it lies; what cannot go is told and tried again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nodes.agent.runtimes.process.runtime import ProcessRuntime
from nodes.agent.storage import delete_tree as sweeping
from nodes.agent.storage.delete_tree import DELETING, LeftoverFolders, folder_remove_or_log
from nodes.agent.storage.workspace import workspace_remove

DEEP = 1200


def dig(folder: Path) -> None:
    """Folders within each other, deeper than Python recurses."""
    folder.mkdir(parents=True)
    here = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=here)
        os.close(os.open("file", os.O_CREAT, dir_fd=here))
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_the_code_of_a_task_goes_however_deep_it_has_dug_there(tmp_path: Path) -> None:
    dig(tmp_path / "attempt")
    (tmp_path / "attempt.new").mkdir()
    workspace_remove(tmp_path / "attempt")
    workspace_remove(tmp_path / "attempt")
    workspace_remove(tmp_path / "none" / "attempt")
    assert list(tmp_path.iterdir()) == []


def test_a_plain_process_is_removed_however_deep_it_has_dug_in_its_home(tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    runtime = ProcessRuntime(cluster="c", node="n", folder=tmp_path / "tasks", homes=homes)
    dig(homes / "attempt")
    for name in ("attempt.notice", "attempt.workspace"):
        (homes / name).mkdir()
    runtime.remove("attempt")
    runtime.close()
    assert list(homes.iterdir()) == []


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[Path]:
    """A task's folder in which one file cannot be deleted."""
    folder = tmp_path / "attempt"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "fixed").touch()
    (folder / "other").touch()
    subprocess.run(["chattr", "+i", str(folder / "in" / "fixed")], check=True)
    yield folder
    free(tmp_path)


def free(folder: Path) -> None:
    for path in folder.rglob("fixed"):
        subprocess.run(["chattr", "-i", str(path)], check=True)


@pytest.mark.docker  # as root, who makes files immutable
def test_what_cannot_be_deleted_is_told_keeps_nothing_else_and_goes_later(tmp_path: Path, fixed: Path) -> None:
    with capture_logs() as logs:
        folder_remove_or_log(fixed)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("attempt.")
    assert left.name.endswith(DELETING)
    assert [path.name for path in left.rglob("*") if path.is_file()] == ["fixed"]
    told = {"event": "a folder cannot be deleted whole", "path": str(left), "why": "Operation not permitted"}
    assert logs == [{**told, "log_level": "warning"}]

    fixed.mkdir()  # an attempt may need its folder again
    (fixed / "new").touch()
    leftovers = LeftoverFolders(tmp_path / "none", tmp_path)
    leftovers.look()
    assert {path.name for path in tmp_path.iterdir()} == {"attempt", left.name}
    free(left)
    leftovers.look()
    assert [path.name for path in tmp_path.rglob("*")] == ["attempt", "new"]


@pytest.mark.docker  # as root, who may mount
def test_a_folder_on_which_something_is_mounted_is_told_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    try:
        (folder / "file").touch()
        with capture_logs() as logs:
            folder_remove_or_log(folder)
        assert [(log["path"], log["why"]) for log in logs] == [(str(folder), "Device or resource busy")]
        assert (folder / "file").exists()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_the_end_of_a_task_waits_for_its_folder_no_longer_than_the_agents_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "attempt"
    (folder / "in").mkdir(parents=True)
    with monkeypatch.context() as hasty, capture_logs() as logs:
        hasty.setattr(sweeping, "TIMEOUT_S", 0.0)
        folder_remove_or_log(folder)
    assert ([log["why"] for log in logs], folder.exists()) == (["it takes longer than 0 s"], False)
    LeftoverFolders(tmp_path).look()
    assert list(tmp_path.iterdir()) == []
