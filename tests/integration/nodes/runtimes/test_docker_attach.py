"""What a container has printed of lines without an end is heard at once, though the Engine keeps it to itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.agent.logs.base import OpenLine, Position
from nodes.agent.runtimes.docker.logs import DockerOutput
from nodes.agent.runtimes.docker.open_lines import FLUSHED
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.logs import STDERR, STDOUT, LogRecord
from tests.integration.nodes.runtimes.test_docker import runtime_of, started
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

pytestmark = pytest.mark.docker


@pytest.fixture
def runtime(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[DockerRuntime]:
    runtime = runtime_of(docker_engine, tmp_path)
    yield runtime
    runtime.close()


class Read:
    """A container's log, read in a thread as the follower does."""

    def __init__(self, source: DockerOutput) -> None:
        self.source, self.records = source, list[LogRecord]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        self.records.extend(self.source.frames(Position()))

    def open(self, stream: int = STDOUT) -> bytes:
        line = self.source.open_lines().get(stream, OpenLine(0, b""))
        return line.text[line.new :]


def test_the_last_words_of_a_container_that_hangs_are_heard_from_its_first_one_on(runtime: DockerRuntime) -> None:
    found = started(runtime, "printf 'calling'; printf ' the server ' >&2; printf ' home ...'; sleep 600")
    log = Read(runtime.source(found.attempt))
    wait_until(lambda: (log.open(), log.open(STDERR)) == (b"calling home ...", b" the server "), "the last words")
    runtime.remove(found.attempt)


def test_an_open_line_is_heard_no_more_once_it_has_its_end_or_the_container_has(runtime: DockerRuntime) -> None:
    found = started(runtime, "printf one; sleep 2; printf ' line\\ntwo'; sleep 2")
    log = Read(runtime.source(found.attempt))
    wait_until(lambda: log.open() == b"one", "the first half")
    wait_until(lambda: log.open() == b"two", "the next line")
    wait_until(lambda: len(log.records) == 2 and not log.source.open_lines(), "the end")
    assert [record.payload for record in log.records] == [b"one line\n", b"two"]


def test_of_a_line_without_end_what_the_engine_has_written_is_not_heard_twice(runtime: DockerRuntime) -> None:
    """It writes 16 kB at a time."""
    script = "head -c 40000 /dev/zero | tr '\\0' x; touch /tmp/printed; sleep 600"
    found = started(runtime, script)
    source = runtime.source(found.attempt)
    taken = list[bytes]()
    log = threading.Thread(target=lambda: taken.extend(r.payload for r in source.frames(Position())), daemon=True)
    log.start()
    rest = 40_000 % FLUSHED

    def whole() -> bool:
        line = source.open_lines().get(STDOUT, OpenLine(0, b""))
        return len(line.text) - line.new == rest

    wait_until(whole, "the rest of the line")
    runtime.remove(found.attempt)
    log.join(10)
    assert [len(payload) for payload in taken[:2]] == [FLUSHED, FLUSHED]


def test_a_later_agent_hears_what_comes_from_then_on(
    runtime: DockerRuntime, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    found = started(runtime, "printf before; while [ ! -e /tmp/on ]; do sleep 0.1; done; printf behind; sleep 600")
    first = Read(runtime.source(found.attempt))
    wait_until(lambda: first.open() == b"before", "the first half")
    later = runtime_of(docker_engine, tmp_path)
    log = Read(later.source(found.attempt))
    wait_until(lambda: log.source.open_lines().keys() == {STDOUT, STDERR}, "the later one to listen")
    with docker_engine.client() as client:
        client.containers.get(found.container).exec_run(["touch", "/tmp/on"])
    wait_until(lambda: log.source.open_lines()[STDOUT][1:] == (b"behind", 0, True), "the second half")
    later.remove(found.attempt)
    later.close()
