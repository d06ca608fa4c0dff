"""From the container to Redis: whatever breaks on the way, a reader by offset gets the log whole, once, in order."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from nodes.agent.logs.base import MAX_PAYLOAD
from nodes.agent.logs.masks import MOST, Masks
from nodes.agent.logs.pipeline import TOO_MANY, LogPipeline
from nodes.protocol.accounts import node_account_rules
from nodes.protocol.logs import MARK, STDERR, STDOUT, LogRecord
from nodes.protocol.names import WAKE_CHANNEL
from tests.support.cluster.agent_logs import KEY, NO_MASKS, NODE, Printed, Start, line, lines, reader, take_all, text_of
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.redis

WINDOW = 1 << 20


def test_a_line_reaches_redis_with_a_hint_while_the_container_runs(start: Start, client: redis.Redis) -> None:
    hints: Any = client.pubsub()  # type: ignore[no-untyped-call]
    hints.subscribe(WAKE_CHANNEL)
    pipeline, source, log = start(), Printed(), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    source.print(line(time.time_ns(), "epoch 1\n"))

    wait_until(lambda: log.take() == 21, "the line")
    hint = wait_until(lambda: hints.get_message(ignore_subscribe_messages=True), "the hint")
    assert text_of(log.records) == "epoch 1\n"
    assert hint["data"] == b"a1 21"
    assert not pipeline.status("a1").complete
    hints.close()


def test_a_log_that_ended_is_complete_and_whole(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    pipeline.attach("a1", Printed(lines(5000), ended=True), NO_MASKS)
    take_all(log, pipeline)

    assert log.records == lines(5000)
    assert pipeline.status("a1").tail.endswith("000004999\n")


def test_at_most_the_window_lies_in_redis_until_it_is_archived(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(window=10_000), reader(client)
    pipeline.attach("a1", Printed(lines(5000), ended=True), NO_MASKS)
    wait_until(lambda: pipeline.status("a1").complete, "the spool to have it all")
    wait_until(lambda: log.take() > 9_900, "the window to fill")
    log.take()
    assert log.offset <= 10_000

    take_all(log, pipeline)
    assert log.records == lines(5000)


def test_trimming_alone_makes_room_before_the_acknowledgement_comes(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(window=10_000), reader(client)
    pipeline.attach("a1", Printed(lines(5000), ended=True), NO_MASKS)

    def drained() -> bool:
        log.take()
        log.trim()
        return log.offset == 23 * 5000

    wait_until(drained, "the whole log", every_s=0.01)
    assert log.records == lines(5000)


def test_a_stream_that_vanished_is_filled_again_from_the_acknowledged_offset(start: Start, client: redis.Redis) -> None:
    pipeline, source, log, first = start(), Printed(lines(1000)), reader(client), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: first.take() == 23_000, "the first lines")
    client.delete(log.key)
    source.print(*lines(1000, first=1000))
    source.end()
    take_all(log, pipeline)

    assert log.records == lines(2000)


def test_what_was_acknowledged_is_not_sent_again(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(), Printed(lines(1000)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: log.take() == 23_000, "the first lines")
    pipeline.ack("a1", 23_000)
    client.delete(log.key)
    source.print(*lines(10, first=1000))
    wait_until(lambda: log.take() == 23_230, "the next lines")

    entries: Any = client.xrange(log.key)
    assert sum(len(fields[b"data"]) for _, fields in entries) == 230


def test_a_stream_that_somebody_else_spoiled_is_made_anew(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(), Printed(lines(10)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: log.take() == 230, "the first lines")
    pipeline.ack("a1", 230)
    client.xadd(log.key, {"data": "all is well", "sig": "none"}, id="1000000-0")  # no smaller id can be added now
    source.print(*lines(10, first=10))

    def made_anew() -> bool:
        with contextlib.suppress(redis.ResponseError):  # for a moment there is none
            return bool(client.xinfo_stream(log.key)["last-generated-id"] == b"460-0")
        return False

    wait_until(made_anew, "the stream to be made anew")
    source.end()
    take_all(log, pipeline)

    assert log.records == lines(20)


def test_a_silent_log_is_filled_again_too(start: Start, client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.agent.logs.shipper.CHECK_S", 0.1)
    pipeline, source, log = start(), Printed(lines(10)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: client.xlen(log.key), "the stream")
    client.delete(log.key)

    wait_until(lambda: log.take() == 230, "the stream to be filled again")
    assert log.records == lines(10)


def test_a_redis_killed_and_restarted_empty_costs_no_line(
    start: Start, redis_server: RedisServer, client: redis.Redis
) -> None:
    pipeline, source, log = start(), Printed(lines(3000)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: log.take(limit=1) >= 23, "the first entry")
    log.trim()
    pipeline.ack("a1", log.offset)
    redis_server.kill()
    source.print(*lines(3000, first=3000))
    redis_server.restart_empty()
    source.print(*lines(3000, first=6000))
    source.end()
    take_all(log, pipeline)

    assert log.records == lines(9000)


def test_a_redis_that_comes_back_with_older_data_gets_what_it_lacks(
    start: Start, redis_server: RedisServer, client: redis.Redis
) -> None:
    pipeline, source, log = start(), Printed(lines(10)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: client.xlen(log.key), "the first lines")
    old = wait_until(lambda: client.xinfo_stream(log.key)["length"] and client.dump(log.key), "a copy of the stream")
    source.print(*lines(10, first=10))
    wait_until(lambda: log.take() == 460, "twenty lines")
    redis_server.restart_empty()
    client.restore(log.key, 0, old, replace=True)
    source.print(*lines(10, first=20))
    source.end()

    again = reader(client)
    take_all(again, pipeline)
    assert again.records == lines(30)


def test_a_redis_that_is_away_stops_no_container_and_loses_nothing(
    start: Start, redis_server: RedisServer, client: redis.Redis
) -> None:
    redis_server.kill()
    pipeline, source, log = start(), Printed(lines(2000), ended=True), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: pipeline.status("a1").complete, "the spool to have it all")
    redis_server.start_empty()  # a killed one may have lost that it was emptied after an earlier test
    take_all(log, pipeline)

    assert log.records == lines(2000)


def test_a_reader_that_sleeps_finds_the_rest_when_it_wakes(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(window=5_000), Printed(), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    for n in range(20):
        source.print(*lines(200, first=200 * n))
        if n % 7 == 3:  # it sleeps, and takes a few entries in between
            log.take(limit=2)
            log.trim()
    source.end()
    take_all(log, pipeline)

    assert log.records == lines(4000)


def test_a_later_agent_takes_the_log_up_where_the_first_one_left_it(start: Start, client: redis.Redis) -> None:
    first, log = start(), reader(client)
    first.attach("a1", Printed(lines(700)), NO_MASKS)
    wait_until(lambda: log.take() > 0, "the first lines")
    first.close()
    second = start()
    second.attach("a1", Printed(lines(2000), ended=True), NO_MASKS)
    take_all(log, second)

    assert log.records == lines(2000)


def test_a_second_source_for_the_same_attempt_changes_nothing(start: Start, client: redis.Redis) -> None:
    pipeline, second, log = start(), Printed(lines(99), ended=True), reader(client)
    pipeline.attach("a1", Printed(lines(50), ended=True), NO_MASKS)
    pipeline.attach("a1", second, NO_MASKS)
    take_all(log, pipeline)

    assert log.records == lines(50)
    assert second.closed


def test_an_output_that_cannot_be_read_for_a_moment_is_read_again(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(), Printed(lines(10), ended=True), reader(client)
    source.failures = [ConnectionError("the Engine restarts"), OSError("and again")]
    pipeline.attach("a1", source, NO_MASKS)
    take_all(log, pipeline)

    assert log.records == lines(10)
    assert source.reads == 3


def test_a_line_without_end_is_cut_into_records_and_stays_whole(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    payload = bytes(range(256)) * 4096  # 1 MiB with NULs, escape sequences and no UTF-8
    pipeline.attach("a1", Printed([LogRecord(1, STDOUT, payload)], ended=True), NO_MASKS)
    take_all(log, pipeline)

    assert b"".join(record.payload for record in log.records) == payload
    assert max(len(record.payload) for record in log.records) == MAX_PAYLOAD


def test_beyond_the_limit_lines_are_dropped_counted_and_marked(
    start: Start, redis_server: RedisServer, client: redis.Redis
) -> None:
    redis_server.kill()
    pipeline, source, log = start(spool_limit=23 * 100), Printed(lines(150)), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: pipeline.status("a1").dropped_lines == 50, "lines to be dropped")
    redis_server.start()
    source.end()
    take_all(log, pipeline)

    assert log.records[:100] == lines(100)
    assert text_of(log.records[100:]) == "… 50 lines dropped here: the portal was away\n"
    assert pipeline.status("a1").dropped_lines == 50


def test_lines_that_come_faster_than_the_portal_takes_them_are_told_so(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(spool_limit=23 * 100, window=23), Printed(), reader(client)
    pipeline.attach("a1", source, NO_MASKS)
    pipeline.ack("a1", 0)
    source.print(*lines(150))
    wait_until(lambda: pipeline.status("a1").dropped_lines == 50, "lines to be dropped")
    source.end()
    take_all(log, pipeline)

    assert text_of(log.records[100:]) == "… 50 lines dropped here: they came faster than the portal takes them\n"


def test_notes_stand_in_the_log_as_marks(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(), Printed(lines(3)), reader(client)
    pipeline.note("a1", "image resolved")
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: log.take() >= 23 * 3 + 13 + 15, "the lines")
    pipeline.note("a1", "preempted by prod/job#3 of team vision")
    source.end()
    take_all(log, pipeline)

    assert text_of(log.records) == f"image resolved\n{text_of(lines(3))}preempted by prod/job#3 of team vision\n"
    assert [record.stream for record in log.records] == [MARK, STDOUT, STDOUT, STDOUT, MARK]


def test_a_log_without_a_container_is_complete_with_its_notes(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    pipeline.note("a1", "the image is not in its registry")
    assert not pipeline.status("a1").complete
    pipeline.finish("a1")
    pipeline.note("a1", "too late")
    take_all(log, pipeline)

    assert text_of(log.records) == "the image is not in its registry\n"


def test_a_removed_log_is_gone_from_the_disk_and_is_not_sent(start: Start, tmp_path: Path, client: redis.Redis) -> None:
    pipeline, source = start(), Printed(lines(3))
    pipeline.attach("a1", source, NO_MASKS)
    pipeline.remove("a1")

    assert source.closed
    assert list((tmp_path / "spool").iterdir()) == []
    assert pipeline.status("a1").end == 0


def test_an_account_that_reaches_only_its_nodes_own_logs_is_enough(
    tmp_path: Path, redis_server: RedisServer, client: redis.Redis
) -> None:
    rules = ["on", ">secret", *node_account_rules(NODE)]
    client.execute_command("ACL", "SETUSER", NODE, *rules)  # type: ignore[no-untyped-call]
    url = redis_server.url.replace("redis://", f"redis://{NODE}:secret@")
    pipeline = LogPipeline(folder=tmp_path / "spool", node=NODE, key=KEY, redis_url=url, window=2000)
    log = reader(client)
    try:
        pipeline.attach("a1", Printed(lines(1000), ended=True), NO_MASKS)
        wait_until(lambda: log.take() > 0, "the first lines")
        client.delete(log.key)
        take_all(log, pipeline)
    finally:
        pipeline.close()
        client.execute_command("ACL", "DELUSER", NODE)  # type: ignore[no-untyped-call]

    assert log.records == lines(1000)


def test_one_flooding_log_does_not_hold_up_another(start: Start, client: redis.Redis) -> None:
    pipeline, quiet, log = start(), Printed(), reader(client, "quiet")
    pipeline.attach(
        "flood", Printed([LogRecord(n, STDOUT, b"x" * 60_000) for n in range(1, 400)], ended=True), NO_MASKS
    )
    pipeline.attach("quiet", quiet, NO_MASKS)
    quiet.print(line(1, "here\n"))

    wait_until(lambda: log.take() == 18, "the quiet log's line", deadline_s=5)


# ---------------------------------------------------------------- back-pressure


def old_lines(number: int) -> list[LogRecord]:
    """Lines printed a minute ago."""
    then = time.time_ns() - 60_000_000_000
    return [line(then + n, f"{n}\n") for n in range(number)]


class Slow(Printed):
    """Output that is read slowly, so that its reader stays behind."""

    def frames(self, after):  # type: ignore[no-untyped-def]
        for record in super().frames(after):
            time.sleep(0.01)
            yield record


def test_a_reader_far_behind_freezes_the_container_until_it_has_caught_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.agent.logs.follower.BEHIND_S", 0.1)
    pipeline, source = start(), Slow(old_lines(60))
    pipeline.attach("a1", source, NO_MASKS)

    wait_until(lambda: source.frozen and pipeline.status("a1").frozen, "the container to stand still")
    wait_until(lambda: not source.frozen and not pipeline.status("a1").frozen, "the container to run again")
    assert pipeline.status("a1").end == sum(record.size for record in source.records)


def test_a_short_old_backlog_freezes_nothing(start: Start) -> None:
    pipeline, source = start(), Printed(old_lines(100))
    source.freeze = lambda: pytest.fail("it was frozen")  # type: ignore[method-assign]
    pipeline.attach("a1", source, NO_MASKS)

    wait_until(lambda: pipeline.status("a1").tail.endswith("99\n"), "the backlog")
    source.print(line(time.time_ns(), "new\n"))
    wait_until(lambda: pipeline.status("a1").tail.endswith("new\n"), "the new line")


def test_an_agent_that_is_closed_leaves_no_container_frozen(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.agent.logs.follower.BEHIND_S", 0.1)
    pipeline, source = start(), Slow(old_lines(5000))
    pipeline.attach("a1", source, NO_MASKS)
    wait_until(lambda: source.frozen, "the container to stand still")
    pipeline.close()

    assert not source.frozen


def test_a_container_that_a_killed_agent_left_frozen_is_thawed(start: Start, tmp_path: Path) -> None:
    (tmp_path / "spool" / "a1").mkdir(parents=True)
    (tmp_path / "spool" / "a1" / "frozen").touch()
    pipeline, source = start(), Printed(lines(3))
    source.frozen = True
    pipeline.attach("a1", source, NO_MASKS)

    wait_until(lambda: not source.frozen, "the container to run again")
    assert not (tmp_path / "spool" / "a1" / "frozen").exists()


# ---------------------------------------------------------------- a disk that takes nothing


class SmallDisk:
    """Stands before ``os.write``: while ``error`` is set nothing is written, and ``refused`` counts that by error."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.refused: Counter[Exception] = Counter()
        self._real = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if (error := self.error) is not None:
            self.refused[error] += 1
            raise error
        return self._real(fd, data)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("then", [None, MemoryError("what nobody foresaw")])
