"""The charts of a job: which lines, how many points, of which time, and what stands there without script."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.messages import Steps
from nodes.protocol.states import StepFault
from nodes.protocol.steps import HIGHEST_STEP
from portal.jobs.models import Job, Task, TaskAttempt
from portal.metrics.points import BUCKET_S, OF_ACTIVITY, OF_GPU, OF_TASK, Point
from portal.metrics.record import Records
from tests.support.cluster.usage_runs import fold, folded_from, minute_of, tell
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def records(tmp_path: Path, settings: Any) -> Records:
    settings.METRICS_DIR = tmp_path / "metrics"
    return Records(settings.METRICS_DIR)


@pytest.fixture
def begun() -> datetime:
    return minute_of(timezone.now()) - 3 * MINUTE


def running(world: World, begun: datetime, **changes: Any) -> Job:
    job = world.submit(**changes)
    world.settle()
    TaskAttempt.objects.filter(task__job=job).update(created_at=begun)
    return job


def multiplied(job: Job, count: int) -> None:
    """The job's task so many times."""
    row = TaskAttempt.objects.get(task__job=job)
    tasks = Task.objects.bulk_create(
        Task(job=job, role=row.task.role, index=index, state="running") for index in range(1, count)
    )
    columns = {"job_attempt": row.job_attempt, "node": row.node, "state": row.state, "created_at": row.created_at}
    TaskAttempt.objects.bulk_create(
        TaskAttempt(task=task, number=1, cpu_milli=1000, memory_mb=1024, **columns) for task in tasks
    )


def charts_of(page: Page) -> dict[str, dict[str, Any]]:
    """What the script reads of each chart."""
    found = {}
    for figure in page.html.split('<figure id="chart-')[1:]:
        if data := re.search(r'<script type="application/json">(.*?)</script>', figure):
            found[figure.partition('"')[0]] = json.loads(data[1])
    return found


def names(chart: dict[str, Any]) -> list[str]:
    return [line["name"] for line in chart["lines"]]


def test_a_task_has_a_line_for_each_gpu_from_its_start_to_its_newest_reading(
    world: World, browser: Browser, records: Records, begun: datetime
) -> None:
    job = running(world, begun, gpu=2)
    folded_from(begun)
    for number in range(12):
        tell(world.nodes["gpu01"], begun + 5 * number * SECOND, 10)
    fold(records, begun + 2 * MINUTE)
    for number in range(12, 18):
        tell(world.nodes["gpu01"], begun + 5 * number * SECOND, 90, memory_used_mb=2048)
    page = browser.get(f"/jobs/{job.pk}/charts")
    charts = charts_of(page)
    assert list(charts) == ["gpu_utilisation", "gpu_memory", "gpu_power", "gpu_temperature", "cpu", "memory"]
    assert names(charts["gpu_utilisation"]) == ["GPU 0", "GPU 1"]
    assert names(charts["cpu"]) == ["worker/0"]
    used = charts["gpu_utilisation"]
    assert used["times"][:2] == [int(begun.timestamp()), int(begun.timestamp()) + 10]
    assert used["lines"][0]["values"][:10] == [10] * 6 + [90] * 3 + [None]
    assert "GPU memory GB Last Average Peak GPU 0 2 3.27 3.91" in page.text


def test_tasks_have_a_line_each_and_one_of_them_is_a_choice_away(
    world: World, browser: Browser, begun: datetime
) -> None:
    job = running(world, begun, instances=2, gpu=2)
    tell(world.nodes["gpu01"], begun + 5 * SECOND, 50, power_w=200)
    page = browser.get(f"/jobs/{job.pk}/charts")
    charts = charts_of(page)
    assert names(charts["gpu_power"]) == ["worker/0", "worker/1"]
    assert charts["gpu_power"]["lines"][1]["values"][0] == 400, "of its two GPUs together"
    assert charts["gpu_utilisation"]["lines"][1]["values"][0] == 50, "their mean"
    second = TaskAttempt.objects.get(task__job=job, task__index=1)
    assert str(second.pk) in page.attribute("option", "value")
    chosen = charts_of(browser.get(f"/jobs/{job.pk}/charts?task={second.pk}"))
    assert names(chosen["gpu_power"]) == ["GPU 2", "GPU 3"]


