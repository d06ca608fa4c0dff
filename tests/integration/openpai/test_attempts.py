"""OpenPAI's API: runs of jobs and tasks, and their logs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import async_to_sync
from django.core import signing
from django.test import AsyncClient
from django.utils import timezone

from nodes.protocol.logs import STDERR, STDOUT, LogRecord
from portal.accounts.models import Audited, AuditEntry, ClusterRole, User
from portal.jobs.models import Job, Task, TaskAttempt
from portal.teams.models import Membership
from portal.teams.services.teams import member_set
from tests.integration.job_pages.api.test_jobs import send
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, person
from tests.support.services.redis_server import RedisServer

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
TASK = "taskRoles/worker/taskIndex/0/attempts"


@pytest.fixture
def tried_twice(world: World) -> ScriptedNode:
    """A job that failed once and runs again."""
    node = world.node("gpu01")
    world.submit(name="a", jobRetryCount=1)
    world.settle()
    node.finish(code=7)
    node.obey()
    Job.objects.update(not_before=None)
    world.settle()
    return node


def test_each_run_of_a_job_is_seen_by_its_number_from_0(tried_twice: ScriptedNode, pai: Pai) -> None:
    first = pai.get("jobs/alice~a/attempts/0")
    assert first["jobStatus"]["attemptState"] == "FAILED"
    assert first["jobStatus"]["appExitCode"] == 7
    (task,) = first["taskRoles"]["worker"]["taskStatuses"]
    assert (task["taskState"], task["containerExitCode"], task["attemptId"]) == ("FAILED", 7, 0)
    newest = pai.get("jobs/alice~a")["jobStatus"]
    assert (newest["attemptId"], newest["attemptState"], newest["retries"]) == (1, "RUNNING", 1)
    assert newest["retryDetails"] == {"user": 1, "platform": 0, "resource": 0}
    assert pai.get("jobs/alice~a/attempts/1")["jobStatus"] == newest
    for missing in ("attempts/2", "job-attempts/2"):
        assert pai.refused("GET", f"jobs/alice~a/{missing}") == (404, "NoJobError")


def test_the_older_history_tells_every_run_newest_first(tried_twice: ScriptedNode, pai: Pai) -> None:
    runs = pai.get("jobs/alice~a/job-attempts")
    assert [(run["attemptIndex"], run["state"], run["isLatest"]) for run in runs] == [
        (1, "RUNNING", True), (0, "FAILED", False),
    ]  # fmt: skip
    assert pai.get("jobs/alice~a/job-attempts/0") == runs[1]
    assert (runs[1]["exitCode"], runs[1]["exitType"]) == (7, "UNKNOWN_FAILURE")
    pai.get("jobs/alice~a/job-attempts/healthz")


def test_a_long_history_takes_few_queries_and_ends_at_so_many_runs_and_tasks(
    world: World,
    pai: Pai,
    root: Pai,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = world.node("gpu01", gpus=8)
    world.submit(name="a", instances=8, jobRetryCount=4)
    for _ in range(4):
        world.settle()
        node.finish(code=7)
        node.obey()
        Job.objects.update(not_before=None)
    world.settle()
    for one in (pai, root):
        one.get("jobs")  # a token's first use of a day is noted
    with django_assert_max_num_queries(12):
        runs = pai.get("jobs/alice~a/job-attempts")
    assert [len(run["taskRoles"]["worker"]["taskStatuses"]) for run in runs] == [8] * 5
    with django_assert_max_num_queries(12):
        pai.get("jobs/alice~a")
    with django_assert_max_num_queries(6):
        assert len(root.get("kubernetes/pods")["items"]) == 8

    TaskAttempt.objects.filter(job_attempt__number=1, task__index__gte=3).delete()
    assert told(pai) == [(4, 8), (3, 8), (2, 8), (1, 8), (0, 3)], "of the first run three tasks ran"
    for path in ("attempts/0", "job-attempts/0"):
        tasks = pai.get(f"jobs/alice~a/{path}")["taskRoles"]["worker"]["taskStatuses"]
        assert [task["taskIndex"] for task in tasks] == [0, 1, 2]

    limits = [(100, 35, 5), (100, 34, 4), (100, 24, 3), (100, 1, 1), (2, 10_000, 2), (1, 10_000, 1)]
    for attempts, tasks, left in limits:
        monkeypatch.setattr("portal.openpai.selectors.jobs.MOST_ATTEMPTS", attempts)
        monkeypatch.setattr("portal.openpai.selectors.jobs.MOST_TASKS", tasks)
        assert [index for index, _ in told(pai)] == [4, 3, 2, 1, 0][:left], (attempts, tasks)
        assert pai.get("jobs/alice~a/job-attempts/0")["attemptIndex"] == 0


def told(pai: Pai) -> list[tuple[int, int]]:
    """Which runs the history has, and how many tasks each names."""
    runs = pai.get("jobs/alice~a/job-attempts")
    return [(run["attemptIndex"], len(run["taskRoles"]["worker"]["taskStatuses"])) for run in runs]


def test_a_job_that_waits_stands_before_its_next_run(world: World, pai: Pai) -> None:
    world.node("gpu01")
    world.submit(name="a")
    (run,) = pai.get("jobs/alice~a/job-attempts")
    assert (run["attemptIndex"], run["state"], run["attemptStartedTime"]) == (0, "WAITING", None)
    assert pai.get(f"jobs/alice~a/attempts/0/{TASK}")["attempts"] == []


def test_a_preempted_run_shows_openpais_code_and_its_job_waits_again(world: World, pai: Pai) -> None:
    node = world.node("gpu01", gpus=1)
    world.submit(name="low", extras=_class("oppo"))
    world.settle()
    world.submit(name="high", extras=_class("prod"))
    world.cycle()
    node.obey()
    job = pai.get("jobs/alice~low")["jobStatus"]
    assert (job["state"], job["attemptId"], job["retryDetails"]["platform"]) == ("WAITING", 1, 0)
    first = pai.get("jobs/alice~low/attempts/0")
    assert first["jobStatus"]["appExitCode"] == -101
    (task,) = first["taskRoles"]["worker"]["taskStatuses"]
    assert task["containerExitCode"] == -101
    assert "alice/high#1" in task["containerExitDiagnostics"]


def _class(name: str) -> dict[str, object]:
    return {"hivedScheduler": {"jobPriorityClass": name, "taskRoles": {"worker": {}}}}


def test_a_task_tells_each_of_its_runs(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    world.submit(name="a", gang=False, role={"taskRetryCount": 1})
    world.settle()
    node.finish(code=9)
    node.obey()
    Task.objects.update(not_before=None)
    world.settle()
    task = pai.get(f"jobs/alice~a/attempts/0/{TASK}")
    assert [(run["attemptId"], run["attemptState"], run["containerExitCode"]) for run in task["attempts"]] == [
        (0, "FAILED", 9), (1, "RUNNING", None),
    ]  # fmt: skip
    assert (task["retries"], task["taskState"]) == (1, "RUNNING")
    (near,) = pai.get("jobs/alice~a")["taskRoles"]["worker"]["taskStatuses"]
    assert (near["retries"], near["attemptId"]) == (1, 1)
    for missing in ("taskRoles/none/taskIndex/0", "taskRoles/worker/taskIndex/1"):
        assert pai.refused("GET", f"jobs/alice~a/attempts/0/{missing}/attempts") == (404, "NoTaskError")


# ---------------------------------------------------------------- logs


@pytest.fixture
def written(world: World, redis_server: RedisServer) -> TaskAttempt:
    """A run of a task that wrote a line to each stream, and before them more than a tail."""
    node = world.node("gpu01")
    world.submit(name="a")
    world.settle()
    row, end = TaskAttempt.objects.get(), 0
    with redis_server.client() as client:
        for stream, text in ((STDOUT, b"x" * 40_000 + b"\n"), (STDOUT, b"out\n"), (STDERR, b"err\n")):
            end = send(client, node, row, end, LogRecord(0, stream, text))
    return row


def addresses(pai: Pai, query: str = "") -> dict[str, str]:
    """The path and query of each stream's log."""
    found = pai.get(f"jobs/alice~a/attempts/0/{TASK}/0/logs{query}")["locations"]
    assert all(one["uri"].startswith("http://127.0.0.1/rest-server/") for one in found)
    return {one["name"]: urlsplit(one["uri"])._replace(scheme="", netloc="").geturl() for one in found}


