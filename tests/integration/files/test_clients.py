"""The Python clients and the `berth` command at a program in a task, and what they say when there is none."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from berth import AsyncClient, Client, Conflict, NotAllowed, NotFound, NotSignedIn, ShellLost, Unreachable
from tests.integration.files.test_files import token_of
from tests.support.people.shell import Shell
from tests.support.run.waiting import wait_until

if TYPE_CHECKING:
    from tests.integration.files.conftest import Running
    from tests.support.people.live_web import LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)


def client_of(running: Running, web: LiveWeb, user: Any = None) -> Client:
    return Client(f"http://{web.host}", token_of(user or running.world.user), trust_env=False)


def test_a_program_is_written_to_read_from_and_ends_with_its_code(running: Running, web: LiveWeb) -> None:
    data = os.urandom(600_000)  # more than may be under way
    seen = b""
    with client_of(running, web) as client, client.exec(str(running.row.pk), ["cat"]) as program:

        def write() -> None:
            program.write(data)
            program.finish()

        writer = threading.Thread(target=write)
        writer.start()
        for stream, piece in program:
            assert stream == 1
            seen += piece
        writer.join(10)
        assert program.exit_code == 0
    assert seen == data
    (shell,) = running.runtime.shells
    assert (shell.request.command, shell.request.tty) == (("cat",), False)


async def test_the_same_awaited(running: Running, web: LiveWeb) -> None:
    token = await asyncio.to_thread(token_of, running.world.user)
    data, seen = os.urandom(600_000), b""
    async with (
        AsyncClient(f"http://{web.host}", token, trust_env=False) as client,
        client.exec(str(running.row.pk), tty=True, rows=5, columns=6, term="vt100") as program,
    ):

        async def write() -> None:
            await program.resize(7, 8)
            await program.write(data)
            await program.write(b"exit 4")

        writing = asyncio.create_task(write())
        async for stream, piece in program:
            assert stream == 1
            seen += piece
        await writing
        assert program.exit_code == 4
    assert seen == data
    (shell,) = running.runtime.shells
    assert (shell.request.term, shell.request.rows, shell.sizes) == ("vt100", 5, [(7, 8)])


def test_leaving_ends_the_program(running: Running, web: LiveWeb) -> None:
    with client_of(running, web) as client:
        with client.exec(str(running.row.pk)) as program:
            program.write(b"deaf")
        wait_until(running.runtime.shells[0].closed.is_set, "the program to end")


def test_what_is_in_the_way_has_a_type(running: Running, web: LiveWeb) -> None:
    from portal.accounts.models import ClusterRole
    from tests.support.people.cast import person

    attempt, url = str(running.row.pk), f"http://{web.host}"
    auditor = person("auditor", ClusterRole.AUDITOR)
    cases: dict[type[Exception], Client] = {
        NotSignedIn: Client(url, "berth_wrong", trust_env=False),
        NotAllowed: client_of(running, web, auditor),
        NotFound: client_of(running, web, person("charlie")),
        Unreachable: Client("http://127.0.0.1:9", "berth_x", trust_env=False),
    }
    for kind, client in cases.items():
        with client, pytest.raises(kind), client.exec(attempt):
            pass
    running.runtime.running = False
    with client_of(running, web) as client:
        with pytest.raises(ShellLost, match="does not run on this node"), client.exec(attempt):
            pass
        running.node.finish()
        with pytest.raises(Conflict, match="The task does not run: it is terminated"), client.exec(attempt):
            pass


def test_the_command_passes_everything_on_and_says_what_is_in_the_way(
    running: Running, web: LiveWeb, tmp_path: Path
) -> None:
    at = Shell(tmp_path, f"http://{web.host}", token_of(running.world.user))
    job = str(running.job.pk)
    assert at.berth("exec", job, "--", "cat", "-", typed="there and back\n") == "there and back\n"
    assert at.berth("exec", job, "-t", "worker/0", "--", "sh", typed="exit 77", code=77) == ""
    assert [shell.request.command for shell in running.runtime.shells] == [("cat", "-"), ("sh",)]
    assert "no task worker/9" in at.berth("exec", job, "--task", "worker/9", code=66)
    assert "There is no job" in at.berth("exec", "nothing", code=66)
    away = Shell(tmp_path, "http://127.0.0.1:9", at.token)
    assert "cannot be reached" in away.berth("exec", job, code=69)
    assert "berth login" in Shell(tmp_path, at.url, "berth_wrong").berth("exec", job, code=77)
    waiting = running.world.submit(gpu=2, name="waits")
    assert "has not started yet" in at.berth("exec", str(waiting.pk), code=66)


def test_the_command_lists_and_downloads_whatever_names_there_are(
    running: Running, web: LiveWeb, tmp_path: Path
) -> None:
    at = Shell(tmp_path, f"http://{web.host}", token_of(running.world.user))
    job, out = str(running.job.pk), running.folder / "out"
    out.mkdir()
    (out / "a\x1b[2J\nb").write_text("escapes")
    Path(os.fsdecode(os.fsencode(out) + b"/\xff")).write_text("bytes")
    (out / "evil").symlink_to("/etc/passwd")
    listed = at.berth("files", job, "out")
    assert "\x1b" not in listed
    assert "out/%FF" in listed
    assert at.berth("files", job, "out/%FF", "-o", "-") == "bytes"
    at.berth("files", job, "out/%FF", "-d")
    assert Path(os.fsdecode(os.fsencode(at.home) + b"/\xff")).read_text() == "bytes"
    at.berth("files", job, "out/", "-o", "home")
    assert (at.home / "home" / "out" / "a\x1b[2J\nb").read_text() == "escapes"
    assert not (at.home / "home" / "out" / "evil").is_symlink(), "a link out of the folder is left out"
    for name, version in (("big", None), ("other", "1-a")):
        (out / name).write_bytes(b"0123456789")
        version = version or f"{(out / name).stat().st_mtime_ns // 1_000_000:x}-a"
        (at.home / f".{name}.{version}.part").write_bytes(b"abcd")
        at.berth("files", job, f"out/{name}", "-d")
    assert (at.home / "big").read_bytes() == b"abcd456789", "what came of a broken download is not asked for again"
    assert (at.home / "other").read_bytes() == b"0123456789", "of another version it is of no use"
    assert not list(at.home.glob(".*.part"))
    assert "There is no such file" in at.berth("files", job, "nothing", code=66)
    assert "cannot be written" in at.berth("files", job, "out/%FF", "-o", "no/such/folder", code=78)


def archive(*members: tuple[str, str | bytes]) -> bytes:
    """A tar archive of files, and of links where the second is a text; a name that ends with a slash is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, holds in members:
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mode = 0o755
            if isinstance(holds, str):
                member.type, member.linkname = tarfile.SYMTYPE, holds
            elif name.endswith("/"):
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(holds)
            made.addfile(member, io.BytesIO(holds if isinstance(holds, bytes) else b""))
    return out.getvalue()


