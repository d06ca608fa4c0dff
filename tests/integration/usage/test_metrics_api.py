"""`jobs/{id}/metrics`: live curves joined to the record, chosen by attempt, task, GPU and time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from nodes.protocol.messages import GpuProcess
from portal.hardware.models import Gpu
from portal.jobs.models import TaskAttempt
from portal.metrics.record import Records
from tests.support.cluster.usage_runs import fold, folded_from, minute_of, started, tell
from tests.support.cluster.world import World
from tests.support.people.cast import Api
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture
def begun() -> datetime:
    return minute_of(timezone.now()) - 3 * MINUTE


@pytest.fixture
def row(world: World, begun: datetime, records: Records) -> TaskAttempt:
    """A running task with a minute in its record (utilisation 10) and one that is not there yet (90)."""
    node = world.node("gpu01", gpus=2)
    row = started(world, gpu=2)
    TaskAttempt.objects.update(created_at=begun - MINUTE)
    folded_from(begun)
    for number in range(12):
        tell(node, begun + 5 * number * SECOND, 10)
    fold(records, begun + 2 * MINUTE)
    for number in range(12, 18):
        tell(node, begun + 5 * number * SECOND, 90)
    return row


def metrics(api: Api, row: TaskAttempt, **query: object) -> Any:
    return api.get(f"jobs/{row.task.job_id}/metrics?{urlencode(query)}")


def test_curves_go_from_the_record_to_the_newest_reading(
    api: Api, row: TaskAttempt, begun: datetime, world: World
) -> None:
    answer = metrics(api, row)
    start = int(begun.timestamp())
    assert answer["times"] == [start + second for second in range(0, 90, 10)]
    assert answer["seconds"] == [10] * 9
    assert (answer["task_attempt"], answer["attempt"], answer["role"], answer["index"], answer["node"]) == (
        str(row.pk), 1, "worker", 0, "gpu01",
    )  # fmt: skip
    first = answer["series"][2]
    assert first["gpu"] == {"index": 0, "uuid": "GPU-gpu01-0"}
    assert (first["metric"], first["unit"]) == ("gpu_utilisation", "percent")
    assert first["mean"] == [10] * 6 + [90] * 3
    units = {one["metric"]: one["unit"] for one in answer["series"]}
    assert units == {
        "cpu": "thousandths of a core", "memory": "MB", "gpu_utilisation": "percent", "gpu_memory": "MB",
        "gpu_power": "W", "gpu_temperature": "degrees Celsius",
    }  # fmt: skip


def test_what_a_gpu_counts_and_the_part_of_the_tasks_own_processes_are_curves_where_they_are_told(
    api: Api, row: TaskAttempt, begun: datetime, world: World
) -> None:
    own, other = (GpuProcess(pid=1, memory_mb=1, attempt=whose, utilisation=30) for whose in (str(row.pk), None))
    activity = {"sm_active": 40, "sm_occupancy": 20, "tensor_active": 0, "dram_active": 12}
    tell(world.nodes["gpu01"], begun + 90 * SECOND, 90, processes=(own, own, other), **activity)
    told = {one["metric"]: (one["unit"], one["mean"][-2:]) for one in metrics(api, row, gpu=0)["series"]}
    assert {name: told[f"gpu_{name}"] for name in activity} == {
        name: ("percent", [None, value]) for name, value in activity.items()
    }
    assert told["gpu_own"] == ("percent", [None, 60])


def test_one_chooses_gpu_time_and_step(api: Api, row: TaskAttempt, begun: datetime) -> None:
    answer = metrics(api, row, gpu=1, step=60)
    gpus = [one["gpu"] and one["gpu"]["index"] for one in answer["series"]]
    assert gpus == [None, None, 1, 1, 1, 1]
    assert answer["seconds"] == [60, 30]
    span = {"from": (begun + 20 * SECOND).isoformat(), "to": (begun + 40 * SECOND).isoformat()}
    start = int(begun.timestamp())
    assert metrics(api, row, **span)["times"] == [start + 20, start + 30]


def test_gpus_come_in_the_order_in_which_their_node_counts_them(api: Api, row: TaskAttempt) -> None:
    Gpu.objects.filter(uuid="GPU-gpu01-0").update(index=7)
    gpus = [one["gpu"]["index"] for one in metrics(api, row)["series"] if one["metric"] == "gpu_power"]
    assert gpus == [1, 7]


def test_a_record_that_somebody_spoilt_is_left_out(api: Api, row: TaskAttempt, records: Records) -> None:
    records.path(str(row.pk)).write_bytes(b"[1777891200,10,1,[]]\nnonsense\n\xff")
    assert len(metrics(api, row)["times"]) == 9, "what is still in Redis"


def test_one_chooses_the_task_and_the_jobs_attempt(api: Api, row: TaskAttempt) -> None:
    for query in ({"task_attempt": row.pk}, {"role": "worker", "index": 0}, {"attempt": 1}):
        assert metrics(api, row, **query)["task_attempt"] == str(row.pk)
    for wrong in ("attempt=2", "index=1", "role=nothing", "task_attempt=0b0e3a52-6a3c-4a7e-9f0d-0c7f4f1c5b7e"):
        assert api.call("GET", f"jobs/{row.task.job_id}/metrics?{wrong}").status_code == 404, wrong


def test_what_cannot_be_asked_for_is_refused_by_name(api: Api, row: TaskAttempt, subtests: pytest.Subtests) -> None:
    for query in ["step=5", "gpu=-1", "from=yesterday", "to=", "attempt=0", "colour=red"]:
        with subtests.test(query=query):
            answer = api.call("GET", f"jobs/{row.task.job_id}/metrics?{query}")
            assert answer.status_code == 400
            assert [fault["path"] for fault in answer.json()["errors"]] == [query.partition("=")[0]]


def test_without_redis_the_record_is_shown(api: Api, row: TaskAttempt, redis_server: RedisServer) -> None:
    redis_server.kill()
    try:
        assert metrics(api, row)["seconds"] == [10] * 6
    finally:
        redis_server.start()


def test_a_task_without_readings_has_curves_without_points(api: Api, world: World, records: Records) -> None:
    world.node("gpu01", gpus=1)
    row = started(world)
    answer = metrics(api, row)
    assert (answer["times"], len(answer["series"]), answer["series"][0]["mean"]) == ([], 6, [])
