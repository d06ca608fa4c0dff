"""Jobs over REST: one from near, stopping, and what hangs on it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from redis import Redis

from nodes.protocol.logs import STDOUT, LogRecord, record_encode, signed_batch
from nodes.protocol.names import log_stream
from portal.accounts.models import Audited, AuditEntry
from portal.jobs.models import Job, TaskAttempt
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import Api
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db


def test_a_waiting_job_says_why_with_numbers_and_its_place(world: World, api: Api) -> None:
    world.node("gpu01", gpus=1)
    world.submit()
    first, second = world.submit(), world.submit()
    world.cycle()
    waits = [api.get(f"jobs/{job.pk}")["waiting"] for job in (first, second)]
    assert [wait["place"] for wait in waits] == [1, 2]
    assert waits[0]["code"] == "quota"
    assert "1 of its 1" in waits[0]["message"]
    assert waits[0]["numbers"]
    assert waits[0]["since"]


def test_a_running_job_shows_its_attempt_its_tasks_their_node_and_gpus(world: World, api: Api) -> None:
    world.node("gpu01", gpus=2)
    job = world.submit(instances=2)
    world.settle()
    near = api.get(f"jobs/{job.pk}")
    assert (near["state"], near["waiting"], near["attempt"]["number"]) == ("running", None, 1)
    assert near["roles"][0]["tasks"] == {"running": 2}
    tasks = api.get(f"jobs/{job.pk}/tasks")["results"]
    assert [(task["role"], task["index"], task["state"]) for task in tasks] == [
        ("worker", 0, "running"), ("worker", 1, "running"),
    ]  # fmt: skip
    held = [gpu["index"] for task in tasks for gpu in task["attempts"][0]["gpus"]]
    assert sorted(held) == [0, 1]
    assert {task["attempts"][0]["node"] for task in tasks} == {"gpu01"}


def test_a_failed_job_shows_its_cause_in_words_and_code(world: World, api: Api) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.settle()
    node.finish(code=3)
    near = api.get(f"jobs/{job.pk}")
    assert (near["state"], near["end_reason"], near["exit_code"]) == ("failed", "failed", 3)
    assert "3" in near["end_message"]
    (attempt,) = api.get(f"jobs/{job.pk}/attempts")["results"]
    assert (attempt["number"], attempt["state"], attempt["end_reason"]) == (1, "ended", "failed")
    (task,) = api.get(f"jobs/{job.pk}/tasks")["results"]
    assert (task["state"], task["attempts"][0]["exit_code"]) == ("failed", 3)


def test_tasks_of_an_earlier_attempt_are_found_by_its_number(world: World, api: Api) -> None:
    node = world.node("gpu01")
    job = world.submit(jobRetryCount=1)
    world.settle()
    node.finish(code=1)
    Job.objects.update(not_before=None)
    world.settle()
    (now,) = api.get(f"jobs/{job.pk}/tasks")["results"]
    assert [attempt["attempt"] for attempt in now["attempts"]] == [2, 1]
    (then,) = api.get(f"jobs/{job.pk}/tasks?attempt=1")["results"]
    assert [(attempt["attempt"], attempt["exit_code"]) for attempt in then["attempts"]] == [(1, 1)]
    assert api.call("GET", f"jobs/{job.pk}/tasks?attempt=x").status_code == 400


def test_events_tell_the_story_in_order(world: World, api: Api) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.settle()
    node.finish()
    events = api.get(f"jobs/{job.pk}/events")["results"]
    codes = [event["code"] for event in events]
    assert codes[0] == "submitted"
    assert codes[-1] == "succeeded"
    assert events[0]["actor"] == "alice"
    ended = next(event for event in events if event["code"] == "task_terminated")
    assert (ended["role"], ended["index"], ended["attempt"]) == ("worker", 0, 1)


def test_stopping_answers_the_state_and_a_job_that_is_over_cannot_be_stopped(world: World, api: Api) -> None:
    node = world.node("gpu01", gpus=1)
    running, waiting = world.submit(), world.submit()
    world.settle()
    stopped = [json.loads(api.call("POST", f"jobs/{job.pk}/stop").content) for job in (waiting, running, running)]
    assert [job["state"] for job in stopped] == ["stopped", "stopping", "stopping"]
    assert AuditEntry.objects.filter(action=Audited.JOB_STOP).count() == 2, "who asks again changes nothing"
    node.obey()
    assert api.get(f"jobs/{running.pk}")["state"] == "stopped"
    again = api.call("POST", f"jobs/{running.pk}/stop")
    assert again.status_code == 409
    assert "over already" in json.loads(again.content)["detail"]


def test_the_config_is_the_file_as_it_was_sent(world: World, api: Api) -> None:
    world.node("gpu01")
    job = world.submit()
    answer = api.call("GET", f"jobs/{job.pk}/config", accept="text/html")
    assert answer.headers["Content-Type"] == "application/yaml; charset=utf-8"
    assert answer.content.decode() == job.config


def test_a_log_is_read_on_by_offset_or_whole_as_text(world: World, api: Api, redis_server: RedisServer) -> None:
    node = world.node("gpu01")
    job = world.submit()
    world.settle()
    row = TaskAttempt.objects.get()
    lines = [f"line {number} ü\n".encode() for number in range(3)]
    end = 0
    with redis_server.client() as client:
        for number, line in enumerate(lines):
            end = send(client, node, row, end, LogRecord(number * 1_000_000, STDOUT, line))
    first = api.get(f"jobs/{job.pk}/logs?limit=1")
    assert first["records"] == [[0, 1, "line 0 ü\n"]]
    rest = api.get(f"jobs/{job.pk}/logs?task_attempt={row.pk}&offset={first['next_offset']}")
    assert rest["records"] == [[1, 1, "line 1 ü\n"], [2, 1, "line 2 ü\n"]]
    assert (rest["next_offset"], rest["complete"]) == (end, False)
    assert async_to_sync(streamed)(api, f"jobs/{job.pk}/logs?role=worker&index=0&format=text") == b"".join(lines)


async def streamed(api: Api, path: str) -> bytes:
    """The whole of an answer that comes in chunks, as a web server takes it."""
    answer: Any = await AsyncClient().get(f"/api/v1/{path}", headers=api.headers)
    return b"".join([chunk async for chunk in answer])


def send(client: Redis, node: ScriptedNode, row: TaskAttempt, start: int, record: LogRecord) -> int:
    """What the node's shipper does for one batch; the offset behind it."""
    data = record_encode(record)
    fields: Any = signed_batch(node.key, str(row.pk), start, data)
    client.xadd(log_stream(node.name, str(row.pk)), fields, id=f"{start + len(data)}-0")
    return start + len(data)


