"""Logs from a node to a browser, printed beside the reference figures: `python -m tests.benchmarks.bench_logs`.

The node's pipeline, the archiver and the web process's hub are processes of their own, over a real Redis. Nothing
here is asserted.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.logs.masks import Masks
from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import STDOUT, LogRecord, record_encode
from portal.logs.archive_store import Archive
from portal.logs.hub import Hub, LogEnd
from portal.logs.reader import LogReader
from portal.logs.records import Run
from portal.logs.stream import LogOf, read_stream, stream_end
from portal.logs.viewer import Viewer
from tests.support.run.waiting import wait_until
from tests.support.services.processes import free_port
from tests.support.services.redis_server import redis_binary

NODE, ATTEMPT, SECONDS = "gpu07", "4f1d8a3e-0000-4000-8000-000000000001", 10
TEXT = b"epoch 3 loss 0.123456 lr 1e-4 throughput 1234.5 samples/s, and some more words\n"  # 100 bytes with its time
WORTHWHILE = 256 * 1024


class Printing:
    """A frame source: so many lines a second, each with the time of its printing in its text."""

    def __init__(self, rate: int) -> None:
        self._rate = rate

    def frames(self, after: Position) -> Iterator[LogRecord]:
        begin, printed = time.monotonic(), 0
        while printed < self._rate * SECONDS:
            while printed < min(self._rate * SECONDS, (time.monotonic() - begin) * self._rate):
                now, printed = time.time_ns(), printed + 1
                yield LogRecord(now, STDOUT, b"%020d %s" % (now, TEXT))
            time.sleep(0.005)

    def open_lines(self) -> dict[int, OpenLine]:
        return {}

    def missing(self) -> str:
        return ""

    def freeze(self) -> None:
        """The printing goes on: the figures would not show a stop."""

    def thaw(self) -> None:
        """The printing goes on."""

    def close(self) -> None:
        """It ends by itself."""


def run_agent(folder: Path, url: str, secret: str, rate: int) -> None:
    client = redis.Redis.from_url(url)
    pipeline = LogPipeline(folder=folder / "spool", node=NODE, key=NodeKey.load(secret), redis_url=url)
    pipeline.attach(ATTEMPT, Printing(rate), Masks())
    while not pipeline.status(ATTEMPT).complete:
        time.sleep(0.05)
    status = pipeline.status(ATTEMPT)
    client.set("bench:end", f"{status.end} {status.dropped_lines}")
    threading.Event().wait()


def run_archiver(folder: Path, url: str, log: LogOf) -> None:
    """The archiver's step as its hints call it, without its row."""
    client, archive = redis.Redis.from_url(url), Archive(folder / "logs")
    while True:
        end = archive.end(ATTEMPT)
        if (stream_end(client, log) or 0) - end >= WORTHWHILE:
            run = read_stream(client, log, end, 1 << 20)
            archive.write(ATTEMPT, run)
            client.xtrim(log.key, minid=f"{run.end}-1", approximate=False)
        else:
            time.sleep(0.02)


class Counter:
    """A browser: counts lines and notes how old some of them were."""

    def __init__(self) -> None:
        self.lines, self.ages_ms = 0, [0.0]

    async def take(self, text: str) -> None:
        now = time.time_ns()
        for row in json.loads(text).get("records", []):
            self.lines += 1
            if self.lines % 20 == 0:
                self.ages_ms.append((now - int(row[2][:20])) / 1e6)

    def age(self, share: float) -> float:
        return sorted(self.ages_ms)[int(share * (len(self.ages_ms) - 1))]


async def watch(folder: Path, url: str, log: LogOf, viewers: int) -> tuple[Counter, int, float]:
    """The slowest of so many browsers, the lines dropped, and the seconds until all had everything."""
    client = redis.Redis.from_url(url)

    async def ended(source: LogOf) -> LogEnd:
        end = client.get("bench:end")
        return LogEnd(complete=end is not None, offset=int(bytes(end).split()[0]) if end else 0, state="")  # type: ignore[arg-type]

    hub = Hub(LogReader(Archive(folder / "logs"), client), url, ended)
    counters = [Counter() for _ in range(viewers)]
    tasks = [asyncio.create_task(Viewer(hub, log, counter.take, 0).run()) for counter in counters]
    begin = time.monotonic()
    while not ((end := await ended(log)).complete and (hub.feed_offset(log) or 0) >= end.offset):
        await asyncio.sleep(0.05)
    took = time.monotonic() - begin
    for task in tasks:
        task.cancel()
    await hub.close()
    dropped = int(bytes(client.get("bench:end")).split()[1])  # type: ignore[arg-type]
    return max(counters, key=lambda counter: counter.age(0.95)), dropped, took


def flow(rate: int, viewers: int) -> str:
    key = NodeKey.generate()
    log = LogOf(ATTEMPT, NODE, key.public)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, running_redis(Path(name)) as url:
        folder = Path(name)
        jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (run_agent, (folder, url, key.secret, rate)),
            (run_archiver, (folder, url, log)),
        ]
        spawn = multiprocessing.get_context("spawn")
        processes = [spawn.Process(target=target, args=arguments, daemon=True) for target, arguments in jobs]
        for process in processes:
            process.start()
        counter, dropped, took = asyncio.run(watch(folder, url, log, viewers))
        for process in processes:
            process.kill()
    return (
        f"{rate:6} lines/s, {viewers:3} viewers: {counter.lines} of {rate * SECONDS} lines in {took:.1f} s, "
        f"{dropped} dropped, print to browser p50 {counter.age(0.5):.0f} ms, p95 {counter.age(0.95):.0f} ms"
    )


class running_redis:  # noqa: N801  reads as a with-statement
    """A Redis on a port of its own; its URL."""

    def __init__(self, folder: Path) -> None:
        self._port, self._folder = free_port(), folder

    def __enter__(self) -> str:
        command = [redis_binary(), "--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        self._process = subprocess.Popen([*command, "--dir", str(self._folder)], stdout=subprocess.DEVNULL)
        url = f"redis://127.0.0.1:{self._port}/0"
        wait_until(lambda: _answers(url), "Redis")
        return url

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()


def _answers(url: str) -> bool:
    try:
        return bool(redis.Redis.from_url(url).ping())
    except redis.RedisError:
        return False


def open_anywhere() -> str:
    """A log of 1 GB, opened at random offsets."""
    with tempfile.TemporaryDirectory() as name:
        archive, chance, slowest = Archive(Path(name)), random.Random(1), 0.0
        run = Run(0, b"".join(record_encode(LogRecord(n, STDOUT, b"%020d %s" % (n, TEXT))) for n in range(9_000)))
        archive.write(ATTEMPT, run)
        content = (archive.path(ATTEMPT) / f"{0:020d}.rec.gz").read_bytes()
        for n in range(1, 1000):
            (archive.path(ATTEMPT) / f"{n * len(run.data):020d}.rec.gz").write_bytes(content)
        for _ in range(100):
            begin = time.perf_counter()
            archive.read(ATTEMPT, chance.randrange(archive.end(ATTEMPT)), 65536)
            slowest = max(slowest, time.perf_counter() - begin)
        size = archive.end(ATTEMPT) / 1e9
    return f"slowest of 100 random offsets in {size:.2f} GB: {slowest * 1000:.0f} ms"


def main() -> None:
    print(flow(10_000, 1), "(reference: p95 < 250 ms at 1 MB/s)")
    print(flow(10_000, 20), "(reference: the same for many)")
    print(flow(50_000, 1), "(reference: nothing lost)")
    print(open_anywhere(), "(reference: < 1 s)")


if __name__ == "__main__":
    main()
