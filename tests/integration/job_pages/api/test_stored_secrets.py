"""Secrets and registry log-ins that people and teams have stored: jobs get them, nobody is shown them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from nodes.protocol.messages import ContainerSpec
from portal.accounts.models import AuditEntry
from portal.common.sealing import unseal
from portal.hardware.models import Node
from portal.jobs.models import Job, JobAttempt, TaskAttempt
from portal.jobs.services.submit import job_submit
from portal.node_orders.services.container_spec import RUN_COLUMNS, Run, attempts_facts, container_spec
from portal.secrets.models import SecretKind, StoredSecret
from portal.secrets.services import MOST_STORED, secret_set
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person

pytestmark = pytest.mark.django_db

REFERS = job_file(commands=["login <% $secrets.key %> <% $secrets.mail.password %>"])
PRIVATE = [{"name": "image", "type": "dockerimage", "uri": "registry.example.org:5000/team/torch:2"}]


def put(api: Api, path: str, **body: Any) -> int:
    return api.call("PUT", path, body).status_code


def submit(api: Api, text: str) -> Any:
    return api.call("POST", "jobs", text, kind="text/yaml")


def submitted(world: World, text: str) -> Job:
    return job_submit(user=world.user, text=text, now=timezone.now())


def secrets_of_job(job: Job) -> Any:
    return unseal(Job.objects.get(pk=job.pk).secrets_sealed)


def made_spec() -> ContainerSpec:
    """That of the only task attempt."""
    run = Run(*TaskAttempt.objects.values_list(*RUN_COLUMNS).get())
    facts, _ = attempts_facts([*JobAttempt.objects.select_related("job__user", "job__vc")])
    return container_spec(facts[run.job_attempt], run, Node.objects.get(), [])


def test_a_job_finds_what_is_stored_in_its_container_and_nowhere_else(world: World, api: Api) -> None:
    world.node("gpu01", gpus=1)
    assert put(api, "secrets/key", value="of-alice-9f3") == 204
    assert put(api, "virtual-clusters/vision/secrets/mail", value={"password": "of-vision-77a"}) == 403
    assert (
        put(Api(person_lead(world)), "virtual-clusters/vision/secrets/mail", value={"password": "of-vision-77a"}) == 204
    )
    answer = submit(api, REFERS)
    assert answer.status_code == 201, answer.content
    world.settle()
    spec = made_spec()
    assert "login of-alice-9f3 of-vision-77a" in spec.script
    assert set(spec.hidden) == {"of-alice-9f3", "of-vision-77a"}
    shown = [
        api.call("GET", f"jobs/{answer.json()['id']}{part}").content for part in ("", "/config", "/events", "/tasks")
    ]
    shown += [api.call("GET", path).content for path in ("secrets", "virtual-clusters/vision/secrets")]
    kept = [*StoredSecret.objects.values_list("sealed"), *Job.objects.values_list("spec", "config", "secrets_sealed")]
    kept += AuditEntry.objects.values_list("target", "before", "after")
    for secret in ("of-alice-9f3", "of-vision-77a"):
        assert secret not in repr(shown) + repr(kept)
    assert [row["name"] for row in api.get("secrets")["results"]] == ["key"]


@pytest.mark.parametrize("path", ["validate", "estimates", "jobs"])
def test_no_refusal_shows_what_is_stored(world: World, api: Api, path: str) -> None:
    """A file may be checked with a token that only reads, and by every member of the team."""
    world.node("gpu01", gpus=1)
    stored(world, world.user, "key", "of-alice-9f3")
    stored(world, world.vc, "mail", {"password": "of-vision-77a"})
    names = ["<% $secrets.key %>", "of <% $secrets.mail.password %>", "<% $secrets.given %>"]
    text = job_file(secrets={"given": "of-file-51c"}, extras={"storages": [{"name": name} for name in names]})
    answer = api.call("POST", path, text, kind="text/yaml")
    told = answer.content.decode()
    assert told.count("vision has no storage ******; it has: none") >= len(names)
    assert not [secret for secret in ("of-alice-9f3", "of-vision-77a", "of-file-51c") if secret in told]


def person_lead(world: World) -> Any:
    lead = person("lead")
    member_set(vc=world.vc, user=lead, role="lead", now=timezone.now())
    return lead


def stored(world: World, owner: Any, name: str, value: Any, kind: SecretKind = SecretKind.SECRET) -> None:
    secret_set(owner=owner, kind=kind, name=name, value=value, username="robot", actor="root", now=world.now)


def test_the_file_goes_first_then_the_users_then_the_teams(world: World) -> None:
    world.node("gpu01", gpus=1)
    elsewhere = vc_create(name="elsewhere", now=world.now)
    for owner, value in (
        (world.vc, "team's"),
        (world.user, "alice's"),
        (person("bob"), "bob's"),
        (elsewhere, "theirs"),
    ):
        stored(world, owner, "key", value)
    one = job_file(commands=["<% $secrets.key %>"])
    assert secrets_of_job(submitted(world, one)) == {"key": "alice's"}
    given = job_file(name="given", commands=["<% $secrets.key %>"], secrets={"key": "file's"})
    assert secrets_of_job(submitted(world, given)) == {"key": "file's"}
    StoredSecret.objects.filter(user=world.user).delete()
    assert secrets_of_job(submitted(world, one)) == {"key": "team's"}


def test_a_job_keeps_what_was_stored_when_it_was_submitted_and_its_clone_takes_what_is_stored_then(
    world: World, api: Api
) -> None:
    world.node("gpu01", gpus=1)
    put(api, "secrets/key", value="old")
    put(api, "secrets/mail", value={"password": "p"})
    first = Job.objects.get(pk=submit(api, REFERS).json()["id"])
    put(api, "secrets/key", value="new")
    clone = Job.objects.get(pk=submit(api, first.config).json()["id"])
    assert (secrets_of_job(first)["key"], secrets_of_job(clone)["key"]) == ("old", "new")
    assert api.call("DELETE", "secrets/key").status_code == 204
    assert secrets_of_job(clone)["key"] == "new"


def test_what_is_stored_nowhere_is_named(world: World, api: Api) -> None:
    world.node("gpu01", gpus=1)
    put(api, "secrets/mail", value="a text, which has no password in it")
    answer = submit(api, REFERS)
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == ["secrets.key", "secrets.mail.password"]
    assert answer.json()["errors"][0]["message"].endswith("give it under secrets, or store it")
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("given", "username", "password"),
    [
        (None, "robot", "alice's"),
        ({"username": "file", "password": "file's", "registryuri": "registry.example.org:5000"}, "file", "file's"),
    ],
)
def test_images_are_pulled_with_the_log_in_of_their_server(
    world: World, given: dict[str, str] | None, username: str, password: str
) -> None:
    world.node("gpu01", gpus=1)
    for owner, value in ((world.vc, "team's"), (world.user, "alice's")):
        stored(world, owner, "registry.example.org:5000", value, SecretKind.REGISTRY)
    stored(world, world.user, "docker.io", "of another server", SecretKind.REGISTRY)
    image = {**PRIVATE[0], **({"auth": given} if given else {})}
    job = world.submit(prerequisites=[image])
    world.settle()
    auth = made_spec().auth
    assert auth is not None
    assert (auth.registry, auth.username, auth.password) == ("registry.example.org:5000", username, password)
    assert password not in json.dumps(Job.objects.get(pk=job.pk).spec)


def test_an_image_of_no_stored_server_is_pulled_without_a_log_in(world: World) -> None:
    world.node("gpu01", gpus=1)
    stored(world, world.user, "registry.example.org", "x", SecretKind.REGISTRY)
    assert secrets_of_job(world.submit()) == {}


@pytest.mark.parametrize(
    ("path", "body", "status", "fault"),
    [
        ("secrets/key", {"value": ""}, 400, "value"),
        ("secrets/key", {"value": 7}, 400, "value"),
        ("secrets/key", {"value": {}}, 400, "value"),
        ("secrets/key", {"value": {"a": 1}}, 400, "value"),
        ("secrets/key", {"value": "x" * 65_537}, 400, "value"),
        ("secrets/key", {"value": "a\x00b"}, 400, "value"),
        ("secrets/key", {}, 400, "value"),
        ("secrets/key", {"value": "x", "name": "y"}, 400, "name"),
        ("secrets/9key", {"value": "x"}, 404, None),
        ("registry-logins/a.example.org", {"username": "x"}, 400, "password"),
        ("registry-logins/a.example.org:x", {"username": "x", "password": "y"}, 404, None),
        ("virtual-clusters/none/secrets/key", {"value": "x"}, 404, None),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(
    api: Api, path: str, body: dict[str, Any], status: int, fault: str | None
) -> None:
    answer = api.call("PUT", path, body)
    assert answer.status_code == status, answer.content
    assert [one["path"] for one in answer.json().get("errors", [])] == ([fault] if fault else [])
    assert StoredSecret.objects.count() == 0


def test_so_many_are_stored_and_no_more(world: World, api: Api) -> None:
    for number in range(MOST_STORED):
        stored(world, world.user, f"key{number}", "x")
    answer = api.call("PUT", "secrets/onemore", {"value": "x"})
    assert (answer.status_code, answer.json()["detail"][:14]) == (409, f"{MOST_STORED} are stored")
    assert put(api, "secrets/key7", value="another") == 204


def test_what_was_never_stored_cannot_be_forgotten(api: Api) -> None:
    answers = [api.call("DELETE", path) for path in ("secrets/key", "registry-logins/a.example.org")]
    assert [answer.status_code for answer in answers] == [404, 404]


def test_a_file_that_uses_the_place_of_passwords_for_something_else_gets_the_stored_log_in(
    world: World, api: Api
) -> None:
    world.node("gpu01", gpus=1)
    assert put(api, "registry-logins/registry.example.org:5000", username="me", password="of-alice") == 204
    answer = submit(api, job_file(prerequisites=PRIVATE, secrets={"berth-registry-passwords": 5}))
    assert answer.status_code == 201, answer.content
    assert secrets_of_job(Job.objects.get()) == {"berth-registry-passwords": {"image": "of-alice"}}
