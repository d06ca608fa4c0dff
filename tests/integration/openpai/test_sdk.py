"""OpenPAI's published JavaScript SDK against the whole of Berth: its client classes, and its ``pai`` command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster.seed import PASSWORD
from tests.support.cluster.stack import Stack
from tests.support.people.person import Person, alice, job_file
from tests.support.people.reader import reader_of
from tests.support.services import openpai_sdk

pytestmark = pytest.mark.npm


@pytest.fixture(scope="module")
def user(embedded_stack: Stack) -> Person:
    return alice(embedded_stack)


@pytest.fixture(scope="module")
def told(embedded_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client classes were answered on a user's way."""
    home = tmp_path_factory.mktemp("home")
    file = home / "job.yaml"
    file.write_text(job_file("echo to-stdout", "echo to-stderr >&2", vc="research", name="sdk_job"))
    ended = openpai_sdk.run(
        "bash", "-c", 'exec node "$0" "$@" < "$HOME/job.yaml"', str(openpai_sdk.FOLDER / "journey.js"),
        embedded_stack.url, "alice", PASSWORD, "jobs", home=home,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    answers: dict[str, Any] = json.loads(ended.stdout)
    return answers


def test_the_client_signs_in_by_itself_and_learns_what_it_may_use(told: dict[str, Any]) -> None:
    assert (told["info"]["authnMethod"], told["user"]["username"]) == ("basic", "alice")
    assert told["user"]["virtualCluster"] == ["research"]
    assert told["virtualClusters"]["research"]["resourcesTotal"]["gpu"] == 2
    assert [one["name"] for one in told["storages"]["storages"]] == [told["storage"]["name"]] == ["jobs"]


def test_a_job_goes_its_way_from_submission_to_its_log(told: dict[str, Any]) -> None:
    assert told["submitted"] == {"message": "update job sdk_job successfully"}
    assert (told["job"]["jobStatus"]["state"], told["job"]["jobStatus"]["appExitCode"]) == ("SUCCEEDED", 0)
    assert told["attempt"]["jobStatus"] == told["job"]["jobStatus"]
    assert told["config"]["name"] == "sdk_job"
    assert told["task"]["attempts"][0]["containerExitCode"] == 0
    assert told["logs"]["stdout"].splitlines()[-1] == "to-stdout"
    assert told["logs"]["stderr"].splitlines()[-1] == "to-stderr"
    assert [one["isLatest"] for one in told["attempts"]] == [True]
    assert {"Submitted", "Running", "Succeeded"} <= {one["reason"] for one in told["events"]["data"]}


def test_a_job_is_found_by_its_tag_and_stopped(told: dict[str, Any]) -> None:
    assert [one["name"] for one in told["listed"]] == ["sdk_job"]
    assert told["stoppedJob"]["jobStatus"]["state"] == "STOPPED"


def test_refusals_arrive_as_the_clients_own_errors(told: dict[str, Any]) -> None:
    assert (told["again"]["status"], told["again"]["code"]) == (409, "ConflictJobError")
    assert (told["missing"]["type"], told["missing"]["status"]) == ("NoJobError", 404)
    assert (told["nodes"]["type"], told["nodes"]["status"]) == ("ForbiddenUserError", 403)


def test_tokens_are_made_listed_and_revoked(told: dict[str, Any]) -> None:
    assert told["application"]["application"] is True
    assert told["application"]["token"] not in told["tokens"]["tokens"]
    assert told["revoked"] == {"message": "revoke successfully"}
    assert told["left"] == {"message": "Logout successfully"}


# ---------------------------------------------------------------- the command


def test_the_pai_command_does_what_the_page_says(user: Person, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job_file("sleep 300", vc="research", name="pai_job"))
    words = {
        "my_job": "pai_job", "https://berth.example.org": user.stack.url, "TOKEN": user.stack.tokens["alice"],
    }  # fmt: skip
    runs = f'curl -s -H "Authorization: Bearer {user.stack.tokens["alice"]}" {user.stack.url}/api/v1/jobs?name=pai_job'
    until = f'until {runs} | grep -q \'"state":"running"\'; do sleep 0.2; done'
    with reader_of(tmp_path) as reader:
        command = openpai_sdk.PACKAGE / "lib" / "src" / "cli.js"
        reader.program("pai", f'exec {openpai_sdk.WITH_NODE} node {command} "$@"')
        before = {"pai listj berth": until}
        said = reader.section("docs/user/openpai.md", "Coming from OpenPAI", words=words, before=before)
    assert "update job pai_job successfully" in said["pai subj berth job.yaml"]
    assert "pai_job" in said["pai listj berth"]
    told = yaml.safe_load(said["pai getj berth my_job"])
    (task,) = told["taskRoles"]["worker"]["taskStatuses"]
    ssh = said["pai ssh berth my_job"].split()
    assert ssh[0] == "ssh"
    assert ssh[ssh.index("-p") + 1] == str(task["containerPorts"]["ssh"])
    assert ssh[-1] == task["containerIp"] == "127.0.0.1"
    assert '"name": "jobs"' in said["pai lists berth"]
    (job,) = [one["id"] for one in user.get("/jobs?name=pai_job")["results"]]
    user.stop(job)
