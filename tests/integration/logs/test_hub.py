"""Live viewers: each gets every record once and in order, and a hundred of them cost one read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from nodes.agent.logs.masks import Masks
from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import STDOUT, LogRecord
from portal.logs import hub as hub_module
from portal.logs.archive_store import Archive
from portal.logs.hub import Hub, LogEnd
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf, read_stream
from portal.logs.text import TextDecoder
from portal.logs.viewer import Viewer
from tests.support.cluster.agent_logs import NODE, Printed, line, lines, text_of
from tests.support.services.redis_server import RedisServer

ATTEMPT = "4f1d8a3e-0000-4000-8000-000000000001"


class CountingReader(LogReader):
    """Counts its reads."""

    reads = 0

    def read(self, log: LogOf, offset: int, limit: int) -> Run:
        CountingReader.reads += 1
        return super().read(log, offset, limit)


class Scene:
    """A container's log on its way into Redis, a hub, and browsers."""

    def __init__(self, folder: Path, url: str) -> None:
        key = NodeKey.generate()
        self.source = Printed()
        self.pipeline = LogPipeline(folder=folder / "spool", node=NODE, key=key, redis_url=url)
        self.pipeline.attach(ATTEMPT, self.source, Masks())
        self.redis = redis.Redis.from_url(url)
        self.log = LogOf(ATTEMPT, NODE, key.public)
        self.archive = Archive(folder / "logs")
        self.hub = Hub(CountingReader(self.archive, self.redis), url, self.ended)
        self.browsers: list[Browser] = []
        self.archived_to = 0

    async def ended(self, source: LogOf) -> LogEnd:
        status = self.pipeline.status(source.attempt)
        archived = status.complete and self.archived_to >= status.end
        return LogEnd(complete=status.complete, offset=status.end, state="terminated", archived=archived)

    def open(self, offset: int | None = 0) -> Browser:
        self.browsers.append(Browser(self, offset))
        return self.browsers[-1]

    def archive_now(self) -> None:
        """What the archiver does."""
        run = read_stream(self.redis, self.log, self.archive.end(ATTEMPT), 1 << 20)
        self.archive.write(ATTEMPT, run)
        self.redis.xtrim(self.log.key, minid=f"{run.end}-1", approximate=False)
        self.pipeline.ack(ATTEMPT, run.end)
        self.archived_to = run.end

    async def close(self) -> None:
        for browser in self.browsers:
            browser.close()
        await self.hub.close()
        await asyncio.to_thread(self.pipeline.close)
        self.redis.close()


class Browser:
    """What one browser was sent. ``reading`` cleared: it takes nothing more for a while."""

    def __init__(self, scene: Scene, offset: int | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.viewer = Viewer(scene.hub, scene.log, self.take, offset)
        self._task = asyncio.create_task(self.viewer.run())

    async def take(self, text: str) -> None:
        await self.reading.wait()
        self.messages.append(json.loads(text))

    @property
    def text(self) -> str:
        return "".join(row[2] for message in self.of("records") for row in message["records"])

    @property
    def offset(self) -> int:
        """Up to where it has the log."""
        parts = self.of("records")
        return int(parts[-1]["to"]) if parts else 0

    @property
    def watching(self) -> bool:
        """Whether it sits at the log's feed."""
        return self.viewer._seat is not None

    @property
    def seamless(self) -> bool:
        """Every message begins where the one before it ended."""
        parts = self.of("records")
        return all(one["to"] == two["from"] for one, two in zip(parts, parts[1:], strict=False))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    def close(self) -> None:
        self._task.cancel()


def byte_records(text: str) -> list[LogRecord]:
    """One record for each byte."""
    return [LogRecord(n + 1, STDOUT, bytes([byte])) for n, byte in enumerate(text.encode())]


async def until(condition: Callable[[], object], what: str, deadline_s: float = 20) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


@pytest.fixture
async def scene(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path, redis_server.url)
    yield scene
    await scene.close()


@pytest.fixture
def small_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "WAITING", 3)


async def test_history_and_live_lines_come_as_one_text(scene: Scene) -> None:
    scene.source.print(*lines(3000))
    browser = scene.open()
    await until(lambda: len(browser.text) == 30_000, "the history")
    scene.archive_now()
    scene.source.print(*lines(3000, first=3000))
    await until(lambda: len(browser.text) == 60_000, "the live lines")

    assert browser.text == text_of(lines(6000))
    assert browser.seamless


async def test_a_line_is_there_within_moments(scene: Scene) -> None:
    browser = scene.open()
    await until(lambda: scene.hub.feed_offset(scene.log) is not None, "the feed")
    began = time.monotonic()
    scene.source.print(line(time.time_ns(), "step 1\n"))
    await until(lambda: browser.text, "the line", deadline_s=5)

    assert browser.text == "step 1\n"
    print(f"\nfrom print to browser: {1000 * (time.monotonic() - began):.0f} ms (reference 250 ms)")


