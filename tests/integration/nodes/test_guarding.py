"""What a job leaves in a storage with a setuid bit counts nowhere, however the storage got there: real mounts, on the
machine of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes.agent.storage import nosuid as guarding
from nodes.agent.storage.mount_table import reached, table_of
from nodes.agent.storage.nosuid import GuardMode, GuardResult, MountGuard, guard_storage, unguarded
from nodes.protocol.messages import Mount
from nodes.protocol.states import Phase
from tests.support.cluster.portal_side import spec_of
from tests.support.cluster.supervised_node import Node, desired, order, wait_for
from tests.support.run.waiting import wait_until

AS_ROOT = pytest.mark.docker
"""Only root mounts."""
ALICE = 5000


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    """The administrator's folder below which storages lie; what is mounted there goes with the test."""
    folder = tmp_path / "share"
    (folder / "data").mkdir(parents=True)
    for one in (*reversed(tmp_path.parents[:2]), tmp_path):
        one.chmod(0o755)
    yield folder
    for place in reversed([one.target for one in table_of(Path("/proc/self/mountinfo").read_text())]):
        if Path(place).is_relative_to(tmp_path):
            subprocess.run(["umount", "--lazy", place], check=True)


def guard(root: Path, *, above: Path | None = None, binds: bool = True, is_mount: bool = False) -> str:
    """As an agent does that has just been started; what could not be done."""
    return MountGuard((str(above or root.parent),), binds=binds).fault(str(root), is_mount=is_mount)


def mount(kind: str, place: Path, options: str = "rw") -> None:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", kind, "-o", options, kind, place], check=True)


def options_at(place: Path) -> list[set[str]]:
    """Of each mount there, one upon the other."""
    table = table_of(Path("/proc/self/mountinfo").read_text())
    return [set(one.options) for one in table if one.target == str(place)]


def trap(folder: Path) -> Path:
    """A program of root's with the setuid bit, as root in a container leaves it."""
    program = Path(shutil.copy("/usr/bin/id", folder / "trap"))
    program.chmod(0o4755)
    return program


def runs_as(program: Path) -> int:
    """As whom it runs when alice starts it on the server."""
    return int(subprocess.run([program, "-u"], user=ALICE, check=True, capture_output=True, text=True).stdout)


@AS_ROOT
def test_a_setuid_program_counts_neither_in_a_folder_nor_in_what_is_mounted_below_it(top: Path) -> None:
    data = top / "data"
    mount("tmpfs", data / "set", "noexec")
    mount("tmpfs", data / "set" / "deep")
    traps = [trap(folder) for folder in (data, data / "set" / "deep")]
    assert [runs_as(one) for one in traps] == [0, 0]

    assert guard(data) == ""
    assert [runs_as(one) for one in traps] == [ALICE, ALICE]
    assert {"nosuid", "nodev", "noexec"} <= options_at(data / "set")[-1]
    assert options_at(top) == [], "what lies beside it is the administrator's"


@AS_ROOT
def test_an_agent_that_starts_again_mounts_nothing_twice_and_sees_to_what_is_new(top: Path) -> None:
    data = top / "data"
    assert guard(data) == ""
    mount("tmpfs", data / "later")
    program = trap(data / "later")
    assert runs_as(program) == 0
    MountGuard((str(top),), binds=True).guard_now(str(data), is_mount=False)
    assert (runs_as(program), guard(data)) == (ALICE, "")
    assert (len(options_at(data)), len(options_at(data / "later"))) == (1, 1)


@AS_ROOT
def test_an_administrators_mount_keeps_its_own_options_and_nothing_is_put_upon_it(top: Path) -> None:
    mount("tmpfs", top / "data", "ro,noexec,noatime")
    assert guard(top / "data") == ""
    (found,) = options_at(top / "data")
    assert {"ro", "noexec", "noatime", "nosuid", "nodev"} <= found
    (top / "good").mkdir()
    mount("tmpfs", top / "good", "nosuid,nodev")
    (top / "good" / "data").mkdir()
    assert guard(top / "good" / "data", above=top) == ""
    assert options_at(top / "good" / "data") == [], "what lies in such a mount is guarded as it is"


@AS_ROOT
@pytest.mark.parametrize("kind", [{"binds": False}, {"is_mount": True}], ids=["no task is root", "shall be a mount"])
def test_only_what_is_mounted_is_seen_to(top: Path, kind: dict[str, Any]) -> None:
    mount("tmpfs", top / "data" / "set")
    assert guard(top / "data", **kind) == ""
    assert options_at(top / "data") == []
    assert {"nosuid", "nodev"} <= options_at(top / "data" / "set")[-1]


