"""``/ws/logs/<task attempt>``: a real server, a real websocket, a real pipeline, the real archive watch."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from nodes.agent.logs.base import OpenLine
from nodes.protocol.logs import STDERR, STDOUT, LogRecord, record_encode, signed_batch
from tests.support.cluster.agent_logs import lines, text_of
from tests.support.run.waiting import wait_until
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from portal.jobs.models import TaskAttempt
    from tests.integration.logs.conftest import RunningLog
    from tests.support.people.live_web import Listener, LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web(transactional_db: None, running_log: RunningLog, settings: Any) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    settings.LOG_DIR = running_log.archive.folder
    with live_web() as running:
        yield running


def credentials(running_log: RunningLog) -> dict[str, Any]:
    from tests.support.people.cast import Api

    return {"additional_headers": Api(running_log.world.user).headers}


def read_until(listener: Listener, end: int) -> list[dict[str, Any]]:
    """Messages up to the one that brings the log to ``end``."""
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1].get("to", 0) < end:
        messages.append(listener.next())
    return messages


def text_in(messages: list[dict[str, Any]]) -> str:
    return "".join(row[2] for message in messages for row in message.get("records", []))


def test_the_owner_sees_history_and_tail_and_the_end(running_log: RunningLog, web: LiveWeb) -> None:
    running_log.source.print(*lines(2000))
    running_log.sent(46_000)
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", **credentials(running_log)) as listener:
        history = read_until(listener, 46_000)
        running_log.source.print(*lines(10, first=2000))
        live = read_until(listener, 46_230)
        running_log.source.end()
        wait_until(lambda: running_log.pipeline.status(running_log.attempt).complete, "the container's end")
        running_log.report()
        end = listener.next()

    assert text_in(history + live) == text_of(lines(2010))
    assert end == {"type": "end", "offset": 46_230, "state": "running", "lost": None}


def test_coming_back_with_the_last_offset_gives_no_gap_and_no_double(running_log: RunningLog, web: LiveWeb) -> None:
    seen: list[dict[str, Any]] = []
    offset = 0
    for n in range(4):
        running_log.source.print(*lines(500, first=500 * n))
        with web.socket(f"/ws/logs/{running_log.attempt}?offset={offset}", **credentials(running_log)) as listener:
            seen.append(listener.next())
        offset = seen[-1]["to"]
        if n == 1:
            running_log.archiver.step(running_log.row.pk)
    with web.socket(f"/ws/logs/{running_log.attempt}?offset={offset}", **credentials(running_log)) as listener:
        seen += read_until(listener, 46_000) if offset < 46_000 else []

    assert text_in(seen) == text_of(lines(2000))


@pytest.mark.parametrize("had", [100, 500])
def test_coming_back_when_redis_has_lost_what_was_read_gives_no_line_twice(
    running_log: RunningLog, web: LiveWeb, had: int
) -> None:
    """Nothing of it is archived yet: the node sends all of it again, while somebody else watches from the beginning."""
    running_log.source.print(*lines(500))
    running_log.sent(11_500)
    running_log.pipeline.close()
    running_log.redis.delete(running_log.log.key)
    address, known = f"/ws/logs/{running_log.attempt}", credentials(running_log)
    with (
        web.socket(f"{address}?offset=0", **known) as newcomer,
        web.socket(f"{address}?offset={23 * had}", **known) as listener,
    ):
        time.sleep(1)  # both stand where nothing is
        running_log.source.closed = False
        running_log.start_agent()
        running_log.source.print(*lines(500, first=500))
        everything, rest = read_until(newcomer, 23_000), read_until(listener, 23_000)

    assert text_in(everything) == text_of(lines(1000))
    assert text_in(rest) == text_of(lines(1000 - had, first=had))
    assert rest[0]["from"] == 23 * had


def test_what_has_no_end_yet_is_shown_to_all_until_it_has_one_or_its_log_has(
    running_log: RunningLog, web: LiveWeb
) -> None:
    running_log.source.print(*lines(1))
    address, known = f"/ws/logs/{running_log.attempt}?offset=0", credentials(running_log)
    with web.socket(address, **known) as listener:
        read_until(listener, 23)
        running_log.source.open = {STDOUT: OpenLine(1_000_000, b"\r 10%")}
        tail = {"type": "tail", "records": [[1, STDOUT, "\r 10%"]]}
        assert listener.next() == tail
        with web.socket(address, **known) as newcomer:
            read_until(newcomer, 23)
            assert newcomer.next() == tail
        running_log.source.open = {STDOUT: OpenLine(2_000_000, b"last words")}
        assert listener.next()["records"] == [[2, STDOUT, "last words"]]
        running_log.source.end()
        wait_until(lambda: running_log.pipeline.status(running_log.attempt).complete, "the container's end")
        running_log.report()
        assert listener.next() == {"type": "tail", "records": []}
        assert listener.next()["type"] == "end"
    assert running_log.text() == text_of(lines(1))


def test_over_rest_what_has_no_end_yet_stands_behind_the_logs_end_until_records_have_come(
    running_log: RunningLog, settings: Any
) -> None:
    from tests.support.people.cast import Api

    settings.LOG_DIR = running_log.archive.folder
    address, api = f"jobs/{running_log.row.task.job_id}/logs", Api(running_log.world.user)

    def told(offset: int) -> tuple[list[str], int, list[Any]]:
        answer = api.get(f"{address}?offset={offset}&limit=46")
        return [text for _, _, text in answer["records"]], answer["next_offset"], answer["tail"]

    running_log.source.print(*lines(4))
    running_log.sent(92)
    assert told(92) == ([], 92, [])
    running_log.source.open = {
        STDOUT: OpenLine(1_000_000, b"\r 10%"),
        STDERR: OpenLine(1_000_000, b"warn"),
    }
    wait_until(lambda: len(told(92)[2]) == 2, "both lines without an end")
    assert told(46) == (["000000002\n", "000000003\n"], 92, [[1, STDOUT, "\r 10%"], [1, STDERR, "warn"]])
    assert told(0) == (["000000000\n", "000000001\n"], 46, []), "not at the log's end"

    running_log.pipeline.close()  # so that what was told last stays
    data = record_encode(LogRecord(9, STDOUT, b"100%\n"))
    entry: dict[Any, Any] = {**signed_batch(running_log.node.key, running_log.attempt, 92, data)}
    running_log.redis.xadd(running_log.log.key, entry, id=f"{92 + len(data)}-0")
    assert told(92) == (["100%\n"], 110, [[1, STDERR, "warn"]])
    assert told(110) == ([], 110, [[1, STDERR, "warn"]])


def test_it_opens_at_the_tail_and_seeks_on_request(running_log: RunningLog, web: LiveWeb) -> None:
    running_log.source.print(*lines(10_000))
    running_log.sent(230_000)
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=tail", **credentials(running_log)) as listener:
        tail = read_until(listener, 230_000)
        listener.socket.send('{"type": "seek", "offset": 100}')
        sought = read_until(listener, 230_000)

    assert tail[0]["from"] > 160_000
    assert sought[0]["from"] == 92
    assert text_in(sought) == text_of(lines(9_996, first=4))


@pytest.mark.parametrize(
    "nonsense",
    ["", "[]", "{", '{"type": "seek"}', '{"type": "seek", "offset": "x"}', pytest.param("[" * 20_000, id="deep")],
)
def test_nonsense_from_the_browser_changes_nothing(running_log: RunningLog, web: LiveWeb, nonsense: str) -> None:
    running_log.source.print(*lines(3))
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=zero", **credentials(running_log)) as listener:
        read_until(listener, 69)
        listener.socket.send(nonsense)
        running_log.source.print(*lines(3, first=3))

        assert text_in(read_until(listener, 138)) == text_of(lines(3, first=3))


@pytest.mark.parametrize("offset", [10**18, "9" * 5000], ids=["far", "long"])
def test_an_offset_far_beyond_the_end_is_no_fault(running_log: RunningLog, web: LiveWeb, offset: object) -> None:
    running_log.source.print(*lines(3))
    with web.socket(f"/ws/logs/{running_log.attempt}?offset={offset}", **credentials(running_log)) as listener:
        listener.socket.send('{"type": "seek", "offset": 0}')
        assert text_in(read_until(listener, 69)) == text_of(lines(3))


@pytest.mark.parametrize("who", ["a stranger", "nobody"])
def test_others_see_nothing(running_log: RunningLog, web: LiveWeb, who: str) -> None:
    from portal.accounts.websockets import CLOSED_NOT_SIGNED_IN, CLOSED_NOT_VISIBLE
    from tests.support.people.cast import Api, person

    running_log.source.print(*lines(3))
    running_log.sent(69)
    options: dict[str, Any] = {"additional_headers": Api(person("charlie")).headers} if who == "a stranger" else {}
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", **options) as listener:
        assert listener.close_code() == (CLOSED_NOT_VISIBLE if options else CLOSED_NOT_SIGNED_IN)


@pytest.mark.parametrize("attempt", ["4f1d8a3e-0000-4000-8000-000000000001", "x", "%00"])
def test_a_log_that_does_not_exist_is_closed_the_same_way(running_log: RunningLog, web: LiveWeb, attempt: str) -> None:
    from portal.accounts.websockets import CLOSED_NOT_VISIBLE

    with web.socket(f"/ws/logs/{attempt}?offset=0", **credentials(running_log)) as listener:
        assert listener.close_code() == CLOSED_NOT_VISIBLE


def test_who_loses_the_right_to_see_it_is_closed_out(
    running_log: RunningLog, web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.accounts import websockets
    from portal.common import lasting
    from portal.jobs.models import Job
    from tests.support.people.cast import Api, person

    monkeypatch.setattr(lasting, "RECHECK_S", 0.1)
    bob = person("bob")
    member = running_log.world.user
    Job.objects.update(user=bob)  # alice sees it as a member of its virtual cluster
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", additional_headers=Api(member).headers) as listener:
        running_log.source.print(*lines(1))
        read_until(listener, 23)
        running_log.world.vc.memberships.all().delete()

        assert listener.close_code() == websockets.CLOSED_NOT_VISIBLE


def test_a_fast_log_flows_through_the_watch_into_the_archive_and_the_browser(
    running_log: RunningLog, web: LiveWeb, redis_server: RedisServer
) -> None:
    """Three windows of log: without the archive's steps on hints the node would stop at the first."""
    from portal.logs.watch import ArchiveWatch

    total = 130_000 * 23
    watch = ArchiveWatch(running_log.redis, running_log.archiver.step)
    watch.start()
    try:
        with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", **credentials(running_log)) as listener:
            for n in range(13):
                running_log.source.print(*lines(10_000, first=10_000 * n))
            messages = read_until(listener, total)
    finally:
        watch.close()

    assert text_in(messages) == text_of(lines(130_000))
    assert running_log.archive.end(running_log.attempt) > total - (1 << 20) - 70_000


