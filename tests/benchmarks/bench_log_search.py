"""Searching all of a long archived log, in one process, without requests and a browser (which `bench_log_page` has):
`python -m tests.benchmarks.bench_log_search`. `BENCH_LOG_BYTES`: its length. Nothing here is asserted.
"""

from __future__ import annotations

import gzip
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from nodes.protocol.logs import RECORD_HEADER, STDOUT
from portal.logs.archive_store import Archive
from portal.logs.reader import LogReader
from portal.logs.search import Bounds, search
from portal.logs.stream import LogOf
from tests.benchmarks.bench_log_page import FIRST_NS, SEGMENT
from tests.benchmarks.bench_log_page import LINE as COLOURED
from tests.benchmarks.bench_logs import ATTEMPT, running_redis

SIZE = int(os.environ.get("BENCH_LOG_BYTES", 200_000_000))
REQUEST_S = 0.3
LEVEL = 4


def plain(number: int, dice: random.Random) -> bytes:
    """A line whose numbers pack badly."""
    return (
        f"2026-01-05 12:{number // 60 % 60:02} INFO trainer: step {number:09} loss {dice.random():.6f} "
        f"lr {dice.random():.2e} throughput {dice.uniform(1200, 1250):.1f} samples/s\n"
    ).encode()


def lines(kind: str) -> Iterator[bytes]:
    dice, number = random.Random(1), 0
    while True:
        line = COLOURED % number if kind == "coloured" else plain(number, dice)
        time_ns = FIRST_NS + number * 10**7 + dice.randrange(10**7)
        yield RECORD_HEADER.pack(time_ns, STDOUT, len(line)) + line
        number += 1


def fill(archive: Archive, kind: str) -> int:
    """Returns the log's end."""
    folder, records, offset = archive.path(ATTEMPT), lines(kind), 0
    folder.mkdir(parents=True)
    while offset < SIZE:
        data = bytearray()
        while len(data) < SEGMENT - 300:
            data += next(records)
        (folder / f"{offset:020d}.rec.gz").write_bytes(gzip.compress(bytes(data), LEVEL))
        offset += len(data)
    return offset


def measured(reader: LogReader, end: int, text: str, *, backward: bool, hits: int) -> str:
    log, at, count = LogOf(ATTEMPT, "gpu07", ""), end if backward else 0, 0
    wall, cpu = time.perf_counter(), time.process_time()
    while True:
        until = time.monotonic() + REQUEST_S
        bounds = Bounds(hits, lambda until=until: time.monotonic() >= until)  # type: ignore[misc]  # a plain one to mypy
        found = search(reader, log, text, start=at, backward=backward, bounds=bounds)
        at, count = found.start if backward else found.end, count + found.count
        if not found.more:
            break
    took, used = time.perf_counter() - wall, time.process_time() - cpu
    return f"{took / end * 1e9:.1f} s, {used / end * 1e9:.1f} s of a core for each GB; {count} lines"


def main() -> None:
    for kind in ("coloured", "plain"):
        with tempfile.TemporaryDirectory() as name, running_redis(Path(name)) as url:
            reader = LogReader(Archive(Path(name) / "logs"), redis.Redis.from_url(url))
            end = fill(reader.archive, kind)
            for words, text, backward, hits in (
                ("a text that is nowhere, backward", "STEP 99999999x", True, 20),
                ("a text that is nowhere, forward", "STEP 99999999x", False, 20),
                ("counting a text of every line", "loss", False, 0),
            ):
                print(f"{kind}: {words}: {measured(reader, end, text, backward=backward, hits=hits)}", flush=True)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
