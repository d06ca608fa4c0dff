"""From a container on a node to files and readers: nothing lost, nothing twice, in order, whatever breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from pytest_django.fixtures import Settings

from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import STDERR, STDOUT, LogRecord, record_encode, records_decode, signed_batch
from nodes.protocol.states import Phase
from tests.support.cluster.agent_logs import line, lines, text_of
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from portal.logs.stream import LogOf
    from tests.integration.logs.conftest import RunningLog

pytestmark = pytest.mark.django_db


def test_a_whole_log_is_archived_and_read_back_as_it_was_written(running_log: RunningLog) -> None:
    running_log.source.print(*lines(2000), line(9999, "and an error\n", STDERR))
    running_log.source.end()
    running_log.archive_all()

    assert running_log.text() == text_of([*lines(2000), line(9999, "and an error\n")])
    assert running_log.redis.xlen(running_log.log.key) == 0


def test_the_archived_log_lets_the_node_remove_the_container(running_log: RunningLog) -> None:
    from nodes.protocol.states import ContainerState

    running_log.source.print(*lines(3))
    running_log.source.end()
    type(running_log.row).objects.update(state=ContainerState.TERMINATED)
    running_log.archive_all()

    assert running_log.row.phase == Phase.REMOVE


def test_a_reader_sees_the_archived_part_and_the_fresh_part_as_one(running_log: RunningLog) -> None:
    running_log.source.print(*lines(1000))
    running_log.sent(23_000)
    running_log.archiver.step(running_log.row.pk)
    running_log.source.print(*lines(1000, first=1000))
    running_log.sent(46_000)

    assert running_log.archive.end(running_log.attempt) == 23_000
    assert running_log.text() == text_of(lines(2000))


@pytest.mark.parametrize("offset", [0, 1, 22, 23, 22_999, 23_000, 23_001, 45_977, 45_999])
def test_any_offset_is_rounded_down_to_a_record_on_both_sides(running_log: RunningLog, offset: int) -> None:
    running_log.source.print(*lines(1000))
    running_log.sent(23_000)
    running_log.archiver.step(running_log.row.pk)
    running_log.source.print(*lines(1000, first=1000))
    running_log.sent(46_000)

    run = running_log.reader.read(running_log.log, offset, 46)
    assert run.start == offset // 23 * 23
    records = list(records_decode(run.data))
    assert records
    assert records == lines(2000)[offset // 23 : offset // 23 + len(records)]


def test_at_the_end_there_is_nothing_to_read_and_the_offset_stays(running_log: RunningLog) -> None:
    running_log.source.print(*lines(10))
    running_log.sent(230)

    run = running_log.reader.read(running_log.log, 230, 1000)
    assert (run.start, run.data) == (230, b"")


def test_the_tail_is_a_boundary_near_the_end(running_log: RunningLog) -> None:
    running_log.source.print(*lines(100))
    running_log.sent(2300)

    assert running_log.reader.tail(running_log.log, 100) == 2185
    assert running_log.reader.tail(running_log.log, 10_000) == 0


def test_redis_killed_and_restarted_empty_between_archiving_costs_nothing(
    running_log: RunningLog, redis_server: RedisServer
) -> None:
    running_log.source.print(*lines(1000))
    running_log.sent(23_000)
    running_log.archiver.step(running_log.row.pk)
    running_log.source.print(*lines(1000, first=1000))
    redis_server.restart_empty()
    running_log.source.print(*lines(1000, first=2000))
    running_log.source.end()
    running_log.archive_all()

    assert running_log.text() == text_of(lines(3000))


def test_what_is_archived_is_read_while_redis_is_away(running_log: RunningLog, redis_server: RedisServer) -> None:
    running_log.source.print(*lines(1000))
    running_log.source.end()
    running_log.archive_all()
    redis_server.kill()

    assert running_log.text() == text_of(lines(1000))
    assert running_log.reader.tail(running_log.log, 100) == 22_885


def test_what_is_not_archived_is_missed_in_words_while_redis_is_away(
    running_log: RunningLog, redis_server: RedisServer
) -> None:
    running_log.source.print(*lines(10))
    running_log.sent(230)
    redis_server.kill()

    with pytest.raises(redis.RedisError):
        running_log.text()


def test_an_agent_restarted_in_between_costs_nothing(running_log: RunningLog) -> None:
    running_log.source.print(*lines(500))
    running_log.sent(500)
    running_log.pipeline.close()
    running_log.source.closed = False
    running_log.source.print(*lines(500, first=500))
    running_log.start_agent()
    running_log.source.end()
    running_log.archive_all()

    assert running_log.text() == text_of(lines(1000))


def test_an_archiver_killed_before_it_could_say_so_leaves_nothing_to_do_twice(running_log: RunningLog) -> None:
    from portal.logs.stream import read_stream

    running_log.source.print(*lines(1000))
    running_log.sent(23_000)
    run = read_stream(running_log.redis, running_log.log, 0, 4600)
    running_log.archive.write(running_log.attempt, run)  # and here it was killed
    running_log.source.end()
    running_log.archive_all()

    assert running_log.archive.segments(running_log.attempt) == [0, 4600]
    assert running_log.text() == text_of(lines(1000))


def test_only_one_archiver_works_on_a_log_at_a_time(running_log: RunningLog) -> None:
    running_log.source.print(*lines(10))
    running_log.sent(230)
    running_log.redis.set(f"berth:portal:archiver:{running_log.row.pk}", "another", ex=30)

    assert not running_log.archiver.step(running_log.row.pk)
    assert running_log.archive.end(running_log.attempt) == 0
    running_log.redis.delete(f"berth:portal:archiver:{running_log.row.pk}")
    running_log.archiver.step(running_log.row.pk)
    assert running_log.archive.end(running_log.attempt) == 230


def test_of_two_who_say_how_far_it_is_archived_the_first_is_right(running_log: RunningLog) -> None:
    from portal.logs.archiver import archived_to_move

    assert archived_to_move(row=running_log.row, old=0, new=100, begin=40)
    assert not archived_to_move(row=running_log.row, old=0, new=50, begin=0)
    running_log.row.refresh_from_db()
    assert (running_log.row.archived_to, running_log.row.archive_gaps) == (100, 40)


def forge(running_log: RunningLog, start: int, text: str) -> int:
    """An entry that somebody else has put into the stream; its end."""
    data = record_encode(LogRecord(1, STDOUT, text.encode()))
    fields: Any = signed_batch(NodeKey.generate(), running_log.attempt, start, data)
    running_log.redis.xadd(running_log.log.key, fields, id=f"{start + len(data)}-0")
    return start + len(data)


def test_a_forged_entry_is_dropped_and_counted_and_the_true_log_is_kept(running_log: RunningLog) -> None:
    from portal.logs.archiver import FORGED

    before = FORGED._value.get()
    running_log.source.print(*lines(10))
    running_log.sent(230)
    forge(running_log, 230, "all is well\n")
    running_log.source.print(*lines(10, first=10))
    running_log.source.end()
    running_log.archive_all()

    assert running_log.text() == text_of(lines(20))
    assert FORGED._value.get() == before + 1


def put_by_its_node(running_log: RunningLog, what: str) -> None:
    """Instead of the log; the node says that it is complete."""
    log, data = running_log.log, record_encode(LogRecord(1, STDOUT, b"x"))
    if what == "another kind of key":
        running_log.redis.lpush(log.key, "x")
    else:
        end = ENDS[what]
        fields: Any = signed_batch(running_log.node.key, log.attempt, end - len(data), data)
        running_log.redis.xadd(log.key, fields, id=f"{end}-0")
    type(running_log.row).objects.filter(pk=running_log.row.pk).update(log_complete=True, log_end=1)


def beside(running_log: RunningLog) -> LogOf:
    """The whole log of another node's task, which is due."""
    from portal.logs.archiver import log_of

    node = running_log.world.node("gpu00")
    row, data = running_log.task_attempt(node), record_encode(LogRecord(1, STDOUT, b"mine\n"))
    type(row).objects.filter(pk=row.pk).update(log_complete=True, log_end=len(data))
    log = log_of(row)
    fields: Any = signed_batch(node.key, log.attempt, 0, data)
    running_log.redis.xadd(log.key, fields, id=f"{len(data)}-0")
    return log