@AS_ROOT
def test_one_fault_keeps_nothing_else_from_being_guarded(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "LOCK", top / "nowhere" / "lock")
    mount("tmpfs", top / "data" / "set")
    assert guard_storage(str(top), str(top / "data"), GuardMode.BIND) == GuardResult(
        str(top / "data"), "No such file or directory"
    )
    assert {"nosuid", "nodev"} <= options_at(top / "data" / "set")[-1]


@AS_ROOT
def test_an_agent_that_may_not_mount_says_so_and_leaves_all_as_it_is(top: Path) -> None:
    """As in most containers."""
    data = top / "data"
    told = f"MountGuard(({str(top)!r},), binds=True).fault({str(data)!r}, is_mount=False)"
    # The tests' own process in place of the server's first one, at whose mounts not every root may look.
    servers = f"/proc/{os.getpid()}/ns/mnt"
    script = f"from nodes.agent.storage import nosuid; nosuid.SERVERS_MOUNTS = {servers!r}; print(nosuid.{told})"
    python = [sys.executable, "-c", script]
    without = {
        "its agent may not mount": ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *python],
        "its agent has mounts of its own, as in a container": ["unshare", "--mount", *python],
    }
    for why, command in without.items():
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        assert told == unguarded(str(data), why)
    assert options_at(data) == []


@AS_ROOT
def test_a_folder_for_which_somebody_put_a_link_is_not_followed(top: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (top / "link").symlink_to(tmp_path / "elsewhere")
    assert guard(top / "link") == unguarded(str(top / "link"), "Not a directory")
    assert options_at(tmp_path / "elsewhere") == []


@AS_ROOT
def test_the_administrators_own_link_is_followed(top: Path, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to(top)
    assert guard(tmp_path / "name" / "data") == ""
    assert len(options_at(top / "data")) == 1


@AS_ROOT
def test_a_file_server_that_is_away_holds_nobody_up(top: Path, tmp_path: Path) -> None:
    subprocess.run(["bindfs", tmp_path, top / "data"], check=True)
    served = next(one for one in psutil.process_iter(["cmdline"]) if str(top / "data") in (one.info["cmdline"] or ()))
    (tmp_path / "inner").mkdir()
    root = str(top / "data" / "inner")
    agents = MountGuard((str(top),), binds=True, timeout_s=1.0)
    served.suspend()
    try:
        began = time.monotonic()
        told = {agents.fault(root, is_mount=False) for _ in range(4)}
        assert told == {unguarded(root, "does not answer: its file server is away")}
        assert time.monotonic() - began < 3, "one process hangs, and no other is begun beside it"
    finally:
        served.resume()
    wait_until(lambda: agents.fault(root, is_mount=False) == "", "the server to be back")


def test_what_another_mount_covers_is_not_reached() -> None:
    table = table_of(
        "27 1 254:0 / / rw - ext4 a rw\n"
        "40 27 0:40 / /s/a/m rw - tmpfs b rw\n"
        "41 27 0:41 / /s/a rw - tmpfs c rw\n"
        "42 41 0:42 / /s/a/m\\040x rw,nosuid,nodev - tmpfs d rw\n"
        "43 27 0:43 / /st rw - tmpfs e rw\n"
        "44 27 0:44 / /s/two rw - tmpfs f rw\n"
        "45 44 0:45 / /s/two rw - tmpfs g rw\n"
    )
    assert [one.id for one in reached(table, "/s")] == [27, 41, 42, 45]
    assert [one.target for one in reached(table, "/s/a/m x")] == ["/s/a/m x"]


# ---------------------------------------------------------------- before the first task writes


def test_a_storage_is_guarded_before_a_task_has_its_folder_there_and_not_where_it_only_reads(node: Node) -> None:
    node.policy = replace(node.policy, mount_roots=(str(node.folder),))
    root = node.folder / "share"
    (root / "all").mkdir(parents=True)
    own = Mount(storage="data", root=str(root), source=f"{root}/alice", target="/data", create=True)
    all = Mount(storage="all", root=str(root), source=f"{root}/all", target="/all", read_only=True)
    spec = spec_of("true", attempt="a-0", uid=os.getuid() or ALICE, mounts=(own, all))
    guarded = list[tuple[str, bool]]()
    node.guard = lambda mount: guarded.append((mount.source, (root / "alice").exists()))
    with node.life() as supervisor:
        supervisor.take(desired(1, order(spec, Phase.RUN)))
        wait_for(supervisor, spec, lambda report: report.container is not None)
    assert guarded[0] == (own.source, False)
    assert {source for source, _ in guarded} == {own.source}
