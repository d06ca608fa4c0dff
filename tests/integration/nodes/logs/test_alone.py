"""One log that cannot be read or written holds up no other of its node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis

from nodes.agent.logs.pipeline import LogPipeline
from nodes.protocol.logs import signed_batch
from tests.support.cluster.agent_logs import NO_MASKS, Printed, Start, lines, reader, take_all
from tests.support.run.waiting import wait_until

pytestmark = pytest.mark.redis


def new_connection(client: redis.Redis, pipeline: LogPipeline) -> None:
    """Cuts all others' connections: after that the shipper asks of every log anew."""
    client.client_kill_filter(_type="normal", skipme=True)
    pipeline.note("a2", "a line after the cut")


def only_segment(folder: Path, attempt: str) -> Path:
    (path,) = (folder / "spool" / attempt).glob("*.seg")
    return path


def test_a_log_whose_segment_is_gone_waits_alone_and_goes_on_with_it(
    start: Start, client: redis.Redis, tmp_path: Path
) -> None:
    pipeline, lost, other = start(), Printed(lines(10)), Printed(lines(10))
    pipeline.attach("a1", lost, NO_MASKS)
    pipeline.attach("a2", other, NO_MASKS)
    wait_until(lambda: pipeline.status("a1").sent and pipeline.status("a2").sent, "both logs")
    segment = only_segment(tmp_path, "a1")
    segment.rename(tmp_path / "away")
    lost.print(*lines(10, first=10))
    wait_until(lambda: pipeline.status("a1").end == 460, "twenty lines of the lost log")
    other.print(*lines(90, first=10))
    other.end()

    take_all(reader(client, "a2"), pipeline, "a2")
    new_connection(client, pipeline)
    (tmp_path / "away").rename(segment)
    lost.end()
    log = reader(client)
    take_all(log, pipeline)
    assert log.records == lines(20)


def test_a_log_whose_segment_is_cut_in_the_middle_of_a_record_waits_alone(
    start: Start, client: redis.Redis, tmp_path: Path
) -> None:
    pipeline, torn, other = start(window=5 * 23), Printed(lines(10)), Printed(lines(5))
    pipeline.attach("a1", torn, NO_MASKS)
    pipeline.attach("a2", other, NO_MASKS)
    half, log = reader(client, "a1"), reader(client, "a2")
    wait_until(lambda: half.take() == 5 * 23 and log.take() == 5 * 23, "the windows of both logs")
    os.truncate(only_segment(tmp_path, "a1"), 4 * 23 + 5)

    new_connection(client, pipeline)
    other.print(*lines(90, first=5))
    other.end()

    take_all(log, pipeline, "a2")
    assert len(log.records) == 96


def test_a_failure_that_nobody_foresaw_does_not_end_the_sending(
    start: Start, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [LookupError("nobody foresaw this")]

    def fails_once(*batch: object) -> object:
        if failures:
            raise failures.pop()
        return signed_batch(*batch)  # type: ignore[arg-type]

    monkeypatch.setattr("nodes.agent.logs.shipper.signed_batch", fails_once)
    pipeline = start()
    pipeline.attach("a1", Printed(lines(10), ended=True), NO_MASKS)

    log = reader(client)
    take_all(log, pipeline)
    assert log.records == lines(10)
    assert not failures
