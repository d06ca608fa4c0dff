"""What the agent keeps on its disk."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nodes.agent.attempts.journal import TOMBSTONE_MS, Journal, Record, Stopping, attempt_is_safe, boot_next
from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason

RECORD = Record(
    attempt="a-1",
    spec_hash="h",
    phase=Phase.STOP,
    state=ContainerState.TERMINATED,
    gpus=("GPU-1",),
    stopping=Stopping(reason=StopReason.USER, message="m", grace_s=30, asked_ms=5, term_at=1.5),
    exit=Exit(cause=Cause.STOPPED, code=143, signal=15, stop_reason=StopReason.USER),
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    Journal(tmp_path / "j").write(RECORD)
    assert list(Journal(tmp_path / "j").records()) == [RECORD]


def test_a_half_written_file_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(RECORD)
    (tmp_path / "a-2.new").write_bytes(b'{"attempt": "a-')
    (tmp_path / "a-3.json").write_bytes(b"")
    (tmp_path / "a-4.json").write_bytes(b'{"attempt": "\xff"}')
    assert list(journal.records()) == [RECORD]


@pytest.mark.parametrize("number", [errno.EIO, errno.EUCLEAN, errno.EBADMSG])
def test_a_record_that_the_disk_has_lost_is_passed_over_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    journal, plain = Journal(tmp_path), Path.read_bytes
    journal.write(RECORD)
    journal.write(replace(RECORD, attempt="a-2"))

    def read_bytes(path: Path) -> bytes:
        if path.name == "a-2.json":
            raise OSError(number, os.strerror(number), str(path))
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with capture_logs() as lines:
        assert list(journal.records()) == [RECORD]
        assert (journal.read("a-2"), journal.has("a-2"), journal.has("a-3")) == (None, True, False)
    assert [(line["event"], line["path"]) for line in lines] == [("a record cannot be read", f"{tmp_path}/a-2.json")]


def test_a_record_that_cannot_be_read_just_now_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_bytes(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(OSError, match="Too many open files"):
        Journal(tmp_path).read("a-1")


def test_tombstones_go_after_an_hour_and_live_records_stay(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    buried = replace(RECORD, attempt="a-2", removed_ms=1000)
    journal.write(RECORD)
    journal.write(buried)
    journal.forget_old(1000 + TOMBSTONE_MS)
    assert journal.read("a-2") == buried
    journal.forget_old(1001 + TOMBSTONE_MS)
    assert list(journal.records()) == [RECORD]


def test_the_boot_number_grows_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    numbers = [boot_next(tmp_path / "boot", now) for now in (5000, 5000, 100, 9000)]
    assert numbers == [5000, 5001, 5002, 9000]


@pytest.mark.parametrize(
    ("attempt", "safe"),
    [("6f9c0c2e-1d5e-4ab0-8f6b-0c9cc4b3ac11", True), ("", False), ("../x", False), ("a/b", False), ("-rf", False)],
)
def test_an_id_is_part_of_a_name_only_when_it_is_harmless(attempt: str, safe: bool) -> None:
    assert attempt_is_safe(attempt) is safe


def test_a_record_tells_the_folder_of_its_job() -> None:
    record = replace(RECORD, lease="/mnt/jobs/carol/train-7/.berth/lease.worker.0")
    assert (record.report(1).folder, RECORD.report(1).folder) == ("/mnt/jobs/carol/train-7", "")