# ------------------------------------------------------------ several logs


def several(running_log: RunningLog) -> str:
    return f"/ws/jobs/{running_log.row.task.job_id}/logs"


def second_task(running_log: RunningLog, lines: int = 10_000) -> TaskAttempt:
    """Another task of the job that has written lines of a hundred bytes."""
    from portal.jobs.models import Task, TaskAttempt
    from portal.logs.records import Run

    first = running_log.row
    task = Task.objects.create(job=first.task.job, role=first.task.role, index=1)
    made = TaskAttempt.objects.create(
        task=task, job_attempt=first.job_attempt, number=1, node=first.node, phase=first.phase, state=first.state,
        cpu_milli=1000, memory_mb=1024, created_at=first.created_at,
    )  # fmt: skip
    data = b"".join(record_encode(LogRecord(n, STDOUT, b"old %082d\n" % n)) for n in range(lines))
    running_log.archive.write(str(made.pk), Run(0, data))
    return made


def test_over_rest_is_told_where_each_of_several_logs_ends_and_what_has_no_end_yet(
    running_log: RunningLog, settings: Any
) -> None:
    from tests.support.people.cast import Api

    settings.LOG_DIR = running_log.archive.folder
    other = second_task(running_log, 10)
    type(other).objects.filter(pk=other.pk).update(log_end=1000, archived_to=1000, log_complete=True)
    running_log.source.print(*lines(3))
    running_log.source.open = {STDOUT: OpenLine(1_000_000, b"\r 10%")}
    address, api = f"jobs/{running_log.row.task.job_id}/logs/all?format=list", Api(running_log.world.user)
    wait_until(lambda: api.get(address)["logs"][0]["tail"], "the line without an end")
    whole = {"complete": True, "lost_with": "", "tail": []}
    assert api.get(address)["logs"] == [
        {
            "task_attempt": running_log.attempt, "name": "worker/0", "end": 69, "complete": False, "lost_with": "",
            "tail": [[1, STDOUT, "\r 10%"]],
        },
        {"task_attempt": str(other.pk), "name": "worker/1", "end": 1000, **whole},
    ]  # fmt: skip
    assert [log["end"] for log in api.get(f"{address}&log={other.pk}")["logs"]] == [1000]


