"""A log whose server is gone ends with a line that says so, and goes on should the server come back with the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from django.utils import timezone

from berth import Client
from nodes.protocol.logs import MARK
from nodes.protocol.messages import ContainerReport, Exit
from nodes.protocol.states import Cause, ContainerState, Phase
from tests.support.cluster.agent_logs import lines, text_of
from tests.support.run.waiting import wait_until

if TYPE_CHECKING:
    from tests.integration.logs.conftest import RunningLog
    from tests.support.people.cast import Api
    from tests.support.people.live_web import LiveWeb

pytestmark = pytest.mark.django_db(transaction=True)
LINE = "… the rest of this log was lost with node gpu07\n"


@pytest.fixture
def web(transactional_db: None, running_log: RunningLog, settings: Any) -> Iterator[LiveWeb]:
    from tests.support.people.live_web import live_web

    settings.LOG_DIR = running_log.archive.folder
    with live_web() as running:
        yield running


def lose(running_log: RunningLog) -> None:
    """The server falls silent, and the portal gives it up."""
    from portal.hardware.models import Node
    from portal.hardware.states import NodeHealth
    from portal.jobs.services.lost import node_tasks_lose

    running_log.report()
    running_log.pipeline.close()
    Node.objects.update(health=NodeHealth.LOST)
    node_tasks_lose(node=Node.objects.get(), now=timezone.now())


def come_back(running_log: RunningLog) -> None:
    from portal.hardware.models import Node
    from portal.hardware.states import NodeHealth

    Node.objects.update(health=NodeHealth.HEALTHY)
    running_log.source.closed = False
    running_log.start_agent()


def test_a_viewer_and_programs_are_told_and_get_the_rest_when_the_server_comes_back(
    running_log: RunningLog, web: LiveWeb
) -> None:
    from tests.support.people.cast import Api

    api, job = Api(running_log.world.user), running_log.row.task.job_id
    running_log.source.print(*lines(10))
    running_log.sent(230)
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", additional_headers=api.headers) as listener:
        assert listener.next()["to"] == 230
        lose(running_log)
        assert listener.next() == {"type": "end", "offset": 230, "state": "running", "lost": "gpu07"}
        told = api.get(f"jobs/{job}/logs")
        assert (told["complete"], told["lost_with"], told["next_offset"]) == (True, "gpu07", 230)
        assert text_at(web, api, f"jobs/{job}/logs?format=text") == text_of(lines(10)) + LINE
        assert text_at(web, api, f"jobs/{job}/logs/all").endswith(f"| {LINE}")

        with Client(f"http://{web.host}", api.headers["Authorization"].split()[1], trust_env=False) as berth:
            followed = "".join(record.text for record in berth.follow(running_log.attempt))
        assert followed == text_of(lines(10)) + LINE

        running_log.source.print(*lines(5, first=10))
        come_back(running_log)
        assert listener.next()["to"] > 230
        while (message := listener.next())["type"] == "records":
            continue
        assert message["type"] == "open"
        assert api.get(f"jobs/{job}/logs")["lost_with"] == ""
        assert text_at(web, api, f"jobs/{job}/logs?format=text") == text_of(lines(15))

        running_log.source.end()
        wait_until(lambda: running_log.pipeline.status(running_log.attempt).complete, "the container's end")
        running_log.report()
        assert listener.next() == {"type": "end", "offset": 345, "state": "running", "lost": None}


def text_at(web: LiveWeb, api: Api, path: str) -> str:
    return httpx.get(f"http://{web.host}/api/v1/{path}", headers=api.headers, trust_env=False).text


def test_an_archived_log_of_which_nothing_is_left_ends_and_says_so(running_log: RunningLog, web: LiveWeb) -> None:
    from tests.support.people.cast import Api

    api, job = Api(running_log.world.user), running_log.row.task.job_id
    running_log.source.print(*lines(10))
    running_log.source.end()
    running_log.archive_all()
    running_log.archive.remove(running_log.attempt)  # as after a restore of a backup without logs
    running_log.redis.delete(running_log.log.key)
    words = "… 230 bytes of this log are lost\n"
    told = api.get(f"jobs/{job}/logs?offset=46")
    assert (told["complete"], told["next_offset"]) == (True, 230)
    assert [record[1:] for record in told["records"]] == [[MARK, "… 184 bytes of this log are lost\n"]]
    assert api.get(f"jobs/{job}/logs?offset=230")["records"] == []
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", additional_headers=api.headers) as listener:
        records = listener.next()
        assert (records["from"], records["to"], records["records"][0][2]) == (0, 230, words)
        assert listener.next() == {"type": "end", "offset": 230, "state": "running", "lost": None}
    with Client(f"http://{web.host}", api.headers["Authorization"].split()[1], trust_env=False) as berth:
        assert [record.text for record in berth.follow(running_log.attempt)] == [words]


def test_a_log_that_is_whole_lacks_nothing_whatever_becomes_of_its_server(running_log: RunningLog) -> None:
    from portal.logs.ending import log_lost_with, lost_line

    running_log.source.print(*lines(10))
    running_log.source.end()
    running_log.archive_all()
    lose(running_log)
    running_log.row.refresh_from_db()
    running_log.row.node.refresh_from_db()
    assert (log_lost_with(running_log.row), lost_line("")) == ("", "")


def test_what_lay_in_redis_is_kept_and_of_a_removed_server_nothing_is_waited_for(running_log: RunningLog) -> None:
    from portal.hardware.models import Node
    from portal.logs.archiver import logs_due

    turn = running_log.row.pk.int % 150
    running_log.source.print(*lines(10))
    running_log.sent(230)
    lose(running_log)
    assert not logs_due(tick=turn + 1, every=150)
    assert list(logs_due(tick=turn, every=150)) == [running_log.row]
    running_log.archiver.step(running_log.row.pk)
    assert running_log.archive.end(running_log.attempt) == 230
    assert 0 < int(running_log.redis.ttl(running_log.log.key)) <= 3600
    assert list(logs_due(tick=turn, every=150)) == [running_log.row], "it may come back"
    Node.objects.update(removed_at=timezone.now())
    running_log.archiver.step(running_log.row.pk)
    assert not logs_due(tick=turn, every=150)
    running_log.row.refresh_from_db()
    assert running_log.row.removed_at is not None


@pytest.mark.parametrize("over", [{"state": "terminated"}, {"lost_at": timezone.now()}])
def test_a_whole_log_is_done_once_its_server_is_removed_before_it_said_that_the_container_is(
    running_log: RunningLog, over: dict[str, Any]
) -> None:
    from portal.hardware.models import Node
    from portal.jobs.models import TaskAttempt
    from portal.logs.archiver import logs_due

    running_log.source.print(*lines(10))
    running_log.source.end()
    running_log.archive_all()
    TaskAttempt.objects.update(**over)
    running_log.archiver.step(running_log.row.pk)
    assert not logs_due(tick=running_log.row.pk.int, every=1), "its server will say that the container is gone"
    removed = timezone.now()
    Node.objects.update(removed_at=removed)
    assert list(logs_due(tick=running_log.row.pk.int, every=1)) == [running_log.row]
    assert not running_log.archiver.step(running_log.row.pk)
    running_log.row.refresh_from_db()
    assert running_log.row.removed_at == removed
    assert not logs_due(tick=running_log.row.pk.int, every=1)


@pytest.mark.parametrize("known", [230, 0])
def test_a_log_that_its_server_has_less_of_than_it_told_ends_where_what_there_is_of_it_ends(
    running_log: RunningLog, web: LiveWeb, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server lost power, and with it the newest lines, or its disk with all of them; some were in Redis."""
    from tests.support.people.cast import Api

    monkeypatch.setattr("portal.logs.archiver.STILL_S", 0)
    api, job = Api(running_log.world.user), running_log.row.task.job_id
    running_log.source.print(*lines(10))
    running_log.sent(230)
    running_log.archiver.step(running_log.row.pk)
    running_log.source.print(*lines(5, first=10))
    running_log.sent(345)
    running_log.pipeline.close()
    told(running_log, ContainerState.RUNNING, log_end=460)
    told(running_log, ContainerState.TERMINATED, log_end=known, log_complete=True)
    with web.socket(f"/ws/logs/{running_log.attempt}?offset=0", additional_headers=api.headers) as listener:
        while listener.next()["to"] < 345:
            continue
        for _ in range(2):
            running_log.archiver.step(running_log.row.pk)
        running_log.row.refresh_from_db()
        assert (running_log.row.log_complete, running_log.row.archived_to) == (False, 345), "its server says it again"
        told(running_log, ContainerState.TERMINATED, log_end=known, log_complete=True)
        assert listener.next() == {"type": "end", "offset": 345, "state": "terminated", "lost": None}
    running_log.row.refresh_from_db()
    assert (running_log.row.log_end, running_log.row.phase) == (345, Phase.REMOVE)
    answer = api.get(f"jobs/{job}/logs?offset=230")
    assert (answer["complete"], answer["next_offset"]) == (True, 345)
    assert running_log.text() == text_of(lines(15))


def told(running_log: RunningLog, state: ContainerState, **log: Any) -> None:
    """What its node reports."""
    ended = Exit(cause=Cause.EXITED, code=0) if state is ContainerState.TERMINATED else None
    report = ContainerReport(
        attempt=running_log.attempt, state=state, spec_hash="", generation=0, started_ms=1, exit=ended, **log
    )
    running_log.node.containers[running_log.attempt] = report
    assert running_log.node.report()
