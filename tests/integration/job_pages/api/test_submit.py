"""Submitting over REST: what is stored, what is refused, and how often."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.utils import timezone
from pytest_django.fixtures import Settings

from portal.accounts.models import Scope
from portal.common.throttles import Rate, RateLimit
from portal.job_pages.api import jobs as views
from portal.jobs.models import Job, JobEvent, Task
from portal.teams.services.teams import member_set
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db
YAML = "text/yaml"


def submit(api: Api, body: str | bytes, kind: str = YAML, **headers: str) -> Any:
    return api.call("POST", "jobs", body, kind=kind, **headers)


@pytest.mark.parametrize("kind", ["text/yaml", "application/yaml", "application/x-yaml", "text/yaml; charset=utf-8"])
def test_a_job_file_becomes_a_waiting_job(world: World, api: Api, kind: str) -> None:
    world.node("gpu01")
    answer = submit(api, job_file(instances=2, gpu=2), kind)
    assert answer.status_code == 201
    job = json.loads(answer.content)
    assert (job["label"], job["state"], job["vc"], job["task_count"], job["gpu_count"]) == (
        "alice/train#1", "waiting", "vision", 2, 4,
    )  # fmt: skip
    assert job["roles"] == [
        {
            "name": "worker", "instances": 2, "least": None, "gpus": 2, "cpu_milli": 1000, "memory_mb": 1024,
            "sku": None, "tasks": {"waiting": 2},
        }
    ]  # fmt: skip
    assert job["waiting"]["code"] == ""
    assert job["waiting"]["place"] is None, "the scheduler has not looked yet"
    assert api.get(f"jobs/{job['id']}") == job


def test_the_same_file_as_json_is_the_same_job(world: World, api: Api) -> None:
    world.node("gpu01")
    document = json.dumps(yaml.safe_load(job_file()))
    assert submit(api, document, "application/json").status_code == 201


def test_every_problem_is_told_at_once_with_its_path_and_nothing_is_stored(world: World, api: Api) -> None:
    world.node("gpu01")
    text = job_file(gpu=99, role={"instances": 0}, nonsense=1)
    answer = submit(api, text)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = json.loads(answer.content)
    paths = {fault["path"] for fault in problem["errors"]}
    assert {"nonsense", "taskRoles.worker.instances"} <= paths
    assert all(fault["message"] and fault["code"] for fault in problem["errors"])
    assert not Job.objects.exists()


REFUSED: dict[str, tuple[bytes, str, int]] = {
    "no body": (b"", YAML, 400),
    "broken JSON": (b"{", "application/json", 400),
    "broken YAML": (b"a: [", YAML, 400),
    "no UTF-8": (b"\xff\xfe\x00", YAML, 400),
    "a form": (b"a=1", "application/x-www-form-urlencoded", 415),
    "too large": (b"a" * (settings.MAX_JOB_FILE_BYTES + 1), YAML, 413),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_job_file_is_refused_with_a_problem_document(api: Api, case: str) -> None:
    body, kind, status = REFUSED[case]
    answer = submit(api, body, kind)
    assert answer.status_code == status
    problem = json.loads(answer.content)
    assert (problem["status"], answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize("extras", [{"x": {"a\0": 1}}, {"x": ["a\0"]}])
def test_what_no_database_keeps_is_refused_wherever_it_stands(world: World, api: Api, extras: dict[str, Any]) -> None:
    world.node("gpu01")
    answer = submit(api, job_file(extras=extras))
    assert (answer.status_code, json.loads(answer.content)["errors"][0]["code"]) == (400, "control_character")


def test_a_submission_sent_again_with_its_key_is_the_same_job(world: World, api: Api) -> None:
    world.node("gpu01")
    answers = [submit(api, job_file(), idempotency_key="k-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].content == answers[1].content
    assert submit(api, job_file(), idempotency_key="k-2").status_code == 201
    assert Job.objects.count() == 2


def test_a_key_that_could_not_be_stored_is_refused(api: Api) -> None:
    assert submit(api, job_file(), idempotency_key="k" * 101).status_code == 400


def test_submitting_too_often_is_refused_for_that_user_alone(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node("gpu01")
    monkeypatch.setattr(views, "SUBMITS", RateLimit("submit", Rate(2, 3600)))
    answers = [submit(api, job_file()) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert 0 < int(answers[2].headers["Retry-After"]) <= 3600


def test_more_tasks_than_one_user_may_have_waiting_are_refused_for_that_user_alone(
    world: World, api: Api, settings: Settings
) -> None:
    world.node("gpu01", gpus=2)
    settings.WAITING_TASKS = 1500
    many: dict[str, Any] = {"instances": 1000, "gpu": 0, "gang": False}
    assert submit(api, job_file(**many)).status_code == 201
    answer = submit(api, job_file(**many))
    assert (answer.status_code, Job.objects.count()) == (429, 1)
    told = json.loads(answer.content)["detail"]
    assert all(word in told for word in ("than 1,500 tasks", "1,000 of yours do", "add 1,000.", "stop jobs that wait"))
    bob = person("bob")
    member_set(vc=world.vc, user=bob, role="member", now=timezone.now())
    assert submit(Api(bob), job_file(**many)).status_code == 201
    Job.objects.filter(user=world.user).update(state="stopped")
    assert submit(api, job_file(**many)).status_code == 201, "what is over waits no more"
    Task.objects.filter(job__user=world.user).update(state="running")
    assert submit(api, job_file(**many)).status_code == 201, "what runs waits no more"


def test_secrets_are_never_shown_again(world: World, api: Api) -> None:
    world.node("gpu01")
    job = json.loads(submit(api, job_file(secrets={"key": "hunter2-very-secret"})).content)
    pages = ["", "/config", "/events", "/tasks", "/attempts"]
    shown = [api.call("GET", f"jobs/{job['id']}{page}").content for page in pages]
    assert not any(b"hunter2" in content for content in shown)
    assert b"secrets:" in shown[1], "the section is there, its values are not"


def test_a_file_can_be_checked_without_submitting_it(world: World) -> None:
    world.node("gpu01", gpus=2)
    reader = Api(world.user, scope=Scope.READ)
    good = json.loads(reader.call("POST", "validate", job_file(gpu=2), kind=YAML).content)
    assert good == {
        "valid": True, "problems": [],
        "hints": ["No shared storage is set up for job folders: a job that is requeued starts from nothing."],
        "summary": {"name": "train", "vc": "vision", "task_count": 1, "gpu_count": 2},
    }  # fmt: skip
    bad = json.loads(reader.call("POST", "validate", job_file(gpu=3), kind=YAML).content)
    assert (bad["valid"], bad["hints"], bad["summary"]) == (False, [], None)
    too_many = next(item for item in bad["problems"] if item["path"] == "taskRoles.worker.resourcePerInstance.gpu")
    assert too_many["line"] > 1
    assert not Job.objects.exists()


def test_line_ends_of_windows_are_told_before_the_submission_and_among_the_events(world: World) -> None:
    world.node("gpu01", gpus=2)
    text = job_file(commands=["echo a\r\necho b"])
    told = "The commands of worker have line ends of Windows (CR LF): they are read as those of Unix."
    api = Api(world.user)
    checked = json.loads(api.call("POST", "validate", text, kind=YAML).content)
    assert any(hint.startswith(told) for hint in checked["hints"])
    job = json.loads(api.call("POST", "jobs", text, kind=YAML).content)
    assert any(one.message.startswith(told) for one in JobEvent.objects.filter(job=job["id"], code="hint"))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("nohup python train.py > log 2>&1 &", True),
        ("for i in 1 2; do train $i & done\n(sleep 1) & # goes on\n# the end\n", True),
        ("tensorboard --logdir . &\npython train.py", False),
        ("python train.py &\nwait", False),
        ("test -f data &&\necho there", False),
        ("echo a \\&", False),
    ],
)
def test_a_task_that_leaves_its_program_in_the_background_is_told_that_it_ends(
    world: World, command: str, told: bool
) -> None:
    world.node("gpu01", gpus=2)
    answer = Api(world.user).call("POST", "validate", job_file(commands=[command]), kind=YAML)
    words = "The last command of worker runs in the background (&): the task ends when its commands do"
    assert any(hint.startswith(words) for hint in json.loads(answer.content)["hints"]) is told