ENDS = {"an offset that no column holds": (1 << 64) - 1, "an offset that no log reaches": (1 << 50) + 1}


@pytest.mark.parametrize("what", ["another kind of key", *ENDS])
def test_what_a_node_puts_into_redis_keeps_nobody_elses_log_back(
    running_log: RunningLog, settings: Settings, what: str
) -> None:
    from portal.logs.archiver import archive_sweep

    settings.LOG_DIR = running_log.archive.folder
    running_log.pipeline.close()
    log = beside(running_log)
    for _ in range(2):  # a gap is accepted when it comes again
        put_by_its_node(running_log, what)
        archive_sweep(now=running_log.world.now)
    assert b"".join(running_log.reader.download(log)) == b"mine\n"
    assert running_log.archive.end(log.attempt) > 0
    assert running_log.archive.segments(running_log.attempt) == []


def test_a_forged_entry_is_never_shown(running_log: RunningLog) -> None:
    running_log.source.print(*lines(10))
    running_log.sent(230)
    end = forge(running_log, 230, "all is well\n")

    assert running_log.reader.read(running_log.log, 0, 10_000).end == 230
    assert running_log.reader.read(running_log.log, 230, 10_000).data == b""
    assert end > 230


def test_a_gap_is_asked_for_again_and_accepted_when_it_stays(running_log: RunningLog) -> None:
    running_log.pipeline.close()
    for start in (0, 500):
        data = record_encode(LogRecord(1, STDOUT, f"from {start}\n".encode()))
        fields: Any = signed_batch(running_log.node.key, running_log.attempt, start, data)
        running_log.redis.xadd(running_log.log.key, fields, id=f"{start + len(data)}-0")
    running_log.archiver.step(running_log.row.pk)
    running_log.archiver.step(running_log.row.pk)
    assert running_log.redis.exists(running_log.log.key) == 0  # its node shall fill it again

    running_log.redis.xadd(running_log.log.key, fields, id=f"{500 + len(data)}-0")  # and has no more than that
    running_log.archiver.step(running_log.row.pk)

    assert running_log.archive.end(running_log.attempt) == 500 + len(data)
    running_log.row.refresh_from_db()
    assert running_log.row.archive_gaps == 500 - len(data) + 2, "they count for nothing where logs have a quota"
    assert running_log.text() == f"from 0\n… {500 - len(data) + 2} bytes of this log are lost\nfrom 500\n"


