"""Reading Docker's log again goes on exactly where it stopped, also where the times of the streams cross."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.agent.logs.base import Position
from nodes.agent.logs.sidecar import position_after
from nodes.agent.runtimes.base import records_beyond
from nodes.agent.runtimes.docker import logs as docker_logs
from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.logs import CROSSING_NS, DockerOutput, Stamps, records_after
from nodes.agent.runtimes.docker.open_lines import OpenLines
from nodes.protocol.logs import STDERR, STDOUT, LogRecord
from tests.support.services.scripted_engine import ScriptedEngine

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
    assert list(records_after(answered, after)) == file[cut:]


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
    assert list(records_after(iter(young), after)) == young


def test_a_living_log_is_not_held_back_for_ever_where_the_newest_record_is_gone() -> None:
    after = Position(last_time_ns=10 * SECOND, at_last=1)

    def living() -> Iterator[LogRecord]:
        yield LogRecord(12 * SECOND, STDOUT, b"first")
        raise AssertionError("the reader waits for more")

    assert next(records_after(living(), after)).payload == b"first"


def test_dockers_stamps_are_read_to_the_nanosecond() -> None:
    stamps = Stamps()
    assert stamps.time_ns(b"1970-01-01T00:00:01.000000002Z") == 1_000_000_002
    assert stamps.time_ns(b"2026-11-21T00:07:57.123456789Z") == 1_795_219_677_123_456_789
    assert stamps.time_ns(b"2026-11-21T00:07:57.000000000Z") == 1_795_219_677_000_000_000


HOUR = 3600 * SECOND
SET_BACK = [
    *(LogRecord(10 * HOUR + n * SECOND, STDOUT, b"before %d\n" % n) for n in range(3600)),
    *(LogRecord(10 * HOUR + n * SECOND + 1, STDOUT, b"after %d\n" % n) for n in range(600)),
]
"""The clock was set back by an hour."""


@pytest.mark.parametrize("cut", [1800, 3600, 3601, 4199, 4200])
def test_a_long_log_goes_on_in_its_place_where_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cut: int
) -> None:
    engine = LoggingEngine(tmp_path, SET_BACK, now_ns=10 * HOUR + 600 * SECOND)
    monkeypatch.setattr(docker_logs, "NEVER_ROTATED_BYTES", 0)
    monkeypatch.setattr(time, "time_ns", lambda: engine.now_ns)
    with closing(engine):
        after = position_after(Position(), SET_BACK[:cut])
        assert list(engine.output().frames(after)) == SET_BACK[cut:]


def test_where_docker_threw_the_place_away_all_that_is_there_is_fresh_though_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = LoggingEngine(tmp_path, SET_BACK[3700:], now_ns=10 * HOUR + 600 * SECOND)
    monkeypatch.setattr(docker_logs, "NEVER_ROTATED_BYTES", 0)
    monkeypatch.setattr(time, "time_ns", lambda: engine.now_ns)
    with closing(engine):
        after = position_after(Position(), SET_BACK[:3650])
        assert list(engine.output().frames(after)) == SET_BACK[3700:]


class LoggingEngine(ScriptedEngine):
    """It has one container, which has ended, and gives of its log what Docker gives: what its time tells, and in the
    order in which it was written."""

    def __init__(self, folder: Path, file: list[LogRecord], *, now_ns: int) -> None:
        super().__init__(folder, {"GET /containers/c/json": (200, ENDED), "GET /info": (200, {"SystemTime": NEVER})})
        self.now_ns, self._file = now_ns, file
        self.answers["GET /containers/c/logs"] = lambda request: (200, self._frames(request.query))

    def output(self) -> DockerOutput:
        client = partial(engine_client, self.url, timeout=5)
        return DockerOutput("c", client, lambda: None, OpenLines("c", client), freeze=lambda: None, thaw=lambda: None)

    def _frames(self, query: dict[str, str]) -> bytes:
        seconds, _, nanos = query.get("since", "0").partition(".")
        since_ns = int(seconds) * SECOND + int(nanos or 0)
        return b"".join(_frame(record) for record in self._file if record.time_ns >= since_ns)


NEVER = "0001-01-01T00:00:00Z"
ENDED = {"State": {"Running": False, "StartedAt": NEVER, "FinishedAt": NEVER}}


def _frame(record: LogRecord) -> bytes:
    second = datetime.fromtimestamp(record.time_ns // SECOND, UTC).isoformat().removesuffix("+00:00")
    frame = f"{second}.{record.time_ns % SECOND:09d}Z ".encode() + record.payload
    return struct.pack(">BxxxL", record.stream, len(frame)) + frame
