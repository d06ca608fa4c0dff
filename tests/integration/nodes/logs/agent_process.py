"""An agent's log pipeline as a process of its own, over a file that stands for a container's output:
``python -m tests.integration.nodes.logs.agent_process FOLDER REDIS_URL KEY OUTPUT``. Complete once ``OUTPUT.end`` is
there."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import STDOUT, LogRecord
from tests.support.cluster.agent_logs import NO_MASKS, NODE


class GrowingFile:
    """A frame source that resumes by the bytes already taken."""

    def __init__(self, path: Path) -> None:
        self._path, self._ended = path, path.with_suffix(".end")
        self._closed = threading.Event()

    def frames(self, after: Position) -> Iterator[LogRecord]:
        with self._path.open("rb") as file:
            file.seek(after.payload_bytes.get(STDOUT, 0))
            while not self._closed.is_set():
                over = self._ended.exists()
                for line in file:
                    yield LogRecord(time.time_ns(), STDOUT, line)
                if over:
                    return
                self._closed.wait(0.01)

    def open_lines(self) -> dict[int, OpenLine]:
        return {}

    def missing(self) -> str:
        return ""

    def freeze(self) -> None:
        """A file does not run."""

    def thaw(self) -> None:
        """A file does not run."""

    def close(self) -> None:
        self._closed.set()


def main(folder: str, url: str, key: str, output: str) -> None:
    pipeline = LogPipeline(folder=Path(folder), node=NODE, key=NodeKey.load(key), redis_url=url, window=1 << 30)
    pipeline.attach("a1", GrowingFile(Path(output)), NO_MASKS)
    while not pipeline.status("a1").complete:
        time.sleep(0.05)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
