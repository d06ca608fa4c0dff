"""Reading Docker's log again goes on exactly where it stopped, also where the times of the streams cross."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from nodes.logs import Position
from nodes.logs.sidecar import position_after
from nodes.protocol import STDERR, STDOUT, LogRecord
from nodes.runtimes.base import records_beyond
from nodes.runtimes.docker_logs import CROSSING_NS, Stamps, records_behind

SECOND = 1_000_000_000
MS = 1_000_000


@st.composite
def docker_files(draw: st.DrawFn, *, same_stamps: bool) -> list[LogRecord]:
    """Records as Docker's file holds them: each stream's own times never fall, the two may cross a little."""
    now = {STDOUT: 10 * SECOND, STDERR: 10 * SECOND + 1}
    records = []
    for number in range(draw(st.integers(0, 12))):
        stream = draw(st.sampled_from([STDOUT, STDERR]))
        step = draw(st.sampled_from([0, 2] if same_stamps else [2, 2 * MS, 300 * MS]))
        now[stream] += step
        other = STDERR if stream == STDOUT else STDOUT
        now[other] += max(0, now[stream] - 400 * MS - now[other]) // 2 * 2
        records.append(LogRecord(now[stream], stream, b"x" * draw(st.integers(1, 3)) + f"{number}\n".encode()))
    return records


@given(docker_files(same_stamps=False), st.data())
def test_a_long_log_goes_on_where_the_reader_stopped(file: list[LogRecord], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(file)))
    after = position_after(Position(), file[:cut])
    answered = (r for r in file if r.time_ns >= after.last_time_ns - CROSSING_NS)
    assert list(records_behind(answered, after)) == file[cut:]


@given(docker_files(same_stamps=True), st.data())
def test_a_short_log_goes_on_where_the_reader_stopped_whatever_its_stamps(
    file: list[LogRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(file)))
    after = position_after(Position(), file[:cut])
    assert list(records_beyond(file, after)) == file[cut:]


def test_a_frame_that_was_taken_in_part_goes_on_in_its_middle() -> None:
    after = Position(payload_bytes={STDOUT: 3})
    file = [LogRecord(1, STDERR, b"err"), LogRecord(2, STDOUT, b"hello")]
    assert [record.payload for record in records_beyond(file, after)] == [b"err", b"lo"]


def test_where_docker_threw_the_newest_record_away_younger_ones_are_taken() -> None:
    after = Position(last_time_ns=10 * SECOND, at_last=1)
    young = [LogRecord(time_ns, STDOUT, b"x") for time_ns in (11 * SECOND, 12 * SECOND, 13 * SECOND)]
    assert list(records_behind(iter(young), after)) == young


def test_a_living_log_is_not_held_back_for_ever_where_the_newest_record_is_gone() -> None:
    after = Position(last_time_ns=10 * SECOND, at_last=1)

    def living() -> Iterator[LogRecord]:
        yield LogRecord(12 * SECOND, STDOUT, b"first")
        raise AssertionError("the reader waits for more")

    assert next(records_behind(living(), after)).payload == b"first"


def test_dockers_stamps_are_read_to_the_nanosecond() -> None:
    stamps = Stamps()
    assert stamps.time_ns(b"1970-01-01T00:00:01.000000002Z") == 1_000_000_002
    assert stamps.time_ns(b"2026-11-21T00:07:57.123456789Z") == 1_795_219_677_123_456_789
    assert stamps.time_ns(b"2026-11-21T00:07:57.000000000Z") == 1_795_219_677_000_000_000