def read_all(listener: Listener, ends: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """The messages of each log, until each has come to its end and what follows is new."""
    messages: dict[str, list[dict[str, Any]]] = {log: [] for log in ends}
    live: set[str] = set()
    while live != set(ends):
        message = listener.next()
        if message["type"] == "live":
            assert messages[message["log"]][-1]["to"] == ends[message["log"]]
            live.add(message["log"])
        else:
            messages[message["log"]].append(message)
    return messages


def next_but_live(listener: Listener) -> dict[str, Any]:
    """The next message that says more than that what follows is new."""
    while (message := listener.next())["type"] == "live":
        continue
    return dict(message)


def test_several_logs_come_over_one_socket_each_named_and_from_its_end(running_log: RunningLog, web: LiveWeb) -> None:
    other = second_task(running_log)
    running_log.source.print(*lines(3))
    running_log.sent(69)
    with web.socket(several(running_log), **credentials(running_log)) as listener:
        tasks = listener.next()
        tails = read_all(listener, {running_log.attempt: 69, str(other.pk): 1_000_000})
        running_log.source.print(*lines(1, first=3))
        live = listener.next()

    assert tasks == {
        "type": "tasks",
        "tasks": [{"log": running_log.attempt, "name": "worker/0"}, {"log": str(other.pk), "name": "worker/1"}],
    }
    assert text_in(tails[running_log.attempt]) == text_of(lines(3))
    assert tails[str(other.pk)][0]["from"] > 0
    assert text_in(tails[str(other.pk)]).endswith("9999\n")
    assert (live["log"], text_in([live])) == (running_log.attempt, text_of(lines(1, first=3)))


def test_only_the_chosen_logs_come_and_what_stands_before_them_when_it_is_asked_for(
    running_log: RunningLog, web: LiveWeb
) -> None:
    other = second_task(running_log)
    with web.socket(f"{several(running_log)}?log={other.pk}&log=nonsense", **credentials(running_log)) as listener:
        tasks = listener.next()
        tail = read_all(listener, {str(other.pk): 1_000_000})[str(other.pk)]
        ask = {"type": "earlier", "before": {str(other.pk): tail[0]["from"], running_log.attempt: 5, "x": 1}}
        listener.socket.send(json.dumps(ask))
        before = listener.next()

    assert [task["name"] for task in tasks["tasks"]] == ["worker/1"]
    (part,) = before["logs"]
    assert (part["log"], part["from"], part["to"]) == (str(other.pk), 0, tail[0]["from"])
    assert text_in([part, *tail]) == "".join(f"old {n:082d}\n" for n in range(10_000))


NONSENSE = ['{"type": "earlier", "before": {"x": "y"}}', '{"type": "seek", "log": []}', "[]", "[" * 20_000]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=["earlier", "seek", "list", "deep"])
def test_nonsense_to_several_logs_changes_nothing(running_log: RunningLog, web: LiveWeb, nonsense: str) -> None:
    with web.socket(several(running_log), **credentials(running_log)) as listener:
        listener.next()
        listener.socket.send(nonsense)
        running_log.source.print(*lines(1))
        messages = [next_but_live(listener)]
        if messages[0]["type"] == "earlier":
            assert messages[0]["logs"] == []
            messages = [next_but_live(listener)]
    assert text_in(messages) == text_of(lines(1))


