"""A text is found in the whole of a log, however its lines are cut, by requests that each end soon."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from nodes.protocol.logs import MARK, STDERR, STDOUT, LogRecord, record_encode
from portal.common.throttles import Rate, RateLimit
from portal.logs.archive_store import Archive
from portal.logs.lines import Hit
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.search import Bounds, search
from portal.logs.stream import LogOf
from tests.support.people.cast import Api
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

    from tests.integration.logs.conftest import RunningLog

LOG = LogOf("4f1d8a3e-0000-4000-8000-000000000001", "gpu01", "key")
NS = 1_772_366_400 * 10**9


@pytest.fixture
def reader(tmp_path: Path, redis_server: RedisServer) -> LogReader:
    return LogReader(Archive(tmp_path), redis.Redis.from_url(redis_server.url))


def write(reader: LogReader, *records: tuple[int, bytes]) -> None:
    """As one segment behind what is there."""
    data = b"".join(record_encode(LogRecord(NS, stream, text)) for stream, text in records)
    reader.archive.write(LOG.attempt, Run(reader.archive.end(LOG.attempt), data))


def found(reader: LogReader, wanted: str, *, backward: bool = False, hits: int = 1000, chunks: int = 1000) -> list[Hit]:
    """All lines that have it, by as many requests as it takes; each is over after ``chunks`` chunks."""
    at, all_found = reader.end(LOG) if backward else 0, list[Hit]()
    while True:
        left = iter(range(chunks - 1))
        bounds = Bounds(hits, lambda left=left: next(left, None) is None)  # type: ignore[misc]  # mypy takes it for a plain one
        one = search(reader, LOG, wanted, start=at, backward=backward, bounds=bounds)
        assert one.count == len(one.hits)
        all_found += one.hits
        assert not one.more or one.start < one.end
        at = one.start if backward else one.end
        if not one.more:
            return all_found


def counted(reader: LogReader, wanted: str) -> int:
    """The lines that have it, counted a segment at a time."""
    at, lines = 0, 0
    while True:
        one = search(reader, LOG, wanted, start=at, backward=False, bounds=Bounds(0, lambda: True))
        at, lines = one.end, lines + one.count
        if not one.more:
            return lines


def test_a_line_is_found_as_people_read_it_and_told_where_it_begins(reader: LogReader) -> None:
    write(reader, (STDOUT, b"one\n\x1b[32mLo"), (STDERR, b"between\n"))
    write(reader, (STDOUT, b"ss \x1b[0m0.5\n"), (MARK, b"lines are missing here"), (STDOUT, "Größe\n".encode()))
    (hit,) = found(reader, "LOSS 0.5")
    assert (hit.offset, hit.text, hit.stream, hit.time_ms) == (0, "Loss 0.5", STDOUT, NS // 10**6)
    assert [hit.text for hit in found(reader, "größe")] == ["Größe"]
    assert [hit.stream for hit in found(reader, "missing")] == [MARK]
    assert found(reader, "one lo") == []
    assert [hit.text for hit in found(reader, "between", backward=True)] == ["between"]


@pytest.mark.parametrize("seed", range(6))
def test_forward_and_backward_find_every_line_once_wherever_records_segments_and_requests_end(
    reader: LogReader, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr("portal.logs.stretches.ENOUGH", dice.choice([200, 2000, 10_000]))
    monkeypatch.setattr("portal.logs.search.BORDER", 1000)
    lines = [f"step {number} loss {dice.randint(0, 9)}" for number in range(300)]
    colours = [""] * 9 + ["\x1b[32m", "\x1b[0m", f"\x1b[1;3{dice.randint(0, 7)}m", "\x1bM"]
    text = "".join("".join(dice.choice(colours) + letter for letter in f"{line}\n") for line in lines).encode()
    while text:
        records = []
        for _ in range(dice.randint(1, 12)):
            size = dice.randint(1, 40)
            records.append((STDOUT, text[:size]))
            text = text[size:]
            if dice.random() < 0.3:
                records.append((STDERR, b"loss 7 elsewhere\n" if dice.random() < 0.2 else b"noise\n"))
        write(reader, *(record for record in records if record[1]))
    wanted = sorted(line for line in lines if "loss 7" in line)
    for hits, chunks in ((1000, 1000), (1, 1000), (3, 2)):
        forward, backward = (found(reader, "loss 7", backward=way, hits=hits, chunks=chunks) for way in (False, True))
        assert sorted(hit.text for hit in forward if hit.stream == STDOUT) == wanted
        assert sorted(hit.text for hit in backward if hit.stream == STDOUT) == wanted
    assert counted(reader, "loss 7") == len(found(reader, "loss 7"))


def test_letters_of_any_script_are_found_in_either_case_and_a_sequence_that_is_none_stays(reader: LogReader) -> None:
    texts = ("МОСКВА 1", "训练 loss", "İstanbul", "a\ufffdb", "\x1b\x1b[0m[32mx", "\x1b]open \x1b[0mtitle")
    write(reader, *((STDOUT, f"{text}\n".encode()) for text in texts), (STDOUT, b"broken \xe4\xb8 utf-8\n"))
    told = {
        "москва": texts[:1], "训练 LOSS": texts[1:2], "i̇stanbul": texts[2:3], "A\ufffdB": texts[3:4],
        "[32mX": ("\x1b[32mx",), "open TITLE": ("open title",), "broken \ufffd": ("broken \ufffd utf-8",), "жизнь": (),
    }  # fmt: skip
    assert {wanted: tuple(hit.text for hit in found(reader, wanted)) for wanted in told} == told


def test_lines_are_only_counted_where_none_are_to_be_told_and_a_long_line_is_told_in_part(reader: LogReader) -> None:
    write(reader, *[(STDOUT, b"x" * 1000 + b"needle" + b"y" * 1000 + b"\n")] * 5)
    one = search(reader, LOG, "needle", start=0, backward=False, bounds=Bounds(0, lambda: False))
    assert (one.count, one.hits, one.more) == (5, [], False)
    assert "needle" in found(reader, "needle")[0].text
    assert len(found(reader, "needle")[0].text) == 300


def test_a_log_of_which_a_part_is_lost_or_nothing_is_there_is_searched_as_far_as_it_goes(reader: LogReader) -> None:
    assert found(reader, "x") == found(reader, "x", backward=True) == []
    write(reader, (STDOUT, b"needle 1\n"))
    data = record_encode(LogRecord(NS, STDOUT, b"needle 2\n"))
    reader.archive.write(LOG.attempt, Run(10_000, data))
    assert [hit.text for hit in found(reader, "needle")] == ["needle 1", "needle 2"]
    assert [hit.text for hit in found(reader, "needle", backward=True)] == ["needle 2", "needle 1"]


def test_a_search_ends_where_all_that_is_left_is_lost(reader: LogReader) -> None:
    """The log's beginning, and its last segment, which cannot be read."""
    data = record_encode(LogRecord(NS, STDOUT, b"needle\n"))
    reader.archive.write(LOG.attempt, Run(5000, data))
    write(reader, (STDOUT, b"needle, but nobody can know\n"))
    path = reader.archive.path(LOG.attempt) / f"{5000 + len(data):020d}.rec.gz"
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes(len(content) - 24) + content[-4:])
    for backward in (False, True):
        assert [hit.text for hit in found(reader, "needle", backward=backward)] == ["needle"]
        one = search(reader, LOG, "x", start=5000, backward=True, bounds=Bounds(20, lambda: False))
        assert (one.start, one.end, one.more) == (5000, 5000, False)
    assert counted(reader, "needle") == 1