def test_a_container_stands_still_while_its_log_cannot_be_written_and_then_runs_on(
    start: Start, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, then: Exception | None
) -> None:
    pipeline, source, disk = start(), Printed(), SmallDisk()
    monkeypatch.setattr(os, "write", disk)
    pipeline.attach("a1", source, NO_MASKS)
    disk.error = FULL
    wait_until(lambda: printed_one_more(source).frozen, "the container to stand still")
    if then is not None:
        disk.error = then
        wait_until(lambda: disk.refused[then] >= 4, "other failures")
    disk.error = None
    wait_until(lambda: not source.frozen, "the container to run again")
    printed_one_more(source)
    source.end()

    log = reader(client)
    take_all(log, pipeline)
    assert log.records == source.records


def printed_one_more(source: Printed) -> Printed:
    source.print(*lines(1, first=len(source.records)))
    return source


# ---------------------------------------------------------------- a machine started anew


def test_after_a_start_of_the_machine_the_log_goes_on_behind_what_redis_has(
    start: Start, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nodes.agent.logs.spool.machine_boot", lambda: "one")
    first, log = start(), reader(client)
    first.attach("a1", Printed(lines(100)), NO_MASKS)
    wait_until(lambda: log.take() == 2300, "a hundred lines")
    first.close()
    segment = max((tmp_path / "spool" / "a1").glob("*.seg"))
    segment.write_bytes(segment.read_bytes()[:230])  # the disk kept ten of them
    (tmp_path / "spool" / "a1" / "state.json").write_text('{"boot": "one"}')

    monkeypatch.setattr("nodes.agent.logs.spool.machine_boot", lambda: "two")
    second = start()
    second.attach("a1", Printed(lines(120), ended=True), NO_MASKS)
    second.ack("a1", 0)
    take_all(log, second)

    assert log.records[:100] == lines(100)
    assert log.records[100].payload.startswith("… this node was started anew".encode())
    assert log.records[101:] == lines(110, first=10)


# ---------------------------------------------------------------- secrets


def test_a_secret_is_hidden_before_anything_is_sent_or_told(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    printed = [line(1, "token hunter2"), line(2, "hunter2 is set\n"), line(3, "bye hunter2hunter2")]
    pipeline.attach("a1", Printed(printed, ended=True), Masks(["hunter2hunter2"]))
    take_all(log, pipeline)
    assert text_of(log.records) == f"token {'*' * 14} is set\nbye {'*' * 14}"
    assert pipeline.status("a1").tail == text_of(log.records)


def test_an_unfinished_line_is_sent_though_nothing_comes_behind_it(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    source = Printed([line(1, "Loading h"), line(2, "a warning\n", STDERR)])
    pipeline.attach("a1", source, Masks(["hunter2hunter2"]))
    wait_until(lambda: log.take() and len(log.records) == 2, "both")
    source.print(line(3, "unter2hunter2\n"))
    source.end()
    take_all(log, pipeline)
    assert [record.payload for record in log.records] == [b"Loading h", b"a warning\n", b"*************\n"]


def test_an_agent_that_goes_on_within_a_secret_shows_no_half_of_it(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    source = Printed([line(1, "token hunter2")])
    pipeline.attach("a1", source, Masks(["hunter2hunter2"]))
    wait_until(lambda: log.take(), "the beginning")
    pipeline.close()
    again, second = start(), Printed([*source.records, line(2, "hunter2 is set\n"), line(3, "next\n")], ended=True)
    again.attach("a1", second, Masks(["hunter2hunter2"]))
    take_all(log, again)
    assert text_of(log.records) == f"token {'*' * 21}\nnext\n"


def test_a_log_says_that_not_all_is_hidden_where_that_is_too_much(start: Start, client: redis.Redis) -> None:
    pipeline, log = start(), reader(client)
    masks = Masks(f"secret-{number:05d}" for number in range(MOST))
    pipeline.attach("a1", Printed([line(1, "secret-00001\n")], ended=True), masks)
    take_all(log, pipeline)
    assert text_of(log.records) == f"{TOO_MANY}************\n"
