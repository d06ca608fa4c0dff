"""A virtual cluster's logs are kept as far as its quota goes: those of the jobs that ended longest ago give way."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client

from nodes.protocol.logs import STDOUT, LogRecord, record_encode
from nodes.protocol.states import ContainerState
from tests.support.people.cast import HOST

if TYPE_CHECKING:
    from portal.jobs.models import Job
    from portal.logs.archive_store import Archive
    from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db

KB = 1024


class Logs:
    """A world in which GB are KB, with logs in real files."""

    def __init__(self, world: World, archive: Archive) -> None:
        self.world, self.archive = world, archive
        self.node = world.node("gpu07")

    def job(self, size: int, *, ended: float | None, gone: bool = True) -> Job:
        """One whose log has ``size`` bytes, ended so many days ago (None: it runs). ``gone``: its container is."""
        from portal.jobs.models import Job, JobAttempt, Task, TaskAttempt
        from portal.logs.records import Run

        job, now = self.world.submit(), self.world.now
        attempt = JobAttempt.objects.create(job=job, number=1, created_at=now)
        row = TaskAttempt.objects.create(
            task=Task.objects.get(job=job), job_attempt=attempt, number=1, node=self.node.row, cpu_milli=1, memory_mb=1,
            state=ContainerState.RUNNING if ended is None else ContainerState.TERMINATED, created_at=now,
            removed_at=now if ended is not None and gone else None, log_end=size, archived_to=size,
            log_complete=ended is not None,
        )  # fmt: skip
        header = len(record_encode(LogRecord(0, STDOUT, b"")))
        record = record_encode(LogRecord(0, STDOUT, b"x" * (size - header - 1) + b"\n"))
        self.archive.write(str(row.pk), Run(0, record))
        if ended is not None:
            Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=now - timedelta(days=ended))
        return job

    def give_way(self) -> int:
        from portal.logs.quota import logs_give_way

        return logs_give_way(archive=self.archive, now=self.world.now)

    def there(self, *jobs: Job) -> list[bool]:
        """Whether files of these jobs' logs lie in the archive; the row never says another thing."""
        from portal.jobs.models import TaskAttempt

        found = []
        for job in jobs:
            job.refresh_from_db()
            (row,) = TaskAttempt.objects.filter(task__job=job)
            found.append(self.archive.path(str(row.pk)).exists())
            assert found[-1] is (job.logs_dropped_at is None)
        return found