EVIL = b"ssh-ed25519 EVIL"
FORGED: dict[str, bytes] = {
    "files beside the folder": archive(("out/", b""), (".ssh/authorized_keys", EVIL), (".bashrc", EVIL)),
    "another folder in its place": archive((".ssh/", b""), (".ssh/authorized_keys", EVIL), (".bashrc", EVIL)),
    "a step back": archive(("out/", b""), ("out/../.bashrc", EVIL), ("out/../.ssh/authorized_keys", EVIL)),
    "a link beside it": archive(("out/", b""), ("out/x", "../.ssh"), ("out/x/authorized_keys", EVIL)),
    "a link in its place": archive(("out", ".ssh"), ("out/authorized_keys", EVIL)),
    "a link that another one turns": archive(
        ("out/", b""), ("out/x", "y/../.ssh"), ("out/y", "."), ("out/x/authorized_keys", EVIL)
    ),
    "a file in its place": archive((".bashrc", EVIL)),
}


def test_a_folder_of_a_hostile_server_lands_in_its_own_place_alone(
    running: Running, web: LiveWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    at = Shell(tmp_path / "home", f"http://{web.host}", token_of(running.world.user))
    (running.folder / "out").mkdir()
    (at.home / ".ssh").mkdir()
    mine = {at.home / ".bashrc": "mine", at.home / ".ssh" / "authorized_keys": "me"}
    for file, text in mine.items():
        file.write_text(text)
    for forged, sent in FORGED.items():
        monkeypatch.setattr(
            "nodes.agent.sessions.files.folder_archive", lambda _folder, _name, _title, write, sent=sent: write(sent)
        )
        at.berth("files", str(running.job.pk), "out", "-d")
        assert {path.name for path in at.home.iterdir()} <= {".bashrc", ".ssh", "out"}, forged
        assert {file: file.read_text() for file in mine} == mine, forged
        assert [path.name for path in (at.home / ".ssh").iterdir()] == ["authorized_keys"], forged
        shutil.rmtree(at.home / "out")


def test_a_whole_job_folder_comes_home_under_the_name_that_is_said(
    running: Running, web: LiveWeb, tmp_path: Path
) -> None:
    at = Shell(tmp_path, f"http://{web.host}", token_of(running.world.user))
    (running.folder / "model").mkdir()
    (running.folder / "model" / "weights").write_text("w")
    (running.folder / "model" / "latest").symlink_to("weights")
    (running.folder / "up").symlink_to("model/../model")
    at.berth("files", str(running.job.pk), "-o", "home")
    home = at.home / "home" / f"{running.job.name}-{running.job.run}"
    assert (home / "model" / "latest").read_text() == "w"
    assert sorted(path.name for path in at.home.joinpath("home").iterdir()) == [home.name]