def opened(path: str) -> tuple[int, bytes]:
    """What somebody without a token of their own gets there."""
    return async_to_sync(_opened)(path)


async def _opened(path: str) -> tuple[int, bytes]:
    answer: Any = await AsyncClient(headers={"host": HOST}).get(path)
    if not answer.streaming:
        return answer.status_code, answer.content
    return answer.status_code, b"".join([chunk async for chunk in answer])


def test_the_addresses_of_a_log_open_each_stream_without_a_token_of_ones_own(written: TaskAttempt, pai: Pai) -> None:
    found = addresses(pai)
    assert opened(found["stdout"]) == (200, b"x" * 40_000 + b"\nout\n")
    assert opened(found["stderr"]) == (200, b"err\n")
    assert opened(found["all"])[1].endswith(b"out\nerr\n")


@pytest.mark.parametrize("query", ["?tailMode=true", "?tail-mode=true"])
def test_a_tail_is_the_last_16_kb_of_its_stream(written: TaskAttempt, pai: Pai, query: str) -> None:
    found = addresses(pai, query)
    status, text = opened(found["all"])
    assert (status, len(text)) == (200, 16 * 1024)
    assert text.endswith(b"out\nerr\n")
    assert opened(found["stderr"]) == (200, b"err\n")


def test_who_reads_anothers_log_by_its_address_is_noted(written: TaskAttempt) -> None:
    opened(addresses(Pai(person("eve", ClusterRole.AUDITOR)))["all"])
    assert [one.actor for one in AuditEntry.objects.filter(action=Audited.LOG_READ)] == ["eve"]


