"""Job templates over REST: whose they are, what is refused, and the way from a template to a job."""

from __future__ import annotations

from typing import Any

import pytest

from portal.accounts.models import AuditEntry, ClusterRole
from portal.teams.services.teams import member_set, vc_create, vc_remove
from portal.templates.models import JobTemplate
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, cast_of, person

pytestmark = pytest.mark.django_db
WITH_PARAMETERS = job_file(commands=["echo <% $parameters.word %>"], parameters={"word": "hello"})


def body(name: str = "train", **more: Any) -> dict[str, Any]:
    return {"name": name, "file": WITH_PARAMETERS, **more}


def make(api: Api, **about: Any) -> Any:
    answer = api.call("POST", "templates", body(**about))
    assert answer.status_code == 201, answer.content
    return answer


def test_a_template_comes_back_as_it_was_typed_and_its_file_becomes_a_job(world: World) -> None:
    world.node("gpu01")
    alice = Api(world.user)
    made = make(alice, description="d").json()
    found = alice.get(f"templates/{made['id']}")
    assert (found["file"], found["visibility"], found["vc"], found["author"]) == (
        WITH_PARAMETERS, "private", None, "alice",
    )  # fmt: skip
    assert alice.call("POST", "jobs", found["file"], kind="text/yaml").status_code == 201


def test_whose_templates_somebody_reads_and_writes(world: World) -> None:
    cast = {name: Api(one) for name, one in cast_of(world.vc, world.user).items()}
    private = make(cast["member"], name="mine").json()["id"]
    team = make(cast["lead"], name="ours", vc="vision").json()["id"]
    public = make(cast["admin"], name="all", public=True).json()["id"]
    seen = {name: set(api.names("templates", "id")) for name, api in cast.items()}
    assert seen == {
        "member": {private, team, public},
        **dict.fromkeys(["lead", "group_lead", "group_member", "admin", "auditor"], {team, public}),
        **dict.fromkeys(["owner", "other", "nobody"], {public}),
    }
    change = {"description": "changed"}
    statuses = {
        (name, key): cast[name].call("PATCH", f"templates/{key}", change).status_code
        for name in ("member", "group_lead", "auditor", "admin", "other")
        for key in (private, team, public)
    }
    assert statuses == {
        ("member", private): 200, ("member", team): 403, ("member", public): 403,
        ("group_lead", private): 404, ("group_lead", team): 200, ("group_lead", public): 403,
        ("auditor", private): 404, ("auditor", team): 403, ("auditor", public): 403,
        ("admin", private): 404, ("admin", team): 200, ("admin", public): 200,
        ("other", private): 404, ("other", team): 404, ("other", public): 403,
    }  # fmt: skip
    for name, where, status in (("member", {"vc": "vision"}, 403), ("lead", {"public": True}, 403)):
        assert cast[name].call("POST", "templates", body(name="new", **where)).status_code == status
    assert cast["lead"].call("POST", "templates", body(name="new", vc="nowhere")).status_code == 404


def test_a_name_is_given_once_in_each_home(world: World) -> None:
    root = person("root", ClusterRole.ADMIN)
    member_set(vc=world.vc, user=root, role="lead", now=world.now)
    api = Api(root)
    homes: list[dict[str, Any]] = [{}, {"vc": "vision"}, {"public": True}]
    for where in homes:
        make(api, **where)
        assert api.call("POST", "templates", body(**where)).status_code == 409
    other = make(api, name="other").json()["id"]
    assert api.call("PATCH", f"templates/{other}", {"name": "train"}).status_code == 409
    found = {query: len(api.names(f"templates?{query}", "id")) for query in (
        "visibility=private", "visibility=vc", "visibility=public", "vc=vision", "name=RAI", "vc=none",
    )}  # fmt: skip
    assert found == {
        "visibility=private": 2, "visibility=vc": 1, "visibility=public": 1, "vc=vision": 1, "name=RAI": 3,
        "vc=none": 0,
    }  # fmt: skip


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no job file": ({"file": "hello"}, "file"),
    "a role without image": ({"file": job_file(role={"dockerImage": "none"})}, "file.taskRoles.worker.dockerImage"),
    "secrets": ({"file": job_file(secrets={"key": "tops3cret"})}, "file.secrets"),
    "both homes": ({"vc": "vision", "public": True}, "public"),
    "a name with a slash": ({"name": "a/b"}, "name"),
    "misspelt": ({"visibility": "public"}, "visibility"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_template_that_cannot_be_is_refused_with_its_place(world: World, case: str) -> None:
    about, path = BAD[case]
    answer = Api(world.user).call("POST", "templates", {**body(), **about})
    assert answer.status_code == 400, answer.content
    assert path in [fault["path"] for fault in answer.json()["errors"]]
    assert "tops3cret" not in answer.content.decode()
    assert not JobTemplate.objects.exists()


def test_two_who_edit_at_once_learn_of_each_other(world: World) -> None:
    api = Api(world.user)
    made = make(api)
    where, seen = f"templates/{made.json()['id']}", made.headers["ETag"]
    assert api.call("PATCH", where, {"file": job_file(name="b")}, If_Match=seen).status_code == 200
    assert api.call("PATCH", where, {"file": job_file(name="c")}, If_Match=seen).status_code == 409
    assert api.call("PATCH", where, {}).status_code == 400
    bad = api.call("PATCH", where, {"file": "- a list"})
    assert (bad.status_code, JobTemplate.objects.get().file) == (400, job_file(name="b"))
    assert api.call("DELETE", where).status_code == 204
    told = AuditEntry.objects.filter(action="template", target="train of alice").order_by("id")
    assert [(set(one.before or {}), set(one.after or {})) for one in told] == [
        (set(), {"name", "description", "file"}), ({"file"}, {"file"}), ({"name", "description", "file"}, set()),
    ]  # fmt: skip


def test_a_removed_team_takes_its_templates_along(world: World) -> None:
    vc = vc_create(name="other", now=world.now)
    member_set(vc=vc, user=world.user, role="lead", now=world.now)
    make(Api(world.user), vc="other")
    vc_remove(vc=vc, now=world.now, actor="root")
    assert not JobTemplate.objects.exists()


def test_the_gallery_is_there_for_everybody_who_is_signed_in(world: World) -> None:
    found = Api(person("new")).get("samples")["samples"]
    assert {"hello", "jupyter"} <= {one["name"] for one in found}
    assert all(one["file"] and one["description"] and one["group"] for one in found)
    assert Api().call("GET", "samples").status_code == 401