def test_the_api_searches_what_is_archived_and_what_is_not_yet_and_says_where_to_go_on(
    running_log: RunningLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOG_DIR = running_log.archive.folder
    lines = (b"Epoch 1\n", b"noise\n", b"epoch 2\n")
    running_log.source.print(*(LogRecord(NS, STDOUT, line) for line in lines))
    api, at = Api(running_log.world.user), f"jobs/{running_log.row.task.job_id}/logs/search"
    wait_until(lambda: api.get(f"{at}?text=epoch")["count"] == 2, "the log to be there")
    answer = api.get(f"{at}?text=EPOCH&way=backward&limit=1")
    assert [hit["text"] for hit in answer["hits"]] == ["epoch 2"]
    assert 0 < answer["next_offset"] == answer["start"] <= answer["hits"][0]["offset"]
    on = api.get(f"{at}?text=epoch&way=backward&offset={answer['next_offset']}")
    assert ([hit["text"] for hit in on["hits"]], on["next_offset"]) == (["Epoch 1"], None)
    for wrong in ("text=", "text=a%0Ab", f"text={'x' * 201}", "text=a&way=up", "text=a&limit=501", "text=a&offset=-1"):
        assert api.call("GET", f"{at}?{wrong}").status_code == 400
    monkeypatch.setattr("portal.logs.api.log_search.SEARCHES", RateLimit("few_searches", Rate(1, 60)))
    assert [api.call("GET", f"{at}?text=epoch").status_code for _ in range(2)] == [200, 429]