def test_a_hundred_tasks_of_a_day_send_no_more_than_a_screen_shows(
    world: World, browser: Browser, records: Records
) -> None:
    day = minute_of(timezone.now()) - timedelta(days=1)
    job = running(world, day)
    multiplied(job, 100)
    points = [Point(int(day.timestamp()) + 240 * n, 240, 48, [(500, 1, 900)] * 2 + [None] * 2) for n in range(360)]
    for row in TaskAttempt.objects.filter(task__job=job, allocations=None):
        records.add(str(row.pk), points, age_s=0)
    page = browser.get(f"/jobs/{job.pk}/charts")
    charts = charts_of(page)
    assert len(charts["cpu"]["lines"]) == 100
    assert len(charts["cpu"]["times"]) <= 60
    assert len(page.html) < 400_000
    few = charts_of(browser.get(f"/jobs/{job.pk}/charts?last=3600"))["cpu"]
    assert 3600 <= few["span"][1] - few["span"][0] < 3600 + 128, "from the beginning of its first point"
    assert few["lines"][1]["values"][0] == 0.5


def test_a_chosen_time_comes_in_finer_points(world: World, browser: Browser, records: Records) -> None:
    begun = minute_of(timezone.now()) - timedelta(hours=10)
    job = running(world, begun)
    row = TaskAttempt.objects.get(task__job=job)
    start = int(begun.timestamp())
    width = len(OF_TASK) + len(OF_GPU)
    fine = [Point(start + BUCKET_S * n, BUCKET_S, 2, [(n, n, n)] * width) for n in range(360)]
    records.add(str(row.pk), fine, age_s=0)
    whole = charts_of(browser.get(f"/jobs/{job.pk}/charts"))["cpu"]
    part = charts_of(browser.get(f"/jobs/{job.pk}/charts?from={start + 600}&to={start + 1200}"))["cpu"]
    assert whole["times"][1] - whole["times"][0] == 240
    assert part["times"][1] - part["times"][0] == BUCKET_S
    assert part["span"] == [start + 600, start + 1200]


def test_time_in_which_nothing_was_measured_is_a_gap(world: World, browser: Browser, begun: datetime) -> None:
    job = running(world, begun)
    for second in (5, 65):
        tell(world.nodes["gpu01"], begun + second * SECOND, 40)
    values = charts_of(browser.get(f"/jobs/{job.pk}/charts"))["gpu_utilisation"]["lines"][0]["values"]
    assert values[:7] == [40, None, None, None, None, None, 40]


def test_charts_of_a_running_job_are_read_again_by_themselves_and_those_of_an_ended_one_are_not(
    world: World, browser: Browser, begun: datetime
) -> None:
    job = running(world, begun)
    tell(world.nodes["gpu01"], begun + 5 * SECOND, 40)
    page = browser.get(f"/jobs/{job.pk}/charts")
    assert page.attribute("section", "data-refresh") == ["10"]
    (address,) = page.attribute("section", "data-hx-get")
    assert names(charts_of(browser.get(address, HX_Request="true"))["gpu_power"]) == ["GPU 0"]
    frame = browser.get(f"/jobs/{job.pk}/charts", HX_Request="true")
    assert "<figure" not in frame.html, "the frame that is refreshed leaves the charts alone"
    world.nodes["gpu01"].finish()
    world.cycle()
    over = browser.get(f"/jobs/{job.pk}/charts")
    assert over.attribute("section", "data-refresh") == []
    assert names(charts_of(over)["gpu_utilisation"]) == ["GPU 0"]


def test_before_the_first_start_it_says_what_will_be_there(world: World, browser: Browser) -> None:
    job = world.submit()
    assert "The charts appear here as soon as a task has started." in browser.get(f"/jobs/{job.pk}/charts").text


def test_who_may_not_see_the_job_finds_no_charts(world: World, begun: datetime) -> None:
    job = running(world, begun)
    stranger = Browser(person("charlie"))
    for path in (f"/jobs/{job.pk}/charts", f"/jobs/{job.pk}/charts/now"):
        assert stranger.get(path).status == 404


def test_what_an_address_asks_in_vain_is_passed_over(
    world: World, browser: Browser, begun: datetime, subtests: pytest.Subtests
) -> None:
    job = running(world, begun)
    for query in [
        "from=x&to=5",
        "from=9&to=3",
        "last=-1",
        "first=99999",
        "attempt=77",
        f"to={'9' * 40}",
        "from=1&to=2",
    ]:
        with subtests.test(query=query):
            assert browser.get(f"/jobs/{job.pk}/charts?{query}").status == 200


def test_the_task_of_another_job_is_not_there(world: World, browser: Browser, begun: datetime) -> None:
    job, other = running(world, begun), running(world, begun)
    row = TaskAttempt.objects.get(task__job=other)
    for key in (row.pk, "nonsense"):
        assert browser.get(f"/jobs/{job.pk}/charts?task={key}").status == 404


def test_the_number_of_queries_does_not_grow_with_the_tasks(world: World, browser: Browser, begun: datetime) -> None:
    two, eight = running(world, begun, instances=2, gpu=0), running(world, begun, instances=8, gpu=0)
    assert browser.queries(f"/jobs/{two.pk}/charts") == browser.queries(f"/jobs/{eight.pk}/charts")


