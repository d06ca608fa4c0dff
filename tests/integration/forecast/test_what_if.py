"""What would become of a job, before it is submitted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from portal.common.throttles import Rate, RateLimit
from portal.jobs.models import Job, JobEvent, TaskRole
from tests.integration.forecast.test_estimates import busy
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(world: World) -> Api:
    return Api(world.user)


def ask(api: Api, text: str, **headers: str) -> Any:
    answer = api.call("POST", "estimates", text, kind="text/yaml", **headers)
    assert answer.status_code == 200, answer.content
    return json.loads(answer.content)


def test_a_job_that_would_start_is_told_where_and_nothing_is_stored(world: World, api: Api) -> None:
    world.node("gpu01", gpus=2)
    world.node("gpu02", gpus=2)
    found = ask(api, job_file(instances=2, gpu=2))
    assert (found["nodes"], found["waiting"]) == (["gpu01", "gpu02"], None)
    assert found["start"]["p50"] == found["start"]["p90"]
    assert not Job.objects.exists()
    assert not TaskRole.objects.exists()
    assert not JobEvent.objects.exists()


def test_a_job_that_would_wait_is_told_why_at_which_place_and_until_when(world: World, api: Api) -> None:
    busy(world, extras=PROD)
    world.submit()
    before = timezone.now()
    found = ask(api, job_file(extras=PROD))
    assert found["nodes"] == []
    waiting = found["waiting"]
    assert (waiting["code"], waiting["place"]) == ("quota", 1)
    assert "1 of its 1" in waiting["message"]
    assert waiting["numbers"]["needed"] == 1
    assert before.isoformat() < found["start"]["p50"] <= found["start"]["p90"]
    behind = ask(api, job_file())
    assert behind["waiting"]["place"] == 2
    assert behind["start"] is None, "the one before it has no limit"


def test_a_job_that_would_take_gpus_back_is_told_from_how_many_and_how_soon(world: World, api: Api) -> None:
    busy(world)
    found = ask(api, job_file(extras=PROD))
    assert (found["nodes"], found["waiting"]["code"]) == ([], "preempting")
    assert found["waiting"]["message"] == "GPUs would be taken back for it from 1 job, which has at most 30 s to end"
    assert found["start"] is not None


def test_the_reason_is_told_in_the_language_that_is_asked_for(world: World, api: Api) -> None:
    busy(world)
    chinese = {"Accept_Language": "zh-CN"}
    assert ask(api, job_file(extras=PROD), **chinese)["waiting"]["message"] == (
        "将为它从 1 个作业收回 GPU，这些作业最多有 30 秒来结束"
    )
    waits = ask(api, job_file(), **chinese)["waiting"]
    assert "1 个 A100 中的 1 个" in waits["message"]
    world.nodes["gpu01"].finish(code=1)
    world.settle()
    needs = job_file(berth={"after": ["first"]})
    assert "alice/first#1，而后者的结局为 failed" in ask(api, needs, **chinese)["waiting"]["message"]
    assert "which ended as failed" in ask(api, needs)["waiting"]["message"]


def test_a_job_that_needs_others_to_end_names_them(world: World, api: Api) -> None:
    busy(world)
    found = ask(api, job_file(berth={"after": ["first"]}))
    assert found["waiting"]["code"] == "dependency"
    assert "alice/first#1" in found["waiting"]["message"]
    world.nodes["gpu01"].finish(code=1)
    world.settle()
    found = ask(api, job_file(berth={"after": ["first"]}))
    assert "which ended as failed" in found["waiting"]["message"]


def test_a_file_with_problems_is_refused_as_when_it_is_submitted(world: World, api: Api) -> None:
    world.node("gpu01")
    texts = [job_file(instances=0), job_file(gpu=64)]
    for text in texts:
        asked = api.call("POST", "estimates", text, kind="text/yaml")
        submitted = api.call("POST", "jobs", text, kind="text/yaml")
        assert (asked.status_code, json.loads(asked.content)) == (400, json.loads(submitted.content))


def test_somebody_who_may_not_submit_there_is_told_nothing(world: World) -> None:
    world.node("gpu01")
    answer = Api(person("stranger")).call("POST", "estimates", job_file(), kind="text/yaml")
    assert answer.status_code == 400


def test_who_asks_too_often_waits(world: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    world.node("gpu01")
    monkeypatch.setattr("portal.forecast.api.WHAT_IFS", RateLimit("what_if", Rate(1, 3600)))
    ask(api, job_file())
    assert api.call("POST", "estimates", job_file(), kind="text/yaml").status_code == 429