def test_a_task_that_starts_later_is_added_and_a_stranger_sees_nothing(
    running_log: RunningLog, web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.accounts import websockets
    from portal.common import lasting
    from tests.support.people.cast import Api, person

    monkeypatch.setattr(lasting, "RECHECK_S", 0.1)
    with web.socket(several(running_log), **credentials(running_log)) as listener:
        assert len(listener.next()["tasks"]) == 1
        second_task(running_log, lines=5)
        assert [task["name"] for task in next_but_live(listener)["tasks"]] == ["worker/0", "worker/1"]
        assert text_in([next_but_live(listener)]).endswith("4\n")
    with web.socket(several(running_log), additional_headers=Api(person("charlie")).headers) as listener:
        assert listener.close_code() == websockets.CLOSED_NOT_VISIBLE


def test_twenty_who_watch_several_logs_read_them_once(running_log: RunningLog, web: LiveWeb, settings: Any) -> None:
    """Counted where it counts: at Redis."""
    settings.SOCKETS_PER_USER = 200
    second_task(running_log, lines=5)

    def reads() -> int:
        return int(running_log.redis.info("commandstats")["cmdstat_xrange"]["calls"])

    running_log.source.print(*lines(1))
    with ExitStack() as open_sockets:
        watching = [
            open_sockets.enter_context(web.socket(several(running_log), **credentials(running_log))) for _ in range(20)
        ]
        for listener in watching:
            assert {next_but_live(listener)["type"] for _ in range(3)} == {"tasks", "records"}
        before = reads()
        for n in range(10):
            running_log.source.print(*lines(1, first=1 + n))
            for listener in watching:
                assert text_in([next_but_live(listener)]) == text_of(lines(1, first=1 + n))
        assert reads() - before < 100, "some for each line, whoever watches"


def test_who_has_too_many_live_views_open_is_told_so_and_closing_one_makes_room(
    running_log: RunningLog, web: LiveWeb, settings: Any
) -> None:
    from portal.accounts.websockets import CLOSED_TOO_MANY

    settings.SOCKETS_PER_USER = 12  # the logs of several tasks count as ten
    options = credentials(running_log)
    one = f"/ws/logs/{running_log.attempt}?offset=0"
    with web.socket(several(running_log), **options) as listener:
        listener.next()
        with web.socket(several(running_log), **options) as refused:
            assert refused.close_code() == CLOSED_TOO_MANY
            assert "too many live views" in str(refused.socket.close_reason)
        running_log.source.print(*lines(1))
        with web.socket(one, **options) as single:
            single.next()
    with web.socket(several(running_log), **options) as listener:
        assert listener.next()["type"] == "tasks"


def test_nothing_is_read_any_more_for_who_left_while_a_look_back_was_answered(
    running_log: RunningLog, web: LiveWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the server's own answer fails, and no goodbye of the browser's is dispatched."""
    from portal.common import lasting
    from portal.logs import hub
    from portal.logs.together import earlier

    asked, left = threading.Event(), threading.Event()

    def answered_late(*what: Any) -> Any:
        asked.set()
        assert left.wait(10)
        return earlier(*what)

    monkeypatch.setattr(hub, "earlier", answered_late)
    monkeypatch.setattr(lasting, "RECHECK_S", 0.1)
    running_log.source.print(*lines(3))
    running_log.sent(69)
    with web.socket(several(running_log), **credentials(running_log)) as listener:
        listener.next()
        read_until(listener, 69)
        wait_until(lambda: watched(running_log), "the log's feed")
        listener.socket.send(json.dumps({"type": "earlier", "before": {running_log.attempt: 69}}))
        assert asked.wait(10)
    left.set()

    wait_until(lambda: not watched(running_log), "the feed's end")


def watched(running_log: RunningLog) -> bool:
    """Whether a feed of this process reads the log."""
    from portal.logs import consumer

    return any(one.feed_offset(running_log.log) is not None for one in consumer._hubs.values())
