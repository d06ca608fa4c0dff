"""Code on its way to a real server, with the command and with both clients."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from berth import AsyncClient, Client, FolderTooLarge, NotFound
from tests.support.cluster.world import job_file
from tests.support.people.shell import BERTH, Shell
from tests.support.services.proxy import CuttingProxy

if TYPE_CHECKING:
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(shell: Shell) -> Path:
    made = shell.home / "project"
    made.mkdir()
    (made / "train.py").write_text("print('training')\n")
    return made


@pytest.fixture(autouse=True)
def _node(world: World) -> None:
    world.node("gpu01")


def test_a_job_is_submitted_with_its_code_and_its_file_is_kept_as_written(
    berth: Client, shell: Shell, folder: Path
) -> None:
    text = "# of mine\n" + job_file()
    (shell.home / "job.yaml").write_text(text)
    out, errors = shell.start("submit", "--code", "project", "job.yaml", "--json").communicate(timeout=60)
    job = json.loads(out)
    assert job["code"]["entries"] == 1
    assert f"code {job['code']['id'][:19]}: 1 files" in errors
    named = f'berth: {{"code": "{job["code"]["id"]}"}}'
    assert berth.jobs.config(job["id"]) == text.replace("berth: {}", named)
    assert (shell.home / "job.yaml").read_text() == text
    again = json.loads(
        shell.berth("run", "--image", "busybox", "--code", "project", "--json", "--", "python3", "train.py")
    )
    assert again["code"]["id"] == job["code"]["id"]
    assert [code.id for code in berth.code.list()] == [job["code"]["id"]]


def test_what_is_wrong_with_a_folder_is_said_and_nothing_is_submitted(
    shell: Shell, folder: Path, berth: Client
) -> None:
    (shell.home / "job.yaml").write_text(job_file())
    assert "is not there" in shell.berth("submit", "--code", "absent", "job.yaml", code=78)
    (folder / "passwords").symlink_to("/etc/shadow")
    assert ".berthignore" in shell.berth("submit", "--code", "project", "job.yaml", code=78)
    assert list(berth.jobs.list()) == []
    assert list(berth.code.list()) == []


def test_a_folder_is_uploaded_once_and_told_of(berth: Client, folder: Path) -> None:
    (folder / "noise").write_bytes(os.urandom(300_000))
    sent: list[tuple[int, int]] = []
    code = berth.code.upload(folder, told=lambda *numbers: sent.append(numbers))
    assert sent[-1] == (code.size, code.size)
    assert len(sent) > 3
    sent.clear()
    assert berth.code.upload(folder, told=lambda *numbers: sent.append(numbers)) == code
    assert sent == []
    berth.code.forget(code.id)
    with pytest.raises(NotFound):
        berth.code.get(code.id)


async def test_the_async_client_uploads_and_submits(url: str, token: str, folder: Path) -> None:
    async with AsyncClient(url, token, trust_env=False) as client:
        code = await client.code.upload(folder)
        job = await client.jobs.submit(job_file(), code=code.id)
        assert job.code == await client.code.get(code.id)


def test_the_servers_own_limits_hold(berth: Client, folder: Path, settings: object) -> None:
    settings.CODE_MAX_BYTES = 100_000  # type: ignore[attr-defined]
    (folder / "noise").write_bytes(os.urandom(300_000))
    with pytest.raises(FolderTooLarge, match=r"0.1 MB is the most.*noise \(0.3 MB\)"):
        berth.code.upload(folder)


def test_an_upload_that_is_cut_in_its_middle_is_sent_again_whole(proxy: CuttingProxy, token: str, folder: Path) -> None:
    (folder / "noise").write_bytes(os.urandom(3_000_000))
    begun: list[int] = []

    def told(sent: int, size: int) -> None:
        if sent > size // 2 and not begun:
            begun.append(proxy.cut())

    with Client(proxy.url, token, trust_env=False) as client:
        code = client.code.upload(folder, told=told)
        assert client.code.get(code.id).size == code.size
    assert begun == [1]


def test_a_terminal_shows_how_far_the_upload_is(shell: Shell, folder: Path) -> None:
    (folder / "noise").write_bytes(os.urandom(3_000_000))
    (shell.home / "job.yaml").write_text(job_file())
    ours, theirs = pty.openpty()
    words = [*BERTH, "submit", "--code", "project", "job.yaml"]
    environment = {**shell.environment(), "TERM": "xterm"}
    process = subprocess.Popen(words, cwd=shell.home, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    assert process.wait(30) == 0, seen
    assert "uploading the code" in seen
    assert "3.0/3.0 MB" in seen
    assert "job alice/train#1 submitted" in seen


def read_terminal(terminal: int) -> bytes:
    """What comes next; nothing once the other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
