"""Archived segments: found by any offset, never overwritten, whole after anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.protocol.logs import STDOUT, LogRecord, record_encode
from portal.logs.archive_store import Archive
from portal.logs.records import Run

ATTEMPT = "4f1d8a3e-0000-4000-8000-000000000001"


def run_of(start: int, texts: list[str]) -> Run:
    return Run(start, b"".join(record_encode(LogRecord(1, STDOUT, text.encode())) for text in texts))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_a_segment_lies_under_its_first_offset(archive: Archive, tmp_path: Path) -> None:
    archive.write(ATTEMPT, run_of(100, ["one\n"]))

    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [Path("4f") / ATTEMPT / "00000000000000000100.rec.gz"]


def test_it_is_read_from_any_offset_at_a_records_boundary(archive: Archive) -> None:
    first = run_of(0, ["a\n", "bb\n", "ccc\n"])  # records at 0, 15, 31; end 48
    second = run_of(first.end, ["dddd\n"])
    archive.write(ATTEMPT, first)
    archive.write(ATTEMPT, second)

    starts = [archive.read(ATTEMPT, offset, 1).start for offset in range(first.end + 2)]

    assert starts == [0] * 15 + [15] * 16 + [31] * 17 + [48] * 2
    assert archive.read(ATTEMPT, 15, 33).data == first.data[15:]
    assert archive.read(ATTEMPT, 15, 32).data == first.data[15:31]
    assert archive.end(ATTEMPT) == second.end
    assert archive.read(ATTEMPT, second.end, 100).data == b""


def test_where_nothing_is_archived_yet_behind_the_last_segment_that_is_not_unpacked(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be is told of, so that it is seen."""
    first, second = run_of(0, ["a\n"]), run_of(15, ["bb\n"])
    archive.write(ATTEMPT, first)
    archive.write(ATTEMPT, second)
    path = archive.path(ATTEMPT) / f"{15:020d}.rec.gz"
    content = path.read_bytes()
    path.write_bytes(content[:10] + bytes(len(content) - 14) + content[-4:])
    assert archive.read(ATTEMPT, second.end, 100) == Run(second.end, b"")
    assert caplog.text == ""
    assert archive.read(ATTEMPT, 15, 100) == Run(15, b"")
    assert "cannot be read" in caplog.text
    path.write_bytes(b"")
    assert archive.read(ATTEMPT, 15, 100) == Run(15, b"")


def test_a_log_that_was_never_archived_is_empty(archive: Archive) -> None:
    assert archive.read(ATTEMPT, 0, 100).data == b""
    assert archive.end(ATTEMPT) == 0


def test_the_first_of_two_archivers_keeps_the_name(archive: Archive) -> None:
    short, long = run_of(0, ["a\n"]), run_of(0, ["a\n", "b\n"])

    assert archive.write(ATTEMPT, long) == long.end
    assert archive.write(ATTEMPT, short) == long.end
    assert archive.read(ATTEMPT, 0, 1000).data == long.data


def test_nothing_half_written_is_left_behind(archive: Archive) -> None:
    run = run_of(0, ["a\n"])
    archive.write(ATTEMPT, run)
    archive.write(ATTEMPT, run)

    assert len(list(archive.path(ATTEMPT).iterdir())) == 1


def test_a_damaged_segment_is_skipped_and_the_rest_is_read(archive: Archive) -> None:
    first = run_of(0, ["a\n"])
    archive.write(ATTEMPT, first)
    archive.write(ATTEMPT, run_of(first.end, ["b\n"]))
    (archive.path(ATTEMPT) / f"{0:020d}.rec.gz").write_bytes(b"no gzip")

    assert archive.read(ATTEMPT, 0, 1000) == run_of(first.end, ["b\n"])


def test_a_removed_log_is_gone(archive: Archive) -> None:
    archive.write(ATTEMPT, run_of(0, ["a\n"]))
    archive.remove(ATTEMPT)

    assert archive.end(ATTEMPT) == 0
