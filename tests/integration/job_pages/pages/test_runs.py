"""Which runs of a job's tasks are looked at together."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.jobs.models import Job, JobAttempt, Task, TaskAttempt
from portal.jobs.selectors import runs
from portal.jobs.selectors.runs import run_name, runs_together
from tests.support.cluster.world import World

pytestmark = pytest.mark.django_db


def runs_of(job: Job, world: World, tasks: int) -> None:
    """A first attempt of every task, and a second one of all but the first."""
    node = world.nodes["gpu01"].row
    both = [JobAttempt.objects.create(job=job, number=n, created_at=world.now, state="ended") for n in (1, 2)]
    for at, task in enumerate(Task.objects.filter(job=job).order_by("pk")[:tasks]):
        for attempt in both[: 1 if at == 0 else 2]:
            TaskAttempt.objects.create(
                task=task, job_attempt=attempt, number=attempt.number, node=node, phase="remove", state="terminated",
                cpu_milli=1, memory_mb=1, created_at=world.now,
            )  # fmt: skip


def test_the_newest_run_of_each_task_is_read_and_no_other_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.submit(instances=6, gpu=0)
    runs_of(job, world, tasks=5)
    monkeypatch.setattr(runs, "LOGS_TOGETHER", 4)
    for kept in (runs._NEWEST, runs._NEWEST_IN):  # whose SQL an earlier test may have had made
        monkeypatch.setattr(kept, "_made", {})

    def found(**asked: object) -> list[tuple[str, int]]:
        with CaptureQueriesContext(connection) as captured:
            rows = runs_together(job=job, **asked)  # type: ignore[arg-type]
            shown = [(run_name(row), row.number) for row in rows]
            assert {row.node.name for row in rows} == {"gpu01"}
        assert len(captured) == 1
        sql = captured[0]["sql"]
        assert "LIMIT 4" in sql
        assert not [heavy for heavy in ("spec_sealed", "inventory", "storages", "log_tail") if heavy in sql]
        return shown

    assert found(attempt=None) == [("worker/0", 1), ("worker/1", 2), ("worker/2", 2), ("worker/3", 2)]
    assert found(attempt=2) == [("worker/1", 2), ("worker/2", 2), ("worker/3", 2), ("worker/4", 2)]
    one = TaskAttempt.objects.get(task__index=4, number=1)
    assert [row.pk for row in runs_together(job=job, attempt=2, chosen=[one.pk])] == [one.pk]