@pytest.fixture
def logs(db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Logs:
    from portal.logs.archive_store import Archive
    from portal.teams.selectors import kept_logs
    from tests.support.cluster.world import World

    monkeypatch.setattr(kept_logs, "GB", KB)
    settings.LOG_QUOTA_GB, settings.LOG_DIR = 100, tmp_path / "logs"
    return Logs(World(), Archive(tmp_path / "logs"))


def test_what_ended_longest_ago_goes_whole_until_the_rest_fits(logs: Logs) -> None:
    oldest, older, newer, newest = (logs.job(40 * KB, ended=days) for days in (20, 10, 5, 1))
    assert logs.give_way() == 2
    assert logs.there(oldest, older, newer, newest) == [False, False, True, True]
    assert logs.give_way() == 0, "once is enough"
    logs.job(20 * KB, ended=0.5)
    assert logs.give_way() == 0, "what fills the quota to its last byte fits"


def test_a_node_takes_no_room_from_others_by_gaps_that_it_makes(logs: Logs) -> None:
    from portal.common.told import LONGEST_LOG
    from portal.jobs.models import TaskAttempt
    from portal.logs.archiver import archived_to_move
    from portal.teams.selectors.kept_logs import vc_log_room

    theirs = logs.job(60 * KB, ended=20)
    jobs = [logs.job(1 * KB, ended=1) for _ in range(9)]
    for row in TaskAttempt.objects.filter(task__job__in=jobs):
        assert archived_to_move(row=row, old=1 * KB, new=LONGEST_LOG, begin=LONGEST_LOG - 1 * KB)
    assert logs.give_way() == 0
    assert logs.there(theirs, *jobs) == [True] * 10
    room = vc_log_room(vc=logs.world.vc)
    assert room is not None
    assert room.over == (60 + 9 * 2) * KB


def test_logs_of_live_jobs_stay_and_take_no_room(logs: Logs) -> None:
    from portal.teams.selectors.kept_logs import vc_log_room

    running, unsent = logs.job(500 * KB, ended=None), logs.job(300 * KB, ended=30, gone=False)
    ended = logs.job(90 * KB, ended=20)
    assert logs.give_way() == 0
    assert logs.there(running, unsent, ended) == [True, True, True]
    room = vc_log_room(vc=logs.world.vc)
    assert room is not None
    assert (room.over, room.live, room.percent) == (90 * KB, 800 * KB, 90)
    assert (room.nearly_full, room.live_too_large) == (True, True)


def test_nothing_goes_of_a_job_of_which_a_server_still_has_another_container(logs: Logs) -> None:
    from portal.jobs.models import TaskAttempt

    job = logs.job(200 * KB, ended=30)
    row = TaskAttempt.objects.get(task__job=job)
    TaskAttempt.objects.create(
        task=row.task, job_attempt=row.job_attempt, number=2, node=row.node, cpu_milli=1, memory_mb=1,
        state=ContainerState.TERMINATED, created_at=row.created_at,
    )  # fmt: skip
    assert logs.give_way() == 0
    assert logs.archive.path(str(row.pk)).exists()


def test_a_log_larger_than_the_quota_takes_no_other_with_it(logs: Logs) -> None:
    small, huge, newest = logs.job(60 * KB, ended=9), logs.job(101 * KB, ended=2), logs.job(40 * KB, ended=1)
    assert logs.give_way() == 1
    assert logs.there(small, huge, newest) == [True, False, True]


@pytest.mark.parametrize(("own", "usual", "kept"), [(50, 0, 1), (0, 50, 3), (None, 0, 3), (None, 110, 2)])
def test_a_rule_of_its_own_comes_before_the_setting_and_0_keeps_all(
    logs: Logs, settings: Any, own: int | None, usual: int, kept: int
) -> None:
    settings.LOG_QUOTA_GB = usual
    type(logs.world.vc).objects.update(log_quota_gb=own)
    jobs = [logs.job(50 * KB, ended=days) for days in (3, 2, 1)]
    logs.give_way()
    assert logs.there(*jobs) == [False] * (3 - kept) + [True] * kept


def test_logs_that_are_old_do_not_count(logs: Logs) -> None:
    old, newest = logs.job(90 * KB, ended=91), logs.job(90 * KB, ended=1)
    assert logs.give_way() == 0
    assert logs.there(old, newest) == [True, True], "days are another matter (test_retention)"


def test_what_a_killed_worker_left_goes_with_the_next_round_over_the_archive(logs: Logs) -> None:
    from portal.jobs.models import Job
    from portal.logs.retention import PARTS, logs_expire

    job, other = logs.job(50 * KB, ended=2), logs.job(50 * KB, ended=1)
    Job.objects.filter(pk=job.pk).update(logs_dropped_at=logs.world.now)  # killed before a file was deleted
    assert sum(logs_expire(archive=logs.archive, now=logs.world.now, part=part) for part in range(PARTS)) == 1
    assert logs.there(job, other) == [False, True]


@pytest.mark.django_db(transaction=True)
def test_several_workers_at_once_delete_no_more_than_one(logs: Logs) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer")
    jobs = [logs.job(20 * KB, ended=30 - number) for number in range(12)]
    ready, dropped = Barrier(4), []

    def work() -> None:
        ready.wait()
        dropped.append(logs.give_way())
        connection.close()

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(dropped) == 4
    assert sum(dropped) == 7
    assert logs.there(*jobs) == [False] * 7 + [True] * 5


@async_to_sync
async def whole(answer: Any) -> str:
    """A download's text."""
    return b"".join([piece async for piece in answer.streaming_content]).decode()


def test_the_page_and_the_api_say_that_it_was_the_quota_and_when(logs: Logs) -> None:
    from tests.support.people.cast import Api

    gone, kept = logs.job(90 * KB, ended=3), logs.job(90 * KB, ended=1)
    logs.give_way()
    gone.refresh_from_db()
    api, reader = Api(logs.world.user), Client(HTTP_HOST=HOST)
    reader.force_login(logs.world.user)
    told = api.get(f"jobs/{gone.pk}/logs")
    assert (told["records"], told["complete"], told["deleted_because"]) == ([], True, "quota")
    assert told["deleted_at"].startswith(f"{logs.world.now:%Y-%m-%dT%H:%M}")
    told = api.get(f"jobs/{kept.pk}/logs")
    assert (len(told["records"]), told["deleted_at"], told["deleted_because"]) == (1, None, "")
    for address in (f"jobs/{gone.pk}/logs?format=text", f"jobs/{gone.pk}/logs/all"):
        text = whole(api.call("GET", address))
        assert f"deleted at {logs.world.now:%Y-%m-%d %H:%M} UTC: its virtual cluster has no room for more" in text
    page = reader.get(f"/jobs/{gone.pk}").content.decode()
    assert "had no room for more logs" in page
    assert "data-log-socket" not in page
    assert "data-log-socket" in reader.get(f"/jobs/{kept.pk}").content.decode()
    assert "90 % are taken" in reader.get(f"/virtual-clusters/{logs.world.vc.name}").content.decode()


def test_a_log_that_went_for_its_age_says_so(logs: Logs) -> None:
    from tests.support.people.cast import Api

    old = logs.job(10 * KB, ended=100)
    told = Api(logs.world.user).get(f"jobs/{old.pk}/logs")
    assert (told["deleted_because"], told["deleted_at"][:10]) == (
        "age",
        f"{logs.world.now - timedelta(days=10):%Y-%m-%d}",
    )
