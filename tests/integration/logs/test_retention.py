"""Logs go 90 days after their job's end, and not before."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster.agent_logs import lines

if TYPE_CHECKING:
    from tests.integration.logs.conftest import RunningLog

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("ended_days_ago", "kept"), [(None, True), (89, True), (91, False)])
def test_a_log_is_kept_until_long_after_its_jobs_end(
    running_log: RunningLog, ended_days_ago: int | None, kept: bool
) -> None:
    from portal.jobs.models import Job
    from portal.logs.retention import PARTS, logs_expire

    running_log.source.print(*lines(3))
    running_log.source.end()
    running_log.archive_all()
    now = running_log.world.now
    if ended_days_ago is not None:
        Job.objects.update(ended_at=now - timedelta(days=ended_days_ago))

    gone = sum(logs_expire(archive=running_log.archive, now=now, part=part) for part in range(PARTS))

    assert gone == (not kept)
    assert (running_log.archive.end(running_log.attempt) == 69) is kept


def test_a_log_that_the_database_does_not_know_stays(running_log: RunningLog) -> None:
    from portal.jobs.models import Job
    from portal.logs.records import Run
    from portal.logs.retention import PARTS, logs_expire

    Job.objects.update(ended_at=running_log.world.now - timedelta(days=400))
    stranger = "4f1d8a3e-0000-4000-8000-000000000001"
    running_log.archive.write(stranger, Run(0, b"x" * 100))
    for part in range(PARTS):
        logs_expire(archive=running_log.archive, now=running_log.world.now, part=part)

    assert running_log.archive.end(stranger) == 100
