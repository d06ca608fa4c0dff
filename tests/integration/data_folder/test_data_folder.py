"""All processes of a portal share one data folder: who has another does not start."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.data_folder.at_start import folder_fault_at_start, folder_first
from portal.data_folder.models import DataFolder
from portal.data_folder.services import (
    FolderApart,
    FolderInUse,
    data_folder_alone,
    data_folder_fault,
    data_folder_hold,
    data_folder_settle,
    data_folder_take,
)
from portal.upkeep.backup import BackupRefused, backup_make
from tests.support.cluster.restored_portal import Portal
from tests.support.cluster.stack import BIN, CELERY
from tests.support.services.migrated import sqlite_copy
from tests.support.services.services import Services

ROOT = Path(__file__).parents[3]
NONE = "is not the data folder of this database: it has no folder.id."
OTHER = "is not the data folder of this database: its folder.id is another's."

pytestmark = pytest.mark.django_db


@pytest.fixture
def folders(tmp_path: Path, settings: Settings) -> tuple[Path, Path]:
    """Two; the process has the first."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    settings.DATA_DIR = one
    return one, two


def test_the_first_process_makes_its_folder_the_databases_and_others_need_the_same(
    folders: tuple[Path, Path], settings: Settings
) -> None:
    assert data_folder_fault() == "", "nobody has begun yet"
    data_folder_settle()
    data_folder_settle()
    one, two = folders
    mark = (one / "folder.id").read_text().strip()
    assert [row.mark for row in DataFolder.objects.all()] == [mark]
    settings.DATA_DIR = two
    with pytest.raises(FolderApart, match=NONE):
        data_folder_settle()
    assert list(two.iterdir()) == [], "what was refused leaves nothing"
    (two / "folder.id").write_text("of another portal\n")
    with pytest.raises(FolderApart, match=f"{OTHER} .* run manage.py data_folder --take, and start all of them again"):
        data_folder_settle()


def test_a_folder_that_was_moved_or_copied_is_the_same(folders: tuple[Path, Path], settings: Settings) -> None:
    data_folder_settle()
    one, two = folders
    two.rmdir()
    one.rename(two)
    settings.DATA_DIR = two
    data_folder_settle()


def test_a_new_database_takes_the_folder_as_it_is(folders: tuple[Path, Path]) -> None:
    """Such as one that was made anew, or of a release that knew nothing of this; and after a kill between the two."""
    (folders[0] / "folder.id").write_text("made before\n")
    data_folder_settle()
    assert DataFolder.objects.get().mark == "made before"


def test_the_command_says_whose_the_folder_is_and_takes_it(
    folders: tuple[Path, Path], settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    data_folder_settle()
    settings.DATA_DIR = folders[1]
    with pytest.raises(CommandError, match=NONE):
        call_command("data_folder")
    with pytest.raises(BackupRefused, match=NONE):
        backup_make(path=folders[1] / "backup.tar", now=timezone.now())
    call_command("data_folder", "--take")
    assert capsys.readouterr().out == f"{folders[1]} is the data folder of this database.\n"
    settings.DATA_DIR = folders[0]
    assert OTHER in data_folder_fault()
    data_folder_take()
    assert data_folder_fault() == ""


def test_who_starts_during_a_restore_is_told_and_who_runs_keeps_it_out(folders: tuple[Path, Path]) -> None:
    with data_folder_alone():
        data_folder_settle()
    with (
        data_folder_alone(),
        pytest.raises(FolderApart, match=f"A restore is at work in BERTH_DATA_DIR='{folders[0]}'"),
    ):
        data_folder_hold()
    data_folder_hold()
    assert folder_fault_at_start() == "", "of several that run"
    with pytest.raises(FolderInUse), data_folder_alone():
        pass


def test_a_file_system_without_locks_keeps_nobody_out(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    data_folder_settle()
    data_folder_hold()
    with data_folder_alone():
        data_folder_hold()


@pytest.mark.django_db(transaction=True)
def test_of_several_that_begin_at_once_with_one_folder_all_go_on(folders: tuple[Path, Path]) -> None:
    with ThreadPoolExecutor(4) as several:
        assert list(several.map(lambda _: folder_fault_at_start(), range(4))) == [""] * 4
    assert DataFolder.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_web_process_begins_only_with_the_databases_folder(folders: tuple[Path, Path], settings: Settings) -> None:
    assert lifespan() == ["served"]
    settings.DATA_DIR = folders[1]
    (failed,) = lifespan()
    assert failed["type"] == "lifespan.startup.failed"
    assert NONE in failed["message"]


def lifespan() -> list[Any]:
    """What a web process says when it starts."""
    said: list[Any] = []

    async def served(*_: Any) -> None:
        said.append("served")

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(folder_first(served)({"type": "lifespan"}, receive, send))
    connection.close()
    return said


@pytest.mark.redis
def test_web_and_worker_with_a_folder_of_their_own_end_with_the_sentence(tmp_path: Path, services: Services) -> None:
    url = sqlite_copy(tmp_path / "berth.sqlite3")
    Portal(tmp_path / "one", url).manage("data_folder", "--take")
    environment = Portal(tmp_path / "two", url).environment | {"BERTH_REDIS_URL": services.redis.url}
    (tmp_path / "two").mkdir()
    commands = {
        "web": [str(BIN / "uvicorn"), "portal.asgi:application", "--port", "0"],
        "worker": [*CELERY, "-Q", "control", "-n", "control@two"],
    }
    begun = {
        name: subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for name, command in commands.items()
    }
    for name, process in begun.items():
        said = process.communicate(timeout=120)[0]
        assert process.returncode > 0, name
        assert f"berth: BERTH_DATA_DIR='{tmp_path / 'two'}' {NONE}" in said, said
        assert "Traceback" not in said, said
