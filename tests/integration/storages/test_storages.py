"""Storages over REST: who sees which, what cannot be, and that none is taken from under a job."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import Node
from portal.jobs.models import Job
from portal.storages.models import Storage
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
DATA = {"name": "data", "root": "/mnt/data"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(world: World) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def made(admin: Api, **about: Any) -> Any:
    answer = admin.call("POST", "storages", {**DATA, **about})
    assert answer.status_code == 201, answer.content
    return answer


def test_a_storage_is_made_told_with_the_nodes_that_offer_it_and_changed(world: World, admin: Api) -> None:
    for name, root in (("gpu01", "/mnt"), ("gpu02", ""), ("gpu03", "/mnt")):
        world.node(name, root=root)
    Node.objects.filter(name="gpu03").update(health="lost")
    seen = made(admin, read_only=True, virtual_clusters=["vision"]).headers["ETag"]
    assert admin.get("storages/data") == {
        "name": "data", "kind": "path", "root": "/mnt/data", "export": "", "options": "", "read_only": True,
        "per_user": False, "must_be_mount": True, "jobs": False, "everyone": False, "virtual_clusters": ["vision"],
        "nodes": ["gpu01"], "missing": ["gpu02"], "untied": [], "unguarded": [],
    }  # fmt: skip
    change = {"kind": "nfs", "export": "filer:/data", "virtual_clusters": []}
    assert admin.call("PATCH", "storages/data", change, If_Match=seen).status_code == 200
    assert admin.call("PATCH", "storages/data", {"everyone": True}, If_Match=seen).status_code == 409
    entry = AuditEntry.objects.filter(action="storage").latest("id")
    assert (entry.before, entry.after) == (
        {"kind": "path", "export": "", "virtual_clusters": ["vision"]},
        {"kind": "nfs", "export": "filer:/data", "virtual_clusters": [], "servers": ["gpu01", "gpu02", "gpu03"]},
    )
    assert admin.call("DELETE", "storages/data").status_code == 204
    assert not Storage.objects.exists()


def test_who_changes_it_on_a_page_is_told_who_did_meanwhile(world: World, admin: Api) -> None:
    made(admin, virtual_clusters=["vision"])
    browser = Browser(person("second", ClusterRole.ADMIN))
    opened = browser.get("/storages/data").tags
    shown = {tag["name"]: tag.get("value", "") for kind, tag in opened if kind == "input" and "name" in tag}
    assert admin.call("PATCH", "storages/data", {"root": "/mnt/other"}).status_code == 200
    page = browser.send("/storages/data", **shown | {"kind": "path"})
    assert (page.status, "it is “/mnt/other” now" in page.text) == (409, True)
    words = "The last change: Made, changed or removed a storage, or changed who may use it (data) · "
    actor = AuditEntry.objects.filter(action="storage").latest("id").actor
    assert f"{words}{actor} · {timezone.now():%Y-%m-%d}" in page.text


BAD: dict[str, tuple[dict[str, Any], set[str]]] = {
    "no whole path": ({"root": "mnt/data"}, {"root"}),
    "all there is": ({"root": "/"}, {"root"}),
    "the folder above": ({"root": "/mnt/../etc"}, {"root"}),
    "written otherwise": ({"root": "/mnt/data/"}, {"root"}),
    "two slashes": ({"root": "//mnt/data"}, {"root"}),
    "the system's": ({"root": "/etc/ssl"}, {"root"}),
    "a line break": ({"root": "/mnt/a\nb"}, {"root"}),
    "NFS from nowhere": ({"kind": "nfs"}, {"export"}),
    "a path from somewhere": ({"export": "filer:/data"}, {"export"}),
    "job folders that nobody writes": ({"jobs": True, "read_only": True, "root": "/"}, {"read_only", "root"}),
    "no such team": ({"virtual_clusters": ["none"]}, {"virtual_clusters"}),
    "a name with a slash": ({"name": "a/b"}, {"name"}),
    "misspelt": ({"readonly": True}, {"readonly"}),
    "a text for a truth": ({"read_only": "yes"}, {"read_only"}),
}


@pytest.mark.parametrize("case", BAD)
def test_a_storage_that_cannot_be_is_refused_with_every_fault(admin: Api, case: str) -> None:
    about, paths = BAD[case]
    answer = admin.call("POST", "storages", {**DATA, **about})
    assert answer.status_code == 400, answer.content
    assert {fault["path"] for fault in answer.json()["errors"]} == paths
    assert not Storage.objects.exists()


@pytest.mark.parametrize(
    ("there", "about", "why"),
    [
        ({"root": "/mnt/data"}, {"root": "/mnt/data/alice/sets"}, "inside /mnt/data, the folder of there"),
        ({"root": "/mnt/data", "jobs": True}, {"root": "/mnt/data/x", "read_only": True}, "inside /mnt/data"),
        ({"root": "/mnt/data/jobs", "jobs": True}, {"root": "/mnt/data"}, "around /mnt/data/jobs, the folder of there"),
        ({"root": "/mnt/data"}, {"root": "/mnt/data", "jobs": True}, "job folders need one of their own"),
        ({"root": "/mnt/data", "read_only": True}, {"root": "/mnt/data/sets"}, ""),
        ({"root": "/mnt/data/sets"}, {"root": "/mnt/data", "read_only": True}, ""),
        ({"root": "/mnt/data"}, {"root": "/mnt/data"}, "could put a link in place of a user's folder"),
        ({"root": "/mnt/data"}, {"root": "/mnt/data", "per_user": True}, "could put a link in place of a user's"),
        ({"root": "/mnt/data", "per_user": True, "read_only": True}, {"root": "/mnt/data"}, "could put a link"),
        ({"root": "/mnt/data", "per_user": True}, {"root": "/mnt/data", "per_user": True, "read_only": True}, ""),
        ({"root": "/mnt/data", "read_only": True}, {"root": "/mnt/data"}, ""),
        ({"root": "/mnt/data", "read_only": True}, {"root": "/mnt/data", "per_user": True}, ""),
        ({"root": "/mnt/data"}, {"root": "/mnt/data2"}, ""),
    ],
)  # fmt: skip
def test_jobs_write_in_none_where_the_folder_of_another_is_found_by_its_name(
    admin: Api, there: dict[str, Any], about: dict[str, Any], why: str
) -> None:
    made(admin, name="there", **there)
    answer = admin.call("POST", "storages", {**DATA, **about})
    faults = [(fault["path"], fault["code"], why in fault["message"]) for fault in answer.json().get("errors", ())]
    assert (answer.status_code, faults) == ((400, [("root", "nested", True)]) if why else (201, []))
    assert admin.call("PATCH", "storages/there", {"everyone": True}).status_code == 200, "what is there may stay"


def test_a_storage_of_the_same_folder_is_not_made_one_that_jobs_write_all_over(admin: Api) -> None:
    made(admin, name="there", per_user=True)
    made(admin, per_user=True)
    answer = admin.call("PATCH", "storages/data", {"per_user": False})
    assert [(fault["path"], fault["code"]) for fault in answer.json()["errors"]] == [("root", "nested")]
    assert Storage.objects.get(name="data").per_user


def test_a_name_is_given_once_and_job_folders_lie_in_one_storage(admin: Api) -> None:
    made(admin, jobs=True)
    made(admin, name="more", root="/mnt/more")
    assert admin.call("POST", "storages", DATA).status_code == 409
    for method, path, body in (
        ("POST", "storages", {"name": "third", "root": "/mnt/third", "jobs": True}),
        ("PATCH", "storages/more", {"jobs": True}),
    ):
        answer = admin.call(method, path, body)
        assert (answer.status_code, "lie in data" in answer.json()["detail"]) == (409, True)


def test_while_a_job_uses_it_it_stays_where_it_is(world: World, admin: Api) -> None:
    world.node("gpu01", root="/mnt")
    made(admin, virtual_clusters=["vision"])
    extras = {"storages": [{"name": "data"}], "gangAllocation": True}
    job = world.submit(name="reads", extras=extras)
    for method, body in (("DELETE", None), ("PATCH", {"root": "/mnt/else"})):
        answer = admin.call(method, "storages/data", body)
        assert (answer.status_code, "alice/reads#1" in answer.json()["detail"]) == (409, True), answer.content
    assert admin.call("PATCH", "storages/data", {"everyone": True, "root": "/mnt/data"}).status_code == 200
    Job.objects.filter(pk=job.pk).update(state="stopped", ended_at=timezone.now())
    assert admin.call("PATCH", "storages/data", {"root": "/mnt/else"}).status_code == 200
    assert admin.call("DELETE", "storages/data").status_code == 204


def test_all_that_is_wrong_with_a_change_is_told_at_once(admin: Api) -> None:
    made(admin)
    body = {"root": "data", "export": "filer:/data", "virtual_clusters": ["nowhere", "vision"], "everyone": True}
    answer = admin.call("PATCH", "storages/data", body)
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == ["root", "export", "virtual_clusters"]
    assert not Storage.objects.get().everyone


def test_the_storage_of_job_folders_is_used_by_every_job(world: World, admin: Api) -> None:
    world.node("gpu01", root="/mnt/data")
    made(admin, jobs=True)
    assert admin.get("storages/data")["nodes"] == ["gpu01"]
    world.submit()
    assert admin.call("DELETE", "storages/data").status_code == 409
    assert admin.call("PATCH", "storages/data", {"jobs": False}).status_code == 409


def test_one_sees_what_ones_jobs_may_mount(world: World, admin: Api) -> None:
    other = vc_create(name="other", now=world.now)
    member_set(vc=other, user=person("charlie"), role="member", now=world.now)
    made(admin, virtual_clusters=["vision"])
    made(admin, name="all", root="/mnt/all", everyone=True)
    made(admin, name="theirs", root="/mnt/theirs", virtual_clusters=["other"], jobs=True)
    alice, auditor = Api(world.user), Api(person("audit", ClusterRole.AUDITOR))
    assert alice.names("storages", "name") == ["all", "data"]
    assert alice.call("GET", "storages/theirs").status_code == 404
    assert auditor.names("storages", "name") == ["all", "data", "theirs"]
    found = {query: admin.names(f"storages?{query}", "name") for query in ("name=A", "vc=other", "jobs=true")}
    assert found == {"name=A": ["all", "data"], "vc=other": ["theirs"], "jobs=true": ["theirs"]}
    assert alice.call("PATCH", "storages/data", {"everyone": True}).status_code == 403
    assert alice.call("PATCH", "storages/theirs", {"everyone": True}).status_code == 404