def test_gpus_that_count_what_they_are_busy_with_have_curves_of_it_and_of_others_it_is_said(
    world: World, browser: Browser, records: Records, begun: datetime
) -> None:
    """Before Hopper, and of an agent that does not read it yet, there is utilisation alone."""
    job = running(world, begun, gpu=2)
    folded_from(begun)
    only = "Utilisation only, the time with any kernel"
    tell(world.nodes["gpu01"], begun, 100)
    page = browser.get(f"/jobs/{job.pk}/charts")
    assert only in page.text
    assert not {one.name for one in OF_ACTIVITY} & charts_of(page).keys()
    counted = {"sm_active": 40, "sm_occupancy": 20, "tensor_active": 10, "dram_active": 30}
    tell(world.nodes["gpu01"], begun + 10 * SECOND, 100, **counted)
    for _ in ("as it is told", "as it was recorded"):
        page = browser.get(f"/jobs/{job.pk}/charts")
        charts = charts_of(page)
        assert only not in page.text
        for name, value in counted.items():
            assert [line["values"][:2] for line in charts[f"gpu_{name}"]["lines"]] == [[None, value]] * 2
        fold(records, begun + 2 * MINUTE)


# ---------------------------------------------------------------- steps


def told_steps(world: World, moment: datetime, *steps: Steps | None) -> None:
    """The node tells these of its tasks, in their order."""
    node = world.nodes["gpu01"]
    rows = TaskAttempt.objects.filter(pk__in=node.containers).order_by("task_id")
    for key, told in zip((str(row.pk) for row in rows), steps, strict=True):
        node.containers[key] = replace(node.containers[key], steps=told)
    tell(node, moment, 90)


def test_a_training_that_tells_its_steps_has_charts_of_them_and_others_have_none(
    world: World, browser: Browser, records: Records, begun: datetime
) -> None:
    job = running(world, begun, instances=2, gpu=1)
    folded_from(begun)
    for number in range(3):
        at = begun + 10 * number * SECOND
        told_steps(world, at, Steps(step=100 + number, at_ms=0, step_ms=250 + number), None)
    charts = charts_of(browser.get(f"/jobs/{job.pk}/charts"))
    assert (names(charts["step"]), charts["step"]["lines"][0]["values"][:3]) == (["worker/0"], [100, 101, 102])
    assert charts["step_time"]["lines"][0]["values"][:3] == [0.25, 0.251, 0.252]
    fold(records, begun + 2 * MINUTE)
    assert charts_of(browser.get(f"/jobs/{job.pk}/charts"))["step"]["lines"][0]["values"][:3] == [100, 101, 102]
    first, second = TaskAttempt.objects.filter(task__job=job).order_by("task_id")
    api = Api(world.user)
    answers = [api.get(f"jobs/{job.pk}/metrics?index={row.task.index}") for row in (first, second)]
    told, silent = ({one["metric"]: one["mean"] for one in answer["series"]} for answer in answers)
    assert (told["step"], told["step_time"]) == ([100, 101, 102], [250, 251, 252])
    assert not {"step", "step_time"} & silent.keys()


@pytest.mark.parametrize("fault", StepFault)
def test_what_is_wrong_with_the_steps_is_said(
    world: World, browser: Browser, begun: datetime, fault: StepFault
) -> None:
    job = running(world, begun)
    told_steps(world, timezone.now(), Steps(fault=fault))
    assert "worker/0: " in browser.get(f"/jobs/{job.pk}/charts").text


def test_a_pattern_that_matches_nothing_is_told_after_a_while(world: World, browser: Browser, begun: datetime) -> None:
    job = running(world, begun, berth={"steps": r"step (\d+)"})
    told_steps(world, timezone.now(), None)
    sentence = "No line of its log has matched extras.berth.steps so far."
    assert sentence not in browser.get(f"/jobs/{job.pk}/charts").text
    TaskAttempt.objects.update(started_at=begun - 10 * MINUTE)
    assert sentence in browser.get(f"/jobs/{job.pk}/charts").text
    told_steps(world, timezone.now(), Steps(step=1, at_ms=0))
    assert sentence not in browser.get(f"/jobs/{job.pk}/charts").text


def test_a_node_that_tells_any_number_spoils_nothing(world: World, browser: Browser, begun: datetime) -> None:
    job = running(world, begun)
    told_steps(world, begun + SECOND, Steps(step=1 << 80, at_ms=-(1 << 80), step_ms=1e300))
    charts = charts_of(browser.get(f"/jobs/{job.pk}/charts"))
    assert charts["step"]["lines"][0]["values"][0] == HIGHEST_STEP
    assert "step_time" not in charts