def test_a_log_that_never_was_is_not_found(written: TaskAttempt, pai: Pai) -> None:
    assert pai.refused("GET", f"jobs/alice~a/attempts/0/{TASK}/1/logs") == (404, "NoTaskLogError")
    path = addresses(pai)["all"]
    assert opened(path.replace("user.pai.all", "user.pai.none"))[0] == 404


@pytest.mark.parametrize("token", ["", "forged", signing.dumps([1, "x"], salt="other")])
def test_a_forged_address_opens_nothing(written: TaskAttempt, pai: Pai, token: str) -> None:
    path = addresses(pai)["all"].partition("?")[0]
    assert opened(f"{path}?token={token}")[0] == 401


def test_an_address_ends_after_an_hour_with_its_users_account_and_with_its_users_right(
    written: TaskAttempt, pai: Pai, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = addresses(pai)["all"]
    bob = person("bob")
    member_set(vc=written.task.job.vc, user=bob, role="member", now=timezone.now())
    of_bob = addresses(Pai(bob))["all"]
    assert opened(of_bob)[0] == 200
    assert list(AuditEntry.objects.filter(action="log.read").values_list("actor", "target")) == [("bob", "alice/a#1")]
    Membership.objects.filter(user=bob).delete()
    assert opened(of_bob)[0] == 404
    later = time.time() + 3601
    with monkeypatch.context() as patch:
        patch.setattr("django.core.signing.time.time", lambda: later)
        assert opened(path)[0] == 401
    assert opened(path)[0] == 200
    User.objects.filter(username="alice").update(is_active=False)
    assert opened(path)[0] == 401


def test_a_log_that_cannot_be_reached_is_told_as_such(
    written: TaskAttempt, pai: Pai, redis_server: RedisServer
) -> None:
    path = addresses(pai)["all"]
    redis_server.kill()
    status, body = opened(path)
    assert (status, json.loads(body)["code"]) == (503, "UnknownError")