async def test_a_record_carries_its_time_its_stream_and_its_text(scene: Scene) -> None:
    scene.source.print(line(1_700_000_000_123_456_789, "\x1b[31mred\r\x00\n", 2))
    browser = scene.open()
    await until(lambda: browser.text, "the record")

    assert browser.messages == [
        {"type": "records", "from": 0, "to": 24, "records": [[1_700_000_000_123, 2, "\x1b[31mred\r\x00\n"]]}
    ]


async def test_a_hundred_viewers_cost_one_read(scene: Scene) -> None:
    browsers = [scene.open() for _ in range(100)]
    scene.source.print(*lines(10))
    await until(lambda: all(browser.text == text_of(lines(10)) for browser in browsers), "the first lines")
    await until(lambda: all(browser.watching for browser in browsers), "all to watch the feed")
    before = CountingReader.reads
    scene.source.print(*lines(10, first=10))
    await until(lambda: all(browser.text == text_of(lines(20)) for browser in browsers), "the next lines")

    assert CountingReader.reads - before < 20


@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
async def test_a_hundred_who_open_a_long_log_one_after_another_cost_the_reads_of_one(scene: Scene, ended: bool) -> None:
    scene.source.print(*lines(20_000))
    if ended:
        scene.source.end()
    await until(lambda: scene.pipeline.status(ATTEMPT).end == 460_000, "the log")
    await until(lambda: read_stream(scene.redis, scene.log, 459_000, 100).data, "the log in Redis")
    scene.archive_now()
    before = CountingReader.reads
    first = scene.open(None)
    await until(lambda: first.watching and first.offset == 460_000, "the first")
    one = CountingReader.reads - before
    for _ in range(99):
        scene.open(None)
        await asyncio.sleep(0.005)
    await until(lambda: all(browser.offset == 460_000 and browser.watching for browser in scene.browsers), "all")
    if ended:
        await until(lambda: all(browser.of("end") for browser in scene.browsers), "the end")

    print(f"\nreads: {one} for the first, {CountingReader.reads - before - one} for 99 others")
    assert CountingReader.reads - before - one < 20
    assert len({browser.text for browser in scene.browsers}) == 1


async def test_a_slow_browser_is_told_and_still_gets_everything(scene: Scene, small_queues: None) -> None:
    slow, quick = scene.open(), scene.open()
    scene.source.print(*lines(1))
    await until(lambda: slow.text and quick.text, "the first line")
    slow.reading.clear()
    for n in range(1, 8):
        scene.source.print(*lines(8000, first=8000 * n))
        await until(lambda n=n: len(quick.text) == 10 + 80_000 * n, "the quick one")  # type: ignore[misc]
        scene.archive_now()
    slow.reading.set()
    await until(lambda: len(slow.text) == len(quick.text), "the slow one")

    assert len(slow.of("skipped")) == 1
    assert slow.text == quick.text
    assert slow.seamless
    assert quick.seamless
    assert not quick.of("skipped")


async def test_a_character_split_over_records_survives_history_and_live(scene: Scene) -> None:
    text = "loss ε ≈ 0.25 — 漢字 🎉\n"
    pieces = byte_records(text)
    scene.source.print(*pieces[:6])  # ends inside of ε
    early = scene.open()
    await until(lambda: early.text == "loss " and early.watching, "the whole characters")
    scene.source.print(*pieces[6:9])  # ends inside of ≈
    await until(lambda: early.text == "loss ε ", "one more")
    late = scene.open()
    await until(lambda: late.text == "loss ε " and late.watching, "the late one")
    scene.source.print(*pieces[9:])
    await until(lambda: early.text.endswith("\n") and late.text.endswith("\n"), "the rest")

    assert early.text == late.text == text


async def test_a_character_split_where_a_slow_browser_fell_back_survives(scene: Scene, small_queues: None) -> None:
    text = "漢字" * 40 + "\n"
    pieces = byte_records(text)
    slow, quick = scene.open(), scene.open()
    await until(lambda: slow.watching and quick.watching, "both to watch")
    slow.reading.clear()
    for n, piece in enumerate(pieces[:-1]):
        scene.source.print(piece)
        if n < 24:  # a message for each byte: the slow one falls back inside of a character
            await until(lambda n=n: quick.offset == 14 * (n + 1), "the byte")  # type: ignore[misc]
    slow.reading.set()
    scene.source.print(pieces[-1])
    await until(lambda: slow.text.endswith("\n") and quick.text.endswith("\n"), "the end")

    assert slow.of("skipped")[0]["offset"] % (14 * 3) != 0
    assert slow.text == quick.text == text


async def test_a_seat_is_given_only_where_the_feed_stands(scene: Scene) -> None:
    browser = scene.open()
    scene.source.print(*lines(4))
    await until(lambda: browser.offset == scene.hub.feed_offset(scene.log) == 92, "the lines, and the feed behind them")

    assert scene.hub.join(scene.log, 69, TextDecoder()) is None
    assert scene.hub.join(scene.log, 115, TextDecoder()) is None
    assert scene.hub.join(scene.log, 92, TextDecoder()) is not None


