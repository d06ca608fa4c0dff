"""OpenPAI's API: submitting, finding, stopping and tagging jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from django.utils import timezone

from nodes.protocol.messages import Exit, SshServer
from nodes.protocol.states import Cause, Phase
from portal.accounts.models import ClusterRole, Scope
from portal.jobs.models import Job, JobEvent
from portal.storages.models import Storage
from portal.teams.services.teams import member_set, vc_create
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import person

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db


def names(answer: Any) -> list[str]:
    return [row["name"] for row in answer]


def test_a_job_file_is_submitted_and_seen_while_it_waits_runs_and_ends(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    answer = pai.submit(job_file(name="train"))
    assert (answer.status_code, json.loads(answer.content)) == (202, {"message": "update job train successfully"})
    status = pai.get("jobs/alice~train")["jobStatus"]
    assert [status[key] for key in ("state", "subState", "attemptId", "appExitCode", "executionType")] == [
        "WAITING", "AttemptCreationPending", 0, None, "START",
    ]  # fmt: skip
    world.settle()
    job = pai.get("jobs/alice~train")
    assert (job["jobStatus"]["state"], job["jobStatus"]["attemptState"]) == ("RUNNING", "RUNNING")
    (task,) = job["taskRoles"]["worker"]["taskStatuses"]
    assert (task["taskState"], task["containerNodeName"], task["containerIp"]) == ("RUNNING", "gpu01", "127.0.0.1")
    assert isinstance(task["containerPorts"]["ssh"], int)
    assert (task["containerGpus"], task["containerExitCode"]) == ("0", None)
    node.finish()
    status = pai.get("jobs/alice~train")["jobStatus"]
    assert (status["state"], status["subState"], status["appExitCode"]) == ("SUCCEEDED", "Completed", 0)
    assert status["appExitSpec"]["type"] == "USER_SUCCESS"
    assert status["createdTime"] <= status["launchedTime"] <= status["completedTime"]


def test_the_ways_in_by_ssh_are_told_to_who_may_open_a_shell(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(
        job_file(
            name="a", extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": {"jobssh": True}}]}
        )
    )
    world.settle()
    assert pai.refused("GET", "jobs/alice~a/ssh") == (404, "NoJobSshInfoError")
    (attempt,) = node.containers
    server = SshServer(
        user="root", host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    )
    node.containers[attempt] = replace(node.containers[attempt], ssh=server)
    node.report()
    (task,) = pai.get("jobs/alice~a")["taskRoles"]["worker"]["taskStatuses"]
    told = pai.get("jobs/alice~a/ssh")
    assert told["containers"] == [{"id": attempt, "sshIp": "127.0.0.1", "sshPort": task["containerPorts"]["ssh"]}]
    assert set(told["keyPair"].values()) == {""}
    lead = person("lena")
    member_set(vc=world.vc, user=lead, role="lead", now=world.now)
    assert Pai(lead).refused("GET", "jobs/alice~a/ssh") == (403, "ForbiddenUserError")


def test_a_failed_job_tells_its_programs_status_in_openpais_classes(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(job_file(name="a"))
    world.settle()
    node.finish(code=3)
    job = pai.get("jobs/alice~a")
    assert (job["jobStatus"]["state"], job["jobStatus"]["appExitCode"]) == ("FAILED", 3)
    assert "3" in job["jobStatus"]["appExitDiagnostics"]
    (task,) = job["taskRoles"]["worker"]["taskStatuses"]
    assert (task["taskState"], task["containerExitCode"]) == ("FAILED", 3)
    spec = task["containerExitSpec"]
    assert (spec["phrase"], spec["issuer"], spec["stage"]) == ("PAIRuntimeUnknownFailed", "USER_CONTAINER", "RUNNING")
    status = job["jobStatus"]
    assert (status["appExitTriggerTaskRoleName"], status["appExitTriggerTaskIndex"]) == ("worker", 0)


def test_a_task_that_was_killed_for_its_memory_has_openpais_code(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(job_file(name="a"))
    world.settle()
    for order in node.desired().orders:
        if order.phase is Phase.RUN:
            node.end(order, Exit(cause=Cause.OOM, code=137))
    node.report()
    job = pai.get("jobs/alice~a")
    (task,) = job["taskRoles"]["worker"]["taskStatuses"]
    assert (task["containerExitCode"], task["containerExitSpec"]["type"]) == (-1200, "USER_FAILURE")
    assert (job["jobStatus"]["appExitCode"], job["jobStatus"]["appExitSpec"]["reaction"]) == (-1200, "NEVER_RETRY")
    assert [row["appExitCode"] for row in pai.get("jobs")] == [-1200]


def test_the_list_tells_of_the_task_that_the_job_itself_tells_of(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(job_file(name="a"))
    world.settle()
    (order,) = (one for one in node.desired().orders if one.phase is Phase.RUN)
    node.end(order, Exit(cause=Cause.UNKILLABLE, message="it outlives SIGKILL"))
    node.report()
    status = pai.get("jobs/alice~a")["jobStatus"]
    assert (status["state"], status["appExitCode"]) == ("FAILED", -8000)
    assert [row["appExitCode"] for row in pai.get("jobs")] == [-8000]


def test_a_job_that_cannot_start_says_so_and_that_it_is_not_tried_again(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(job_file(name="a"))
    world.cycle()
    (order,) = node.desired().orders
    node.end(order, Exit(cause=Cause.INVALID, message="invalid mount"))
    node.report()
    status = pai.get("jobs/alice~a")["jobStatus"]
    assert (status["state"], status["appExitCode"], status["appExitSpec"]["reaction"]) == (
        "FAILED",
        -200,
        "NEVER_RETRY",
    )
    assert [row["appExitCode"] for row in pai.get("jobs")] == [-200]


def test_the_same_name_again_is_a_conflict_and_stores_nothing(world: World, pai: Pai) -> None:
    world.node("gpu01")
    pai.submit(job_file(name="train"))
    assert pai.refused("POST", "jobs", job_file(name="train"), kind="text/yaml") == (409, "ConflictJobError")
    assert Job.objects.count() == 1


def test_later_runs_of_a_name_carry_their_number(world: World, pai: Pai) -> None:
    world.node("gpu01")
    first, second = world.submit(name="train"), world.submit(name="train")
    assert names(pai.get("jobs")) == ["train-2", "train"]
    assert pai.get("jobs/alice~train")["debugId"] == str(first.pk)
    assert pai.get("jobs/alice~train-2")["debugId"] == str(second.pk)
    literal = world.submit(name="train-2")
    assert pai.get("jobs/alice~train-2")["debugId"] == str(literal.pk)


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"defaults": {"virtualCluster": "nowhere"}}, 400, "NoVirtualClusterError"),
        ({"defaults": {"virtualCluster": "theirs"}}, 403, "ForbiddenUserError"),
        ({"gpu": 4, "instances": 2}, 400, "InvalidParametersError"),
        ({"unknown": 1}, 400, "InvalidProtocolError"),
        ({"extras": {"storages": [{"name": "none"}]}}, 404, "NoStorageError"),
        ({"extras": {"storages": [{"name": "secret"}]}}, 403, "ForbiddenUserError"),
    ],
)
def test_what_cannot_be_submitted_is_refused_as_openpai_does(
    world: World, pai: Pai, changes: dict[str, Any], status: int, code: str
) -> None:
    world.node("gpu01", gpus=4)
    world.node("gpu02", gpus=4)
    world.vc.quota.update(count=4)
    theirs = vc_create(name="theirs", now=timezone.now())
    Storage.objects.create(name="secret", root="/s").vcs.add(theirs)
    answer = pai.call("POST", "jobs", job_file(**changes), kind="text/yaml")
    told = json.loads(answer.content)
    assert (answer.status_code, told["code"]) == (status, code)
    assert ("; yours: vision." in told["message"]) == ("virtualCluster" in changes.get("defaults", {}))
    assert not Job.objects.exists()


def test_more_than_the_quota_is_refused_in_openpais_sentence(world: World, pai: Pai) -> None:
    world.node("gpu01", gpus=4)
    world.node("gpu02", gpus=4)
    world.vc.quota.update(count=4)
    message = json.loads(pai.submit(job_file(gpu=4, instances=2)).content)["message"]
    assert message == "Job requests 8 SKUs, exceeds maximum 4 SKUs in VC vision."


def test_a_body_that_is_no_job_file_is_refused(world: World, pai: Pai) -> None:
    assert pai.refused("POST", "jobs", "{", kind="text/yaml") == (400, "InvalidProtocolError")
    assert pai.refused("POST", "jobs", "a: 1", kind="application/xml") == (415, "InvalidParametersError")


def test_the_config_is_the_file_with_its_secrets_masked(world: World, pai: Pai) -> None:
    world.node("gpu01")
    pai.submit(job_file(name="a", secrets={"key": "hidden"}))
    answer = pai.call("GET", "jobs/alice~a/config")
    assert answer.headers["Content-Type"].startswith("text/yaml")
    assert yaml.safe_load(answer.content)["name"] == "a"
    assert b"hidden" not in answer.content


def test_stopping_is_done_once_and_asked_as_often_as_one_likes(world: World, pai: Pai) -> None:
    world.node("gpu01")
    pai.submit(job_file(name="a"))
    for value in ("STOP", "STOP", "START"):
        pai.done("PUT", "jobs/alice~a/executionType", 202, {"value": value})
    status = pai.get("jobs/alice~a")["jobStatus"]
    assert [status[key] for key in ("state", "executionType", "appExitCode")] == ["STOPPED", "STOP", -210]
    assert pai.refused("PUT", "jobs/alice~a/executionType", {"value": "PAUSE"}) == (400, "InvalidParametersError")


def test_a_running_job_that_is_stopped_shows_that_it_stops(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    pai.submit(job_file(name="a"))
    world.settle()
    pai.done("PUT", "jobs/alice~a/executionType", 202, {"value": "STOP"})
    assert pai.get("jobs/alice~a")["jobStatus"]["state"] == "STOPPING"
    node.obey()
    job = pai.get("jobs/alice~a")
    assert (job["jobStatus"]["state"], job["jobStatus"]["attemptState"]) == ("STOPPED", "STOPPED")
    assert job["taskRoles"]["worker"]["taskStatuses"][0]["containerExitCode"] == -220


# ---------------------------------------------------------------- rights


def test_a_job_of_another_team_is_not_there(world: World, subtests: pytest.Subtests) -> None:
    world.node("gpu01")
    world.submit(name="a")
    world.settle()
    stranger = Pai(person("mallory"))
    for method, path, body in [
        ("GET", "", None),
        ("GET", "/config", None),
        ("GET", "/events", None),
        ("GET", "/attempts/0", None),
        ("GET", "/job-attempts", None),
        ("GET", "/job-attempts/0", None),
        ("GET", "/attempts/0/taskRoles/worker/taskIndex/0/attempts", None),
        ("GET", "/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs", None),
        ("PUT", "/executionType", {"value": "STOP"}),
        ("PUT", "/tag", {"value": "x"}),
        ("DELETE", "/tag", {"value": "x"}),
    ]:
        with subtests.test(method=method, path=path):
            assert stranger.refused(method, f"jobs/alice~a{path}", body) == (404, "NoJobError")
            assert stranger.get("jobs") == []


def test_a_member_of_the_team_sees_a_job_and_may_neither_stop_nor_tag_it(world: World) -> None:
    world.node("gpu01")
    world.submit(name="a")
    member = person("bob")
    member_set(vc=world.vc, user=member, role="member", now=timezone.now())
    bob = Pai(member)
    assert names(bob.get("jobs")) == ["a"]
    for path, body in (
        ("executionType", {"value": "STOP"}),
        ("executionType", {"value": "START"}),
        ("tag", {"value": "x"}),
    ):
        assert bob.refused("PUT", f"jobs/alice~a/{path}", body) == (403, "ForbiddenUserError")
    root = Pai(person("root", role=ClusterRole.ADMIN))
    for value in ("START", "STOP"):
        told = root.done("PUT", "jobs/alice~a/executionType", 202, {"value": value})
        assert told["message"] == "execute job alice~a successfully"


def test_without_a_token_nothing_is_told(world: World, subtests: pytest.Subtests) -> None:
    for path in [
        "jobs",
        "jobs/alice~a",
        "tokens",
        "users",
        "groups",
        "virtual-clusters",
        "storages",
        "kubernetes/nodes",
    ]:
        with subtests.test(path=path):
            assert Pai().refused("GET", path) == (401, "UnauthorizedUserError")
            assert Pai(token="wrong").refused("GET", path) == (401, "UnauthorizedUserError")


def test_an_application_token_works_with_jobs_and_nothing_else(world: World, root: Pai) -> None:
    world.node("gpu01")
    app = Pai(world.user, scope=Scope.SUBMIT)
    assert app.submit(job_file(name="a")).status_code == 202
    app.done("PUT", "jobs/alice~a/tag", 200, {"value": "mine"})
    app.done("PUT", "jobs/alice~a/executionType", 202, {"value": "STOP"})
    answer = app.call("POST", "tokens/application", {})
    assert (answer.status_code, json.loads(answer.content)["message"]) == (
        403, "Applications are not allowed to do this operation.",
    )  # fmt: skip
    reader = Pai(world.user, scope=Scope.READ)
    assert reader.refused("POST", "jobs", job_file(name="b"), kind="text/yaml") == (403, "ForbiddenUserError")


# ---------------------------------------------------------------- lists


@pytest.fixture
def four(world: World, root: Pai) -> World:
    """a ended well, b failed, c runs, d waits; c and d are tagged."""
    node = world.node("gpu01", gpus=1)
    for name, code in (("a", 0), ("b", 1)):
        world.submit(name=name)
        world.settle()
        node.finish(code=code)
        world.settle()
    world.submit(name="c", extras={"hivedScheduler": {"jobPriorityClass": "prod", "taskRoles": {"worker": {}}}})
    world.settle()
    world.submit(name="d")
    world.settle()
    for name, tag in (("c", "slow"), ("d", "slow"), ("d", "odd")):
        root.done("PUT", f"jobs/alice~{name}/tag", 200, {"value": tag})
    return world


def test_lists_are_filtered_ordered_and_cut(four: World, pai: Pai, subtests: pytest.Subtests) -> None:
    for query, expected in [
        ("", "dcba"),
        ("state=SUCCEEDED", "a"),
        ("state=WAITING,RUNNING", "dc"),
        ("state=STOPPED", ""),
        ("username=alice", "dcba"),
        ("username=bob", ""),
        ("vc=vision", "dcba"),
        ("vc=other", ""),
        ("keyword=visi", "dcba"),
        ("keyword=nothing", ""),
        ("tagsContain=slow", "dc"),
        ("tagsContain=odd,none", "d"),
        ("tagsNotContain=odd", "cba"),
        ("tagsContain=slow&tagsNotContain=odd", "c"),
        ("jobPriority=prod", "c"),
        ("jobPriority=default", "dba"),
        ("jobPriority=oppo", ""),
        ("order=jobName,ASC", "abcd"),
        ("order=jobName,DESC", "dcba"),
        ("order=submissionTime,ASC", "abcd"),
        ("order=state,ASC", "bcad"),
        ("order=completionTime,ASC", "abcd"),
        ("order=completionTime,DESC", "dcba"),
        ("order=jobPriority,DESC", "cdba"),
        ("order=totalGpuNumber,ASC", "abcd"),
        ("order=totalTaskNumber,ASC", "abcd"),
        ("order=retries,ASC", "abcd"),
        ("order=vc,ASC", "abcd"),
        ("order=username,ASC", "abcd"),
        ("offset=1&limit=2", "cb"),
        ("limit=0", ""),
    ]:
        with subtests.test(query=query):
            assert "".join(names(pai.get(f"jobs?{query}"))) == expected


def test_a_list_tells_how_many_there_are_when_asked(four: World, pai: Pai) -> None:
    found = pai.get("jobs?withTotalCount=true&limit=1&state=RUNNING,WAITING")
    assert (found["totalCount"], names(found["data"])) == (2, ["d"])
    row = found["data"][0]
    assert [row[key] for key in ("totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber")] == [1, 1, 1]
    assert (row["tags"], row["jobPriority"], row["virtualCluster"]) == (["slow", "odd"], "test", "vision")


def test_a_filter_that_cannot_be_is_refused(world: World, pai: Pai, subtests: pytest.Subtests) -> None:
    for query in [
        "order=name",
        "order=secret,ASC",
        "order=jobName,UP",
        "limit=50001",
        "limit=x",
        "offset=-1",
        "state=RUN",
        "keyword=%00",
    ]:
        with subtests.test(query=query):
            assert pai.refused("GET", f"jobs?{query}") == (400, "InvalidParametersError")


def test_a_long_list_takes_no_more_queries_than_a_short_one(
    world: World, pai: Pai, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    world.node("gpu01")
    for index in range(12):
        world.submit(name=f"j{index}")
    pai.get("jobs")  # a token's first use of a day is noted
    with django_assert_max_num_queries(6):
        assert len(pai.get("jobs?withTotalCount=true")["data"]) == 12


# ---------------------------------------------------------------- tags


def test_tags_come_once_and_go(world: World, pai: Pai) -> None:
    world.node("gpu01")
    world.submit(name="a")
    for tag in ("slow", "odd one", "slow"):
        pai.done("PUT", "jobs/alice~a/tag", 200, {"value": tag})
    assert pai.get("jobs/alice~a")["tags"] == ["slow", "odd one"]
    pai.done("DELETE", "jobs/alice~a/tag", 200, {"value": "slow"})
    assert pai.refused("DELETE", "jobs/alice~a/tag", {"value": "slow"}) == (404, "NoTagError")
    assert pai.get("jobs/alice~a")["tags"] == ["odd one"]


@pytest.mark.parametrize("value", ["", "a,b", 7, "x" * 256, None])
def test_a_tag_that_a_filter_could_not_name_is_refused(world: World, pai: Pai, value: Any) -> None:
    world.node("gpu01")
    world.submit(name="a")
    assert pai.refused("PUT", "jobs/alice~a/tag", {"value": value}) == (400, "InvalidParametersError")


# ---------------------------------------------------------------- events


def test_events_come_newest_first_and_a_waiting_job_says_why(world: World, pai: Pai) -> None:
    world.node("gpu01", gpus=1)
    world.submit(name="a")
    world.settle()
    world.submit(name="b")
    world.cycle()
    events = pai.get("jobs/alice~b/events")
    assert [row["reason"] for row in events["data"]][0] == "FailedScheduling"
    assert "1 of its 1" in events["data"][0]["message"]
    running = pai.get("jobs/alice~a/events")["data"]
    assert running[-1]["reason"] == "Submitted"
    assert [row["lastTimestamp"] for row in running] == sorted((row["lastTimestamp"] for row in running), reverse=True)


def test_lists_end_at_so_many_and_say_how_many_there_are(
    world: World, pai: Pai, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.openpai.selectors.jobs.MOST_EVENTS", 2)
    monkeypatch.setattr("portal.openpai.selectors.jobs.MOST_JOBS", 2)
    world.node("gpu01")
    for name in "abc":
        world.submit(name=name)
    world.settle()
    every = JobEvent.objects.filter(job__name="a")
    assert every.count() > 2
    answer = pai.get("jobs/alice~a/events")
    assert (answer["totalCount"], len(answer["data"])) == (every.count(), 2)
    assert answer["data"][0]["uid"] == str(every.latest("id").pk)
    found = pai.get("jobs?limit=50000&withTotalCount=true")
    assert (found["totalCount"], [job["name"] for job in found["data"]]) == (3, ["c", "b"])
    assert [job["name"] for job in pai.get("jobs?limit=50000&offset=2")] == ["a"]


def test_events_are_filtered_by_their_type(world: World, pai: Pai) -> None:
    node = world.node("gpu01")
    world.submit(name="a")
    world.settle()
    node.finish(code=1)
    assert {row["type"] for row in pai.get("jobs/alice~a/events?type=Warning")["data"]} == {"Warning"}
    assert {row["type"] for row in pai.get("jobs/alice~a/events?type=Normal")["data"]} == {"Normal"}
    assert pai.refused("GET", "jobs/alice~a/events?type=odd") == (400, "InvalidParametersError")


@pytest.mark.parametrize("name", ["alice", "alice~", "~a", "alice~none", "alice~a-99999999999999999999", "a" * 400])
def test_a_name_that_names_no_job_is_not_found(world: World, pai: Pai, name: str) -> None:
    assert pai.refused("GET", f"jobs/{name}") == (404, "NoJobError")
