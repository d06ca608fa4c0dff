"""The audit log: every change has an entry that says who, what, before and after, from where; nothing deletes one."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib import admin
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from portal.accounts.models import Audited, AuditEntry, ClusterRole, Token
from portal.accounts.services import user_create
from portal.jobs.models import Job
from portal.teams.models import Membership
from portal.teams.services.teams import member_set
from tests.integration.accounts.matrix import CASES, SILENCED, STRANGER, TOMORROW
from tests.integration.accounts.test_rights import ask, in_an_order_that_works, kept, scene
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, Api, person

pytestmark = pytest.mark.django_db

__all__ = ["kept", "scene"]

HAS = {
    "cpu_milli": 32_000, "memory_mb": 131_072, "address": "127.0.0.1", "runtime": "docker", "simulated": True,
    "storages": [], "gpus": {"NVIDIA A100": [1, 80_000]},
}  # fmt: skip
BEFORE_AND_AFTER: dict[str, tuple[str, str, Any, Any]] = {
    "job_submit": ("job.submit", "admin/second#1", None, {"priority": 10, "tasks": 1, "gpus": 1}),
    "job_stop": ("job.stop", "alice/secret#2", {"state": "waiting"}, {"state": "stopped"}),
    "job_tag": ("job.tag", "alice/secret#2", {"tags": []}, {"tags": ["mine"]}),
    "job_change_priority": ("job.priority", "alice/secret#2", {"priority": 10}, {"priority": -1}),
    "job_place": ("job.order", "alice/secret#2", {"place": 1}, {"place": 1}),
    "job_bulk": ("job.tag", "alice/secret#2", {"tags": []}, {"tags": ["b"]}),
    "job_pause": ("job.pause", "alice/secret#2", None, None),
    "node_set_intent": (
        "node.intent", "gpu01", {"intent": "open", "reason": ""}, {"intent": "cordoned", "reason": ""},
    ),
    "node_accept": (
        "node.accept", "gpu02", HAS, HAS | {"cpu_milli": 640_000, "storages": ["/more"]},
    ),  # fmt: skip
    "node_set_cpu_tasks": ("node.cpu_tasks", "gpu02", {"cpu_tasks": True}, {"cpu_tasks": False}),
    "node_give_up": (
        "node.give_up", "gpu02", {"health": "healthy"}, {"health": "lost", "reason": "its disk died"},
    ),
    "node_put_back": ("node.put_back", "gpu02", {"gpus": {}, "out": "device_fault"}, {"reason": "repaired"}),
    "virtual_cluster_set_rules": ("vc.rules", "vision", {"user_gpus": None}, {"user_gpus": 9}),
    "member_set": ("vc.member", "nobody", None, {"role": "member"}),
    "member_remove": ("vc.member", "extra", {"role": "member"}, None),
    "virtual_cluster_create": ("vc.create", "new", None, None),
    "virtual_cluster_remove": ("vc.remove", "idle", {"quota": {}}, None),
    "virtual_cluster_secret_set": ("secret", "secret key of vision", None, {}),
    "virtual_cluster_registry_login_delete": (
        "secret", "registry stored.example.org of vision", {"username": ""}, None,
    ),
    "user_create": ("user.create", "new", None, {"email": "", "role": "user", "uid": 5001}),
    "user_change": ("user.change", "spare", {"email": ""}, {"email": "spare@example.org"}),
    "user_set_password": ("user.password", "spare", None, None),
    "group_change": ("group", "spares", {"description": ""}, {"description": "d"}),
    "group_member_add": ("group", "extra", None, {"group": "spares"}),
    "template_change": ("template", "ours of vision", {"description": ""}, {"description": "d"}),
    "image_allow": (
        "images", "the cluster", None, {"pattern": "registry.example.org/*", "profile": "root", "note": ""},
    ),
    "image_disallow": ("images", "vision", {"pattern": "*", "profile": "root", "note": ""}, None),
    "idle_policy_set": (
        "idle.policy", "the cluster", None,
        {"action": "warn", "percent": 9, "minutes": 60, "after_minutes": 60, "extensions": 2, "extension_minutes": 60},
    ),
    "virtual_cluster_idle_policy_set": ("idle.policy", "vision", {"percent": 5}, {"percent": 9}),
    "idle_exemption_add": ("idle.exemption", "vision", None, {"user": "alice", "reason": "r"}),
    "idle_exemption_remove": ("idle.exemption", "vision", {"pattern": "n*", "reason": "r"}, None),
    "alert_silence_set": (
        "alert.silence", f"container_unknown:node:gpu01/{STRANGER}", None,
        {"reason": "r", "severity": "warning", "until": TOMORROW.isoformat()},
    ),
    "alert_silence_end": (
        "alert.silence", SILENCED, {"reason": "r", "severity": "critical", "until": TOMORROW.isoformat()}, None,
    ),
    "storage_tie": (
        "storage.tie", "data", {"node": "gpu01", "tied": False}, {"node": "gpu01", "tied": True},
    ),
    "storage_change": ("storage", "data", {"per_user": False}, {"per_user": True}),
    "firm_right_set": ("vc.firm_right", "alice", None, {"gpus": 1, "last_day": "2999-01-01"}),
}  # fmt: skip
"""Operation -> the entry that it leaves."""

CHANGE_NOTHING = {
    "job_validate", "job_estimate",
    "cluster_import", "quota_set", "quota_change_plan", "node_remove",  # asked as a dry run
    "job_move",  # into the virtual cluster where it is
    "webhook_set",  # as it is
}  # fmt: skip


ALSO = {"group_remove": {Audited.VC_MEMBER}}
"""Entries of what goes with it."""


def entries(**wanted: Any) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(**wanted).order_by("id"))


CHANGING = [name for name in in_an_order_that_works() if CASES[name].method != "GET" and CASES[name].granted != (409,)]
OF_JOBS = [name for name in CHANGING if "{job}" in CASES[name].path or name == "job_bulk"]


@pytest.mark.parametrize("name", OF_JOBS)
def test_each_change_of_a_job_leaves_one_entry(scene: Any, name: str) -> None:
    api = Api(scene.people["admin"])
    if name == "job_resume":
        api.call("POST", f"jobs/{scene.waiting.pk}/pause")
    leaves_its_entry(name, scene, api)


def test_each_other_operation_that_changes_something_leaves_one_entry(scene: Any) -> None:
    api = Api(scene.people["admin"])
    for name in CHANGING:
        if name not in OF_JOBS:
            leaves_its_entry(name, scene, api)


def leaves_its_entry(name: str, scene: Any, api: Api) -> None:
    last = AuditEntry.objects.latest("id").pk if AuditEntry.objects.exists() else 0
    case = CASES[name]
    answer = ask(api, case, scene)
    assert answer.status_code in (200, 201, 202, 204), (name, answer.content)
    found = [one for one in entries(pk__gt=last) if one.action not in {Audited.TOKEN_USE, *ALSO.get(name, ())}]
    if name in CHANGE_NOTHING:
        assert found == [], name
        return
    assert len(found) == 1, name
    (entry,) = found
    assert (entry.actor, entry.via, entry.address) == ("admin", f"token {api.token.prefix}", "127.0.0.1")
    if name in BEFORE_AND_AFTER:
        assert (entry.action, entry.target, entry.before, entry.after) == BEFORE_AND_AFTER[name], name


def test_what_is_refused_leaves_no_entry(scene: Any) -> None:
    api = Api(scene.people["other"])
    before = AuditEntry.objects.exclude(action=Audited.TOKEN_USE).count()
    for case in (one for one in CASES.values() if one.method != "GET"):
        ask(api, case, scene)
    assert AuditEntry.objects.exclude(action=Audited.TOKEN_USE).count() == before


def test_done_twice_is_told_once(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()
    api = Api(world.user)
    for _ in range(2):
        api.call("POST", f"jobs/{job.pk}/pause")
    member_set(vc=world.vc, user=person("bob"), role="member", now=world.now, actor="root")
    assert len(entries(action=Audited.JOB_PAUSE)) == 1


def test_quotas_are_told_by_virtual_cluster_with_what_they_were(scene: Any) -> None:
    line = {"vc": "vision", "cell_type": "A100", "count": 0}
    body = {"lines": [line], "reason": "a smaller team"}
    answer = Api(scene.people["admin"]).call("PATCH", "quotas", body)
    assert answer.status_code == 200, answer.content
    (entry,) = entries(action=Audited.QUOTA, actor="admin")
    assert (entry.vc, entry.before, entry.after) == ("vision", {"A100": 1}, {"A100": 0, "reason": "a smaller team"})


def test_signing_in_and_failing_to_is_told_with_the_address_and_never_the_password() -> None:
    user_create(username="carol", password="a very long one 1")  # noqa: S106
    for password in ("wrong", "a very long one 1"):
        Client(HTTP_HOST=HOST).post("/login", {"username": "carol", "password": password}, REMOTE_ADDR="192.0.2.7")
    refused, done = entries(action__in=[Audited.SIGN_IN, Audited.SIGN_IN_REFUSED])
    assert (refused.action, refused.actor, refused.target, refused.address) == (
        "sign_in.refused", "", "carol", "192.0.2.7",
    )  # fmt: skip
    assert (done.action, done.actor, done.via, done.address) == ("sign_in", "carol", "web", "192.0.2.7")
    assert "very long" not in json.dumps([*AuditEntry.objects.values("target", "before", "after")])


@pytest.mark.parametrize(("address", "told"), [("fe80::1%eth0", "fe80::1"), ("unknown", None)])
def test_an_address_that_no_database_takes_keeps_nobody_from_signing_in(address: str, told: str | None) -> None:
    user_create(username="carol", password="a very long one 1")  # noqa: S106
    form = {"username": "carol", "password": "a very long one 1"}
    assert Client(HTTP_HOST=HOST).post("/login", form, REMOTE_ADDR=address).status_code == 302
    (entry,) = entries(action=Audited.SIGN_IN)
    assert entry.address == told


def test_a_token_leaves_entries_when_it_is_made_first_used_on_a_day_and_revoked(world: World) -> None:
    api = Api(world.user)
    for _ in range(3):
        api.get("me")
    Token.objects.update(last_used_at=timezone.now() - timedelta(days=2))
    api.get("me")
    api.call("DELETE", f"tokens/{api.token.pk}")
    told = [one.action for one in entries(target=api.token.prefix)]
    assert told == ["token.create", "token.use", "token.use", "token.revoke"]


def test_who_reads_anothers_log_is_noted_once_an_hour_and_who_reads_their_own_never(scene: Any) -> None:
    for who in ("owner", "member", "member", "auditor"):
        assert Api(scene.people[who]).call("GET", f"jobs/{scene.running.pk}/logs").status_code == 200
    found = entries(action=Audited.LOG_READ)
    assert [(one.actor, one.target, one.vc) for one in found] == [
        ("member", "alice/secret#1", "vision"),
        ("auditor", "alice/secret#1", "vision"),
    ]
    AuditEntry.objects.update(at=timezone.now() - timedelta(hours=2))
    Api(scene.people["member"]).call("GET", f"jobs/{scene.running.pk}/logs")
    assert len(entries(action=Audited.LOG_READ, actor="member")) == 2


@pytest.mark.parametrize("way", ["logs", "logs?format=text", "logs/search?text=x", "logs/all", "logs/all?format=zip"])
def test_each_way_to_anothers_log_is_noted(scene: Any, way: str) -> None:
    answer = Api(scene.people["auditor"]).call("GET", f"jobs/{scene.running.pk}/{way}")
    assert answer.status_code == 200, answer.content
    assert [one.actor for one in entries(action=Audited.LOG_READ)] == ["auditor"]


def test_what_the_portal_does_by_itself_comes_from_the_system(world: World) -> None:
    world.node("gpu01", gpus=1)
    world.submit()
    world.settle()
    assert {one.via for one in AuditEntry.objects.all()} == {"system"}


def test_an_entry_outlives_what_it_speaks_of(world: World) -> None:
    world.node("gpu01", gpus=1)
    job = world.submit()
    Membership.objects.all().delete()
    Job.objects.filter(pk=job.pk).delete()
    world.user.delete()
    assert [one.target for one in entries(action=Audited.JOB_SUBMIT)] == [job.label]


def test_filters_pages_and_export_say_the_same(scene: Any) -> None:
    api = Api(scene.people["auditor"])
    for path in ("audit?vc=vision&limit=200", "audit?vc=vision&actor=alice&action=job.submit"):
        rows = api.get(path)["results"]
        export = path.replace("audit?", "audit/export?").replace("&limit=200", "")
        told = async_to_sync(whole)(api.call("GET", export))
        assert [json.loads(line) for line in told.splitlines()] == rows[::-1] != []
        table = async_to_sync(whole)(api.call("GET", f"{export}&format=csv"))
        cells = list(csv.DictReader(io.StringIO(table.decode())))
        assert [(row["id"], row["target"], row["actor"]) for row in cells] == [
            (str(row["id"]), row["target"], row["actor"]) for row in rows[::-1]
        ]
        after = [json.loads(row["after"]) if row["after"] else None for row in cells]
        assert after == [row["after"] for row in rows[::-1]]
    assert api.call("GET", "audit/export?format=xml").json()["errors"][0]["path"] == "format"
    refused = api.call("GET", "audit?action=nothing").json()
    assert refused["errors"][0]["path"] == "action"
    assert api.call("GET", "audit?since=2999-01-01T00:00:00Z").json()["results"] == []


@pytest.mark.parametrize(
    ("moment", "status"), [("2999-01-01T00:00:00%2B17:18", 200), ("0001-01-01T00:00:00%2B17:18", 400)]
)
def test_a_time_may_have_any_offset_that_leaves_it_among_the_years(db: None, moment: str, status: int) -> None:
    root = Api(person("root", ClusterRole.ADMIN))
    for path in ("audit", "jobs"):
        answer = root.call("GET", f"{path}?since={moment}")
        assert answer.status_code == status, answer.content


async def whole(answer: Any) -> bytes:
    return b"".join([part async for part in answer.streaming_content])


def test_nothing_in_the_portal_changes_or_deletes_an_entry() -> None:
    administrator = Api(person("root", ClusterRole.ADMIN))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert administrator.call(method, "audit").status_code == 405
    assert AuditEntry not in admin.site._registry
    assert [one for one in map(str, get_resolver().url_patterns) if "audit" in one and "api" not in one] == []
