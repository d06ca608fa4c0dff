"""Advice on a job: from which readings which sentence comes, and where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from portal.hardware.models import Gpu
from portal.jobs.models import Job, TaskAttempt
from portal.jobs.services.stop import job_stop
from portal.metrics.advice import ENOUGH_S
from portal.metrics.points import GPU_MEMORY, OF_GPU, OF_TASK, SM_ACTIVE, UTILISATION, Band, Point
from portal.metrics.record import Records
from portal.notices.services.gather import notices_gather
from tests.integration.notices.telling import choose, mail_round
from tests.support.cluster.usage_runs import started
from tests.support.cluster.world import World
from tests.support.people.cast import Api
from tests.support.people.pages import Browser
from tests.support.services.mail_server import MailServer

pytestmark = pytest.mark.django_db

GB = 1024


@pytest.fixture(autouse=True)
def records(tmp_path: Path, settings: Any) -> Records:
    settings.METRICS_DIR = tmp_path / "metrics"
    return Records(settings.METRICS_DIR)


def band(value: float) -> Band:
    return value, value, value


def recorded(
    records: Records,
    row: TaskAttempt,
    *gpus: tuple[float, ...],
    cpu_milli: float = 300,
    memory_mb: float = 500,
    seconds: int = ENOUGH_S,
) -> None:
    """A run whose GPUs have these means of utilisation and peaks of memory in GB, and, where they count them, so many
    percent of their multiprocessors at work."""
    bands: list[Band | None] = [band(cpu_milli), band(memory_mb), *[None] * (len(OF_TASK) - 2)]
    for utilisation, peak_gb, *sm in gpus:
        told = {UTILISATION: band(utilisation), GPU_MEMORY: (1.0, 0.0, peak_gb * GB)}
        if sm:
            told[SM_ACTIVE] = band(*sm)
        bands += map(told.get, OF_GPU)
    records.add(str(row.pk), [Point(60 * number, 60, 12, bands) for number in range(seconds // 60)], age_s=0)


def told(world: World, job: Job) -> list[tuple[str, str]]:
    found = Api(world.user).get(f"jobs/{job.pk}/advice")["advice"]
    return [(one["code"], one["message"]) for one in found]


@pytest.mark.parametrize(
    ("gpus", "changes", "code", "sentence"),
    [
        ([(80, 70), (1, 0)], {}, "gpu_idle", "1 of its 2 GPUs did next to nothing: below 5 % on average over 10 minu"),
        ([(1, 70), (2, 70)], {}, "gpu_idle", "None of its 2 GPUs did anything: below 5 % on average over 10 minutes."),
        ([(80, 18), (80, 12)], {}, "gpu_memory", "Of its GPUs' memory at most 18 of 80 GB were used:"),
        (
            [(30, 70), (32, 70)],
            {"cpu_milli": 980},
            "cpu_bound",
            "Its GPUs worked 31 % of the time while its CPUs were at 98 % of the 1 that it asked for:",
        ),
        (
            [(98, 18, 38), (97, 12, 20)],
            {},
            "gpu_memory",
            "Of its GPUs' memory at most 18 of 80 GB were used, and of their multiprocessors 38 % on average: half a ",
        ),
        ([(98, 18, 38), (97, 12, 45)], {}, "gpu_memory", "Of its GPUs' memory at most 18 of 80 GB were used: a larger"),
        (
            [(99, 70, 28), (97, 70, 32)],
            {"cpu_milli": 1000},
            "cpu_bound",
            "Its GPUs had 30 % of their multiprocessors at work while its CPUs were at 100 % of the 1 that it asked ",
        ),
        ([(80, 70), (80, 70)], {"memory_mb": 1000}, "memory_near", "Its memory peaked at 1000 of 1024 MB,"),
    ],
    ids=["one idle", "all idle", "memory", "cpu", "half", "more than half", "cpu by counters", "near"],
)
def test_each_sentence_has_the_numbers_that_it_rests_on(
    world: World, records: Records, gpus: Sequence[tuple[float, ...]], changes: Any, code: str, sentence: str
) -> None:
    row = started(world, gpu=2)
    Gpu.objects.update(memory_mb=80 * GB)
    recorded(records, row, *gpus, **changes)
    ((found, message),) = told(world, row.task.job)
    assert found == code
    assert message.startswith(sentence)


def test_who_uses_what_they_asked_for_is_told_nothing(world: World, records: Records) -> None:
    row = started(world, gpu=2)
    Gpu.objects.update(memory_mb=80 * GB)
    recorded(records, row, (95, 70), (90, 60), cpu_milli=900)
    assert told(world, row.task.job) == []


def test_nobody_is_judged_by_less_than_ten_minutes(world: World, records: Records) -> None:
    row = started(world, gpu=1)
    recorded(records, row, (0, 0), seconds=ENOUGH_S - 60)
    assert told(world, row.task.job) == []
    assert told(world, world.submit(name="waits")) == []


def test_gpus_of_all_tasks_are_counted_together(world: World, records: Records) -> None:
    job = world.submit(instances=2, gpu=1)
    world.settle()
    first, second = TaskAttempt.objects.filter(task__job=job).order_by("task_id")
    recorded(records, first, (90, 70))
    recorded(records, second, (0, 0))
    assert told(world, job)[0][1].startswith("1 of its 2 GPUs")


def test_of_a_record_that_somebody_spoilt_the_rest_counts(world: World, records: Records) -> None:
    row = started(world, gpu=2)
    recorded(records, row, (0, 0), (0, 0))
    with records.path(str(row.pk)).open("ab") as file:
        file.write(b"\n[999999,600,1,[]]\nnonsense")
    assert told(world, row.task.job)[0][1].startswith("None of its 2 GPUs did anything")


def test_the_page_and_the_mail_at_the_end_give_the_advice(
    world: World, browser: Browser, records: Records, mail_server: MailServer
) -> None:
    row = started(world, gpu=2)
    world.user.email = "alice@example.org"
    world.user.save()
    choose(world.user, "stopped")
    notices_gather(now=timezone.now())
    recorded(records, row, (80, 70), (1, 0))
    job, now = row.task.job, timezone.now()
    assert "1 of its 2 GPUs did next to nothing" in browser.get(f"/jobs/{job.pk}/charts").text
    job_stop(job=job, actor=world.user, now=now)
    world.settle()
    assert "1 of its 2 GPUs did next to nothing" in browser.get(f"/jobs/{job.pk}").text
    mail_round()
    (letter,) = mail_server.letters
    for part in (letter.get_body(["plain"]), letter.get_body(["html"])):
        assert part is not None
        assert "1 of its 2 GPUs did next to nothing" in part.get_content()
