"""Unpacking on a node: what an archive holds lands whole or not at all, and a full disk is the node's fault."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.agent.runtimes.base import AttemptFailed, CodeFolder
from nodes.agent.storage.code_cache import CodeCache
from nodes.agent.storage.workspace import workspace_make, workspace_remove
from nodes.protocol.messages import Code, Progress
from nodes.protocol.packed import Bounds, PackedInvalid, packed_check
from nodes.protocol.states import Cause
from tests.support.run.archives import HELLO, packed
from tests.support.services.code_server import CodeServer

BOUNDS = Bounds(unpacked=1 << 22, entries=100)
NOISE = packed({"first": b"x", "noise": os.urandom(3 << 20)})


def place_at(folder: Path) -> CodeFolder:
    return CodeFolder(folder=folder, uid=None, gid=None, mode=0o755)


def code_of(archive: bytes) -> Code:
    holds = packed_check(io.BytesIO(archive), BOUNDS)
    sha256 = hashlib.sha256(archive).hexdigest()
    return Code(sha256=sha256, size=len(archive), unpacked=holds.unpacked, entries=holds.entries)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_is_the_nodes_fault_and_leaves_nothing_that_looks_whole(small_disk: Path) -> None:
    with pytest.raises(AttemptFailed) as failed:
        workspace_make(io.BytesIO(NOISE), code_of(NOISE), place_at(small_disk / "made"))
    assert failed.value.cause is Cause.NO_SPACE
    assert not (small_disk / "made").exists()
    workspace_remove(small_disk / "made")
    assert list(small_disk.iterdir()) == []


@pytest.mark.docker  # as root, who may mount
def test_a_download_that_finds_no_room_is_the_nodes_fault(small_disk: Path) -> None:
    server = CodeServer()
    code, store = server.add(NOISE), CodeCache(small_disk / "code", 1 << 30)
    heard: list[Progress] = []
    with pytest.raises(AttemptFailed) as failed:
        store.open(code, address=lambda: server.url(code), progress=heard.append, cancelled=lambda: False)
    server.close()
    assert failed.value.cause is Cause.NO_SPACE
    assert heard[-1].percent is not None


def test_an_archive_that_holds_more_than_was_checked_is_not_unpacked(tmp_path: Path) -> None:
    small, large = code_of(packed(HELLO)), packed({**HELLO, **{f"f{number}": b"" for number in range(50)}})
    with pytest.raises(AttemptFailed) as failed:
        workspace_make(io.BytesIO(large), small, place_at(tmp_path / "made"))
    assert failed.value.cause is Cause.CODE_MISSING
    assert not (tmp_path / "made").exists()


@given(st.data())
@settings(max_examples=150)
def test_whatever_becomes_of_an_archive_it_is_taken_or_refused(data: st.DataObject) -> None:
    raw = bytearray(packed({**HELLO, "deep/" * 9 + "x": b"1", "ü" * 60: b"2"}))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    judged(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


@given(st.binary(max_size=2048))
@settings(max_examples=150)
def test_whatever_stands_in_a_tar_it_is_taken_or_refused(content: bytes) -> None:
    judged(gzip.compress(content))
    base = bytearray(gzip.decompress(packed(HELLO)))
    base[: len(content)] = content[: len(base)]
    judged(gzip.compress(bytes(base)))


def judged(archive: bytes) -> None:
    """Nothing else is raised than the refusal."""
    with contextlib.suppress(PackedInvalid):
        assert packed_check(io.BytesIO(archive), BOUNDS).entries <= BOUNDS.entries


def test_nobody_else_on_the_server_gets_to_a_jobs_code(tmp_path: Path) -> None:
    """Root in a container may leave a program with a setuid bit there, and no mount with `nosuid` is around it."""
    workspace_make(io.BytesIO(packed(HELLO)), code_of(packed(HELLO)), place_at(tmp_path / "workspaces" / "a-0"))
    assert (tmp_path / "workspaces").stat().st_mode & 0o077 == 0
