"""What clients of OpenPAI ask for that stands in no document of its API: v1, other spellings, its portal's pages."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from portal.accounts.models import Audited, AuditEntry
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import HOST, person
from tests.support.people.pages import Browser
from tests.support.run.waiting import early_in_a_minute

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse

pytestmark = pytest.mark.django_db


def asked(method: str, path: str, body: Any = None, token: str = "") -> _MonkeyPatchedWSGIResponse:
    """Of any address below the portal's."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = "" if body is None else json.dumps(body)
    return Client(HTTP_HOST=HOST).generic(method, path, data, "application/json", headers=headers)


@pytest.mark.parametrize("way", ["token", "token/", "authn/basic/login", "authn/basic/login/"])
def test_v1_signs_in_and_tells_of_a_user(world: World, way: str) -> None:
    told = asked("POST", f"/rest-server/api/v1/{way}", {"username": "alice", "password": "correct horse"}).json()
    assert (told["user"], told["admin"], told["hasGitHubPAT"]) == ("alice", False, False)
    found = asked("GET", "/rest-server/api/v1/user/alice", token=told["token"]).json()
    assert (found["username"], found["virtualCluster"]) == ("alice", ["vision"])
    assert asked("GET", "/rest-server/api/v1/user/alice").json()["code"] == "UnauthorizedUserError"


def test_tries_at_passwords_count_together_whichever_way_they_come_and_are_noted(world: World) -> None:
    early_in_a_minute()
    ways = ("v1/token", "v1/authn/basic/login", "v2/authn/basic/login")
    wrong = {"username": "alice", "password": "wrong"}
    statuses = [asked("POST", f"/rest-server/api/{ways[n % 3]}", wrong).status_code for n in range(12)]
    assert statuses[0] == 400
    assert statuses[-1] == 429
    refused = AuditEntry.objects.filter(action=Audited.SIGN_IN_REFUSED, target="alice").count()
    assert refused == statuses.count(400)
    right = {"username": "alice", "password": "correct horse"}
    assert asked("POST", "/rest-server/api/v1/token", right).status_code == 429


def test_other_spellings_of_v2_answer_the_same(world: World, pai: Pai) -> None:
    for plural, singular in (("users/alice", "user/alice"), ("groups", "group"), ("storages", "storage")):
        assert pai.get(singular) == pai.get(plural)
    assert pai.get("groups/vision") == pai.get("group/vision")
    assert Pai().get("authn/info") == {
        "authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post",
    }  # fmt: skip
    right = {"username": "alice", "password": "correct horse"}
    assert Pai().done("POST", "tokens", 200, right)["user"] == "alice"
    assert Pai().refused("GET", "tokens") == (401, "UnauthorizedUserError")


def test_whose_token_it_is_is_told_and_no_more(world: World, pai: Pai) -> None:
    application = pai.done("POST", "tokens/application", 200)["token"]
    told = {"username": "alice", "application": False, "admin": False}
    assert pai.get("tokens/check") == told
    assert Pai(token=application).get("tokens/check") == {**told, "application": True}
    assert Pai().refused("GET", "tokens/check") == (401, "UnauthorizedUserError")


def test_v1_tells_of_tokens_and_ends_them(world: World, pai: Pai) -> None:
    v1 = "/rest-server/api/v1"
    made = asked("POST", f"{v1}/token/application", token=pai.token).json()["token"]
    assert asked("GET", f"{v1}/token/check", token=made).json()["username"] == "alice"
    assert len(asked("GET", f"{v1}/token", token=pai.token).json()["tokens"]) == 2
    assert asked("DELETE", f"{v1}/token/{made}", token=pai.token).status_code == 200
    assert asked("GET", f"{v1}/token/check", token=made).json()["code"] == "UnauthorizedUserError"


def test_an_applications_token_may_be_the_password_of_its_user(world: World, pai: Pai) -> None:
    application = pai.done("POST", "tokens/application", 200)["token"]

    def named(given: bytes) -> tuple[int, str]:
        client = Client(HTTP_HOST=HOST)
        header = {"Authorization": f"Basic {b64encode(given).decode()}"}
        answer = client.get("/rest-server/api/v2/tokens/check", headers=header)
        return answer.status_code, answer.json().get("username", answer.json().get("code"))

    assert named(f"alice:{application}".encode()) == (200, "alice")
    person("bob")
    for wrong in (f"bob:{application}", f"alice:{pai.token}", "alice:correct horse", "alice", ""):
        assert named(wrong.encode()) == (401, "UnauthorizedUserError")
    assert named(b"\xff:\xff") == (401, "UnauthorizedUserError")


@pytest.mark.parametrize("path", ["v1", "v1/", "v2", "v2/"])
def test_the_head_of_the_api_tells_of_the_cluster(db: None, path: str) -> None:
    told = asked("GET", f"/rest-server/api/{path}")
    assert (told.status_code, told.json()["launcherType"]) == (200, "k8s")


@pytest.mark.parametrize("path", ["", "/", "/api", "/api/v1/nothing", "/api/v3/jobs", "/nothing.html"])
def test_an_address_that_nobody_serves_is_told_as_openpai_does(db: None, path: str) -> None:
    for method in ("GET", "POST"):
        answer = asked(method, f"/rest-server{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")


@pytest.mark.parametrize("kind", ["text/plain", "text/x-yaml; charset=utf-8", "text/html"])
def test_a_job_file_may_come_as_any_text(world: World, pai: Pai, kind: str) -> None:
    world.node("gpu01")
    assert pai.call("POST", "jobs", job_file(name="plain"), kind=kind).status_code == 202


def test_openpais_address_of_a_jobs_page_leads_to_the_job(world: World, pai: Pai) -> None:
    world.node("gpu01")
    job = world.submit(name="train")
    address = "/job-detail.html?username=alice&jobName=train"
    assert Browser(world.user).get(address).headers["Location"] == f"/jobs/{job.pk}"
    assert Browser().get(address).headers["Location"].startswith("/login?next=/job-detail.html")
    assert Browser(person("bob")).get(address).status == 404
    for page, ours in (("job-list", "/jobs"), ("submit", "/submit")):
        assert Browser(world.user).get(f"/{page}.html?x=1").headers["Location"] == ours
    for wrong in ("", "?username=alice", "?jobName=train", "?username=alice&jobName=%00"):
        assert Browser(world.user).get(f"/job-detail.html{wrong}").status == 404
