"""What a task has printed of a line that has no end yet is told until it has one, and is never kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from nodes.agent.logs.base import OpenLine
from nodes.agent.logs.follower import HEARD_WITHIN_S, Follower
from nodes.agent.logs.masks import Masks
from nodes.agent.logs.provisional import provisional
from nodes.agent.logs.spool import Spool
from nodes.agent.logs.stream_state import TAIL_AGAIN_S, TAIL_KEPT_S, TAIL_S, Tail
from nodes.protocol.envelope import EnvelopeForged
from nodes.protocol.logs import (
    STDERR,
    STDOUT,
    TAIL_BYTES,
    LogRecord,
    record_encode,
    records_decode,
    signed_tail,
    verified_tail,
)
from nodes.protocol.names import WAKE_CHANNEL, log_tail
from tests.support.cluster.agent_logs import KEY, NO_MASKS, NODE, Printed, Start, line, reader, text_of
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

SECRET = "hf_s3cr3tT0ken"
KEY_OF_TAIL = log_tail(NODE, "a1")


def sent(client: redis.Redis) -> tuple[int, str]:
    """(offset, text) of what is told now."""
    entries: Any = client.xrange(KEY_OF_TAIL)
    at, data = verified_tail(KEY.public, "a1", entries[0][1]) if entries else (0, b"")
    return at, text_of(list(records_decode(data)))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"calling the server ...", b"calling the server ..."),
        (b"\r 10%|#\r 20%|##", b"\r 20%|##"),
        (b" 10%|#\r 20%|##\r", b"\r 20%|##"),
        (b"whole\r", b"whole"),
        (b"x" * 9000 + b"y" * TAIL_BYTES, b"y" * TAIL_BYTES),
    ],
)
def test_of_a_line_that_was_written_over_the_newest_writing_is_shown(line: bytes, shown: bytes) -> None:
    assert provisional(OpenLine(0, line), NO_MASKS) == shown


@given(st.text("ab", max_size=10), st.integers(0, len(SECRET)), st.booleans())
def test_nothing_of_a_secret_is_ever_shown(before: str, known: int, cut: bool) -> None:
    """However much of it has come, and wherever hearing began."""
    text = f"{before}{SECRET}"[: len(before) + known].encode()
    for first in range(len(text)) if cut else (0,):
        shown = provisional(OpenLine(0, text[first:], cut=cut), Masks([SECRET]))
        assert not set(shown.decode()) - set("ab*")


def test_what_may_be_the_end_of_a_secret_whose_beginning_was_not_heard_is_hidden() -> None:
    masks = Masks([SECRET])
    line = b"x" * (masks.longest - 1) + b"y"
    assert provisional(OpenLine(0, line, cut=True), masks) == b"y"
    assert provisional(OpenLine(0, line), masks) == line


def test_a_secret_over_the_border_of_what_is_in_the_log_is_hidden() -> None:
    text = f"{'x' * 20}{SECRET} is it".encode()
    assert provisional(OpenLine(0, text, new=26), Masks([SECRET])) == b"*" * (len(SECRET) - 6) + b" is it"


def test_a_tail_is_told_each_half_second_at_most_and_again_before_it_is_forgotten() -> None:
    tail, begun = Tail(), 1000.0
    assert not tail.due(begun)
    tail.wanted = (10, b"a")
    assert tail.due(begun)
    tail.sent, tail.sent_at = tail.wanted, begun
    tail.wanted = (20, b"a")
    assert [tail.due(begun + s) for s in (0.9 * TAIL_S, TAIL_S)] == [False, True]
    tail.sent, tail.sent_at = tail.wanted, begun
    assert [tail.due(begun + s) for s in (TAIL_S, TAIL_AGAIN_S)] == [False, True]
    tail.wanted = (30, b"")
    assert tail.due(begun + TAIL_S)
    tail.sent, tail.sent_at = tail.wanted, begun
    tail.wanted = (40, b"")
    assert not tail.due(begun + TAIL_AGAIN_S)


@pytest.mark.redis
def test_what_has_no_end_is_told_and_replaced_and_never_in_the_log(start: Start, client: redis.Redis) -> None:
    pipeline, source, log = start(), Printed(), reader(client)
    pipeline.attach("a1", source, Masks([SECRET]))
    source.open = {STDOUT: OpenLine(time.time_ns(), f"\r 10% {SECRET} ".encode())}
    wait_until(lambda: sent(client) == (0, f"\r 10% {'*' * len(SECRET)} "), "the first tail")
    source.open = {STDOUT: OpenLine(time.time_ns(), b"\r 20%"), STDERR: OpenLine(time.time_ns(), b"loading")}
    wait_until(lambda: sent(client) == (0, "\r 20%loading"), "the next one")
    assert 0 < client.ttl(KEY_OF_TAIL) <= TAIL_KEPT_S
    assert client.xlen(KEY_OF_TAIL) == 1
    with client.pubsub() as hints:  # type: ignore[no-untyped-call]
        hints.subscribe(WAKE_CHANNEL)
        wait_until(lambda: hints.get_message(), "to listen")
        source.open = {STDOUT: OpenLine(time.time_ns(), b"\r 30%")}
        hint: Any = wait_until(lambda: hints.get_message(ignore_subscribe_messages=True), "a hint")
        assert hint["data"] == b"a1 tail"

    source.open = {}
    source.print(line(time.time_ns(), "done\n"))
    wait_until(lambda: sent(client) == (18, ""), "the line in its place")
    log.take()
    assert text_of(log.records) == "done\n"

    source.open = {STDOUT: OpenLine(time.time_ns(), b"last words")}
    wait_until(lambda: sent(client) == (18, "last words"), "what hangs")
    source.end()
    wait_until(lambda: sent(client) == (18, ""), "the end")


@pytest.mark.redis
def test_what_has_no_end_is_told_to_a_redis_that_came_back_empty(start: Start, redis_server: RedisServer) -> None:
    pipeline, source = start(), Printed()
    pipeline.attach("a1", source, NO_MASKS)
    source.open = {STDOUT: OpenLine(time.time_ns(), b"calling ...")}
    with redis.Redis.from_url(redis_server.url) as before:
        wait_until(lambda: sent(before)[1] == "calling ...", "the tail")
    redis_server.restart_empty()
    with redis.Redis.from_url(redis_server.url) as after:
        wait_until(lambda: sent(after)[1] == "calling ...", "the tail once more", deadline_s=TAIL_AGAIN_S / 2)


def test_of_a_stream_whose_record_has_just_come_nothing_is_told(tmp_path: Path) -> None:
    """Its line may still be heard without the end that it has by now."""
    moments, source, spool = [100.0], Printed(), Spool(tmp_path / "a1")
    follower = Follower(
        "a1", source, spool, masks=NO_MASKS, marker=tmp_path / "frozen", wake=lambda: None,
        monotonic=lambda: moments[0],
    )  # fmt: skip
    follower.start()
    source.open = {STDOUT: OpenLine(1, b"half a line"), STDERR: OpenLine(1, b"bar")}
    source.print(line(time.time_ns(), "half a line, whole\n"))
    wait_until(lambda: spool.end, "the record")
    assert text_of(list(records_decode(follower.tail()[1]))) == "bar"
    moments[0] += 2 * HEARD_WITHIN_S
    assert text_of(list(records_decode(follower.tail()[1]))) == "half a linebar"
    follower.close()


@pytest.mark.redis
def test_what_is_heard_a_moment_late_is_not_told_beside_its_record(start: Start, client: redis.Redis) -> None:
    pipeline, source = start(), Printed()
    pipeline.attach("a1", source, NO_MASKS)
    source.open = {STDERR: OpenLine(time.time_ns(), b"bar"), STDOUT: OpenLine(time.time_ns(), b"half a line")}
    wait_until(lambda: sent(client)[1] == "half a linebar", "both")
    source.print(line(time.time_ns(), "half a line, whole\n"))
    source.open = {STDERR: OpenLine(time.time_ns(), b"bar")}
    wait_until(lambda: sent(client) == (32, "bar"), "the other one alone")


def test_a_tail_that_its_node_has_not_signed_is_none() -> None:
    fields = {name.encode(): value for name, value in signed_tail(KEY, "a1", 5, b"data").items()}
    assert verified_tail(KEY.public, "a1", fields) == (5, b"data")
    for name, other in ((b"at", b"6"), (b"data", b"other"), (b"at", b"x"), (b"at", b"9" * 100)):
        with pytest.raises(EnvelopeForged):
            verified_tail(KEY.public, "a1", fields | {name: other})
    with pytest.raises(EnvelopeForged):
        verified_tail(KEY.public, "a2", fields)


@pytest.mark.parametrize(("more", "taken"), [(0, True), (1, False)])
def test_no_more_is_taken_of_a_server_than_two_lines_can_be(more: int, taken: bool) -> None:
    texts = {STDOUT: b"x" * TAIL_BYTES, STDERR: b"x" * (TAIL_BYTES + more)}
    data = b"".join(record_encode(LogRecord(1, stream, text)) for stream, text in texts.items())
    entry = {name.encode(): value for name, value in signed_tail(KEY, "a1", 23, data).items()}
    if taken:
        assert verified_tail(KEY.public, "a1", entry) == (23, data)
    else:
        with pytest.raises(EnvelopeForged):
            verified_tail(KEY.public, "a1", entry)