async def test_it_opens_at_its_end_and_seeks_anywhere(scene: Scene) -> None:
    scene.source.print(*lines(20_000))
    await until(lambda: scene.pipeline.status(ATTEMPT).end == 460_000, "the log")
    await until(lambda: read_stream(scene.redis, scene.log, 459_000, 100).data, "the log in Redis")
    browser = scene.open(None)
    await until(lambda: browser.text.endswith("000019999\n"), "the end")
    assert browser.messages[0]["from"] > 390_000

    browser.messages.clear()
    browser.viewer.seek(23 * 7 + 5)
    await until(lambda: browser.text.endswith("000019999\n"), "all from there on")
    assert browser.messages[0]["from"] == 23 * 7
    assert browser.text == text_of(lines(19_993, first=7))


async def test_the_end_is_told_once_with_the_state(scene: Scene) -> None:
    browser = scene.open()
    scene.source.print(*lines(5))
    scene.source.end()
    await until(lambda: browser.of("end"), "the end")
    late = scene.open()
    await until(lambda: late.of("end"), "the end for a late one")

    assert (
        browser.messages[-1] == late.messages[-1] == {"type": "end", "offset": 115, "state": "terminated", "lost": None}
    )
    assert late.text == text_of(lines(5))


async def test_redis_restarted_empty_costs_no_viewer_a_line(scene: Scene, redis_server: RedisServer) -> None:
    browser = scene.open()
    scene.source.print(*lines(500))
    await until(lambda: len(browser.text) == 5000, "the first lines")
    scene.archive_now()
    await asyncio.to_thread(redis_server.restart_empty)
    scene.source.print(*lines(500, first=500))
    scene.source.end()
    await until(lambda: browser.of("end"), "the end", deadline_s=40)

    assert browser.text == text_of(lines(1000))
    assert browser.seamless


async def test_a_lost_hint_costs_a_second_not_a_line(scene: Scene) -> None:
    browser = scene.open()
    await until(lambda: scene.hub.feed_offset(scene.log) is not None, "the feed")
    scene.hub._listener.cancel()  # type: ignore[union-attr]
    scene.source.print(*lines(5))

    await until(lambda: browser.text == text_of(lines(5)), "the lines", deadline_s=5)


async def test_when_the_last_viewer_leaves_nothing_is_read_any_more(scene: Scene) -> None:
    browser = scene.open()
    await until(lambda: scene.hub.feed_offset(scene.log) is not None, "the feed")
    browser.close()

    await until(lambda: scene.hub.feed_offset(scene.log) is None, "the feed to end")


async def test_bytes_that_are_lost_are_told_in_words(scene: Scene) -> None:
    scene.source.print(*lines(4))
    await until(lambda: read_stream(scene.redis, scene.log, 60, 100).data, "the log in Redis")
    run = read_stream(scene.redis, scene.log, 46, 100)
    await asyncio.to_thread(scene.pipeline.close)
    scene.redis.delete(scene.log.key)
    scene.archive.write(ATTEMPT, run)
    browser = scene.open()
    await until(lambda: browser.text.endswith("3\n"), "what is left")

    assert browser.text == "… 46 bytes of this log are lost\n" + text_of(lines(2, first=2))
    assert (browser.messages[0]["from"], browser.messages[0]["to"]) == (0, 92)


async def test_a_log_whose_archived_end_cannot_be_read_ends_and_says_how_much_is_lost(scene: Scene) -> None:
    scene.source.print(*lines(10))
    await until(lambda: read_stream(scene.redis, scene.log, 207, 100).data, "the log in Redis")
    scene.archive_now()
    scene.source.print(*lines(5, first=10))
    scene.source.end()
    await until(lambda: scene.pipeline.status(ATTEMPT).complete, "the whole log")
    await until(lambda: read_stream(scene.redis, scene.log, 322, 100).data, "the rest in Redis")
    scene.archive_now()
    (scene.archive.path(ATTEMPT) / f"{230:020d}.rec.gz").unlink()

    whole = text_of(lines(10)) + "… 115 bytes of this log are lost\n"
    first, behind = scene.open(), scene.open(230)
    await until(lambda: first.of("end") and behind.of("end"), "both to hear of the end")
    late, knows, within = scene.open(), scene.open(345), scene.open(300)
    await until(lambda: all(one.of("end") for one in scene.browsers), "those to hear of it who come later")

    assert (first.text, late.text) == (whole, whole)
    assert (behind.text, knows.text) == ("… 115 bytes of this log are lost\n", "")
    assert (within.text, within.of("records")[0]["from"]) == ("… 45 bytes of this log are lost\n", 300)
    assert all(one.of("end")[0]["offset"] == 345 and one.seamless for one in scene.browsers)
    assert (first.offset, late.offset, behind.offset) == (345, 345, 345)