def test_a_log_that_cannot_be_reached_is_told_as_such(world: World, api: Api, redis_server: RedisServer) -> None:
    world.node("gpu01")
    job = world.submit()
    world.settle()
    redis_server.kill()
    answers = [api.call("GET", f"jobs/{job.pk}/logs?format={form}") for form in ("records", "text")]
    assert [answer.status_code for answer in answers] == [503, 503]


BAD_LOG_QUERIES = {
    "offset=-1": 400, "limit=0": 400, "task_attempt=x": 400, "format=xml": 400, "ofset=1": 400,
    "role=nobody": 404, "index=9": 404, "task_attempt=00000000-0000-4000-8000-000000000000": 404,
}  # fmt: skip


@pytest.mark.parametrize("query", BAD_LOG_QUERIES)
def test_a_wrong_question_for_a_log_is_refused(world: World, api: Api, query: str) -> None:
    world.node("gpu01")
    job = world.submit()
    world.settle()
    assert api.call("GET", f"jobs/{job.pk}/logs?{query}").status_code == BAD_LOG_QUERIES[query]


def test_a_log_is_found_only_under_its_own_job(world: World, api: Api) -> None:
    world.node("gpu01")
    one, other = world.submit(), world.submit()
    world.settle()
    row = TaskAttempt.objects.get(task__job=one)
    assert api.call("GET", f"jobs/{one.pk}/logs?task_attempt={row.pk}").status_code == 200
    assert api.call("GET", f"jobs/{other.pk}/logs?task_attempt={row.pk}").status_code == 404