def test_a_log_whose_next_part_is_yet_to_come_stays_as_long_as_its_node_told(running_log: RunningLog) -> None:
    running_log.source.print(*lines(1000))
    running_log.sent(23_000)
    running_log.pipeline.close()
    type(running_log.row).objects.update(log_end=46_000, log_complete=True)
    for _ in range(3):
        running_log.archiver.step(running_log.row.pk)
    running_log.row.refresh_from_db()
    assert (running_log.row.archived_to, running_log.row.log_end, running_log.row.log_complete) == (
        23_000,
        46_000,
        True,
    )


def test_an_archive_that_was_restored_gets_again_what_the_node_still_has(
    running_log: RunningLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.node_orders.services.restored import logs_told_anew

    monkeypatch.setattr("portal.logs.archiver.STILL_S", 0)

    for end in (23_000, 46_000):
        running_log.source.print(*lines(1000, first=end // 23 - 1000))
        running_log.sent(end)
        running_log.report()
        running_log.archiver.step(running_log.row.pk)
        running_log.pipeline.ack(running_log.attempt, end)

    (running_log.archive.path(running_log.attempt) / f"{23_000:020d}.rec.gz").unlink()
    type(running_log.row).objects.update(archived_to=23_000)
    logs_told_anew()
    running_log.source.end()  # and it has nothing more to say
    running_log.archive_all()

    assert running_log.text() == text_of(lines(2000))


def test_logs_are_due_when_they_are_complete_or_long_or_it_is_their_turn(running_log: RunningLog) -> None:
    from portal.logs.archiver import WORTHWHILE, logs_due

    rows = type(running_log.row).objects
    every = 150
    turn = running_log.row.pk.int % every

    assert list(logs_due(tick=turn, every=every)) == [running_log.row]
    assert not logs_due(tick=turn + 1, every=every)
    rows.update(log_end=WORTHWHILE)
    assert list(logs_due(tick=turn + 1, every=every)) == [running_log.row]
    rows.update(log_end=10, log_complete=True)
    assert list(logs_due(tick=turn + 1, every=every)) == [running_log.row]
    rows.update(archived_to=10)
    assert not logs_due(tick=turn, every=every)


def test_a_reader_that_sleeps_while_the_archiver_works_misses_nothing(running_log: RunningLog) -> None:
    seen: list[LogRecord] = []
    offset = 0
    for n in range(8):
        running_log.source.print(*lines(200, first=200 * n))
        running_log.sent(200 * 23 * (n + 1))
        if n % 3 == 0:
            running_log.archiver.step(running_log.row.pk)
        if n % 2:  # in the other rounds it sleeps
            run = running_log.reader.read(running_log.log, offset, 3000)
            seen += records_decode(run.data)
            offset = run.end
    wait_until(lambda: running_log.reader.end(running_log.log) == 1600 * 23, "the log")
    while (run := running_log.reader.read(running_log.log, offset, 3000)).data:
        seen += records_decode(run.data)
        offset = run.end

    assert seen == lines(1600)


def test_who_listens_to_the_same_redis_keeps_the_connection_through_a_sweep(running_log: RunningLog) -> None:
    """So the watch of logs does, in the worker that sweeps."""
    from django.utils import timezone

    from portal.logs.archiver import archive_sweep
    from portal.logs.stream import streams_client

    with streams_client().pubsub(ignore_subscribe_messages=True) as listener:  # type: ignore[no-untyped-call]
        listener.subscribe("hints")
        archive_sweep(now=timezone.now())
        streams_client().publish("hints", b"still here")
        assert wait_until(lambda: listener.get_message(timeout=1), "what was published")["data"] == b"still here"
