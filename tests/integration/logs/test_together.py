"""Several logs as one: looking back, one text, one archive."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import redis

from nodes.protocol.logs import STDERR, STDOUT, LogRecord, record_encode
from portal.logs.archive_store import Archive, _content
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf
from portal.logs.together import NamedLog, earlier, file_name, merged_text, zipped
from tests.support.services.redis_server import RedisServer

S = 10**9
AT = 1_772_366_400 * S
"""2026-03-01 12:00 UTC."""


class Logs:
    """Archived logs, of which nothing is in Redis any more."""

    def __init__(self, folder: Path, url: str) -> None:
        self.archive = Archive(folder)
        self.reader = LogReader(self.archive, redis.Redis.from_url(url))

    def write(self, number: int, *records: tuple[int, str], stream: int = STDOUT) -> LogOf:
        """Records of (seconds, text) as one segment behind what is there."""
        attempt = f"4f1d8a3e-0000-4000-8000-{number:012d}"
        data = b"".join(record_encode(LogRecord(AT + at * S, stream, text.encode())) for at, text in records)
        self.archive.write(attempt, Run(self.archive.end(attempt), data))
        return LogOf(attempt, "gpu01", "key")


@pytest.fixture
def logs(tmp_path: Path, redis_server: RedisServer) -> Logs:
    return Logs(tmp_path, redis_server.url)


def named(*logs: LogOf) -> list[NamedLog]:
    return [NamedLog(f"worker/{at}", f"worker-{at}.1.log", log) for at, log in enumerate(logs)]


def texts(run: Run) -> list[str]:
    return [payload.decode().rstrip("\n") for _, _, payload in run.rows()]


def test_one_text_has_all_lines_by_time_each_with_time_and_task(logs: Logs) -> None:
    first = logs.write(0, (0, "begin\n"), (2, "a line in "), (4, "two pieces\nand a half"))
    second = logs.write(1, (1, "other\n"), (3, "between\n"))
    logs.write(1, (3, "an error\n"), stream=STDERR)
    text = b"".join(merged_text(logs.reader, named(first, second))).decode()
    assert text.splitlines() == [
        "2026-03-01T12:00:00.000Z worker/0 | begin",
        "2026-03-01T12:00:01.000Z worker/1 | other",
        "2026-03-01T12:00:02.000Z worker/0 | a line in two pieces",
        "2026-03-01T12:00:03.000Z worker/1 | between",
        "2026-03-01T12:00:03.000Z worker/1 | an error",
        "2026-03-01T12:00:04.000Z worker/0 | and a half",
    ]


def test_a_long_log_is_sent_in_pieces_and_a_line_without_end_needs_no_memory(logs: Logs) -> None:
    log = logs.write(0, *((at, f"{at:060d}\n") for at in range(20_000)))
    endless = logs.write(1, *((at, "x" * 8000) for at in range(40)))
    pieces = list(merged_text(logs.reader, named(log, endless)))
    assert len(pieces) > 3
    lines = b"".join(pieces).decode().splitlines()
    assert [line[-60:] for line in lines if "worker/0" in line] == [f"{at:060d}" for at in range(20_000)]
    assert sum(line.count("x") for line in lines if "worker/1" in line) == 320_000
    assert max(map(len, lines)) < 100_000


def test_one_text_of_many_logs_unpacks_each_segment_once(logs: Logs) -> None:
    """Of more logs than are kept unpacked, each of which is read in turn."""
    many = [logs.write(n, *((at * 30 + n, f"{at:060d}\n") for at in range(1500))) for n in range(30)]
    _content.cache_clear()
    text = b"".join(merged_text(logs.reader, named(*many)))
    assert text.count(b"\n") == 45_000
    assert _content.cache_info().misses == 30


def test_an_archive_has_a_file_for_each_task(logs: Logs) -> None:
    first, second = logs.write(0, (0, "one\n")), logs.write(1, (0, "two\n"))
    packed = b"".join(zipped(logs.reader, named(first, second)))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "worker-0.1.log": b"one\n",
            "worker-1.1.log": b"two\n",
        }


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("worker-3", 1, "log"), "worker-3.1.log"),
        (("../../etc/passwd", 1), "_.._etc_passwd.1"),
        (("a\r\nb: c", 2), "a_b_c.2"),
        (("..", 1), "_.1"),
        (("训练", 1), "_.1"),
    ],
)
def test_a_name_in_an_archive_leads_nowhere_else(parts: tuple[str | int, ...], name: str) -> None:
    assert file_name(*parts) == name


def test_looking_back_gives_of_each_log_as_much_as_all_of_them_reach(logs: Logs) -> None:
    busy = logs.write(0, *((at, f"busy {at}\n") for at in range(100_000)))
    quiet = logs.write(1, (10, "quiet 10\n"), (99_990, "quiet 99990\n"))
    ends = {log: logs.reader.end(log) for log in (busy, quiet)}
    runs = earlier(logs.reader, ends)
    since = int(texts(runs[busy])[0].split()[1])
    assert since > 10
    assert texts(runs[busy])[-1] == "busy 99999"
    assert texts(runs[quiet]) == ["quiet 99990"]
    assert [runs[log].end for log in (busy, quiet)] == [ends[busy], ends[quiet]]


def test_looking_back_again_and_again_comes_to_the_beginning_without_gap_or_doubling(logs: Logs) -> None:
    all_logs = [logs.write(n, *((at * 3 + n, f"{n} {at}\n") for at in range(30_000))) for n in range(3)]
    before = {log: logs.reader.end(log) for log in all_logs}
    seen: dict[LogOf, list[str]] = {log: [] for log in all_logs}
    for _ in range(40):
        runs = earlier(logs.reader, before)
        for log, run in runs.items():
            assert run.end == before[log]
            seen[log] = texts(run) + seen[log]
            before[log] = run.start
        if not runs:
            break
    assert before == dict.fromkeys(all_logs, 0)
    assert seen == {log: [f"{n} {at}" for at in range(30_000)] for n, log in enumerate(all_logs)}


def test_what_is_asked_for_before_an_offset_within_a_record_ends_with_the_record_before_it(logs: Logs) -> None:
    log = logs.write(0, (1, "one\n"), (2, "two\n"), (3, "three\n"))
    assert [texts(run) for run in earlier(logs.reader, {log: 40}).values()] == [["one", "two"]]
    assert earlier(logs.reader, {log: 7}) == {log: Run(0, b"")}


# ------------------------------------------------------------ bytes that are lost


def behind_a_hole(logs: Logs, number: int, hole: int, *records: tuple[int, str]) -> LogOf:
    """These records ``hole`` bytes behind what is there."""
    attempt = f"4f1d8a3e-0000-4000-8000-{number:012d}"
    data = b"".join(record_encode(LogRecord(AT + at * S, STDOUT, text.encode())) for at, text in records)
    logs.archive.write(attempt, Run(logs.archive.end(attempt) + hole, data))
    return LogOf(attempt, "gpu01", "key")


def unreadable(logs: Logs, log: LogOf, first: int) -> None:
    path = logs.archive.path(log.attempt) / f"{first:020d}.rec.gz"
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes(len(content) - 24) + content[-4:])


@pytest.mark.parametrize("hole", [40_000, 3_000_000])
def test_looking_back_over_a_hole_goes_on_before_it_and_leaves_nothing_else_out(logs: Logs, hole: int) -> None:
    lines = [f"line {at}" for at in range(2000)]
    logs.write(0, *((at, f"{lines[at]}\n") for at in range(1000)))
    first = logs.archive.end(f"4f1d8a3e-0000-4000-8000-{0:012d}")
    log = behind_a_hole(logs, 0, hole, *((at, f"{lines[at]}\n") for at in range(1000, 2000)))
    at, seen, ends = logs.reader.end(log), list[str](), list[int]()
    while runs := earlier(logs.reader, {log: at}):
        seen = texts(runs[log]) + seen
        ends.append(runs[log].end)
        at = runs[log].start
    assert seen == lines
    assert ends == [logs.reader.end(log), first]


def test_of_a_log_whose_beginning_is_lost_it_is_told_that_nothing_stands_before(logs: Logs) -> None:
    log = behind_a_hole(logs, 0, 50_000, (1, "one\n"))
    whole, unknown = logs.write(1, (0, "first\n")), LogOf("4f1d8a3e-0000-4000-8000-000000000009", "gpu01", "key")
    runs = earlier(logs.reader, {log: 50_000, whole: logs.reader.end(whole), unknown: 700})
    assert runs == {log: Run(0, b""), whole: runs[whole]}
    assert texts(runs[whole]) == ["first"]


def test_texts_say_how_many_bytes_are_lost_before_between_and_behind(logs: Logs) -> None:
    log = behind_a_hole(logs, 0, 500, (1, "one\n"))
    behind_a_hole(logs, 0, 40_000, (2, "two\n"))
    last = logs.reader.end(log)
    logs.write(0, (3, "three\n"))
    unreadable(logs, log, last)
    told = [f"… {lost} bytes of this log are lost" for lost in (500, 40_000, 19)]
    expected = [told[0], "one", told[1], "two", told[2]]
    assert b"".join(logs.reader.download(log)).decode().splitlines() == expected
    merged = b"".join(merged_text(logs.reader, named(log))).decode().splitlines()
    assert [line.split(" | ")[1] for line in merged] == expected
    with zipfile.ZipFile(io.BytesIO(b"".join(zipped(logs.reader, named(log))))) as archive:
        assert archive.read("worker-0.1.log").decode().splitlines() == expected
