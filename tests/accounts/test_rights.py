"""Who may do what, asked of the API by a person in each relation."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action
from portal.clusters.models import ImageRule, Membership, QuotaChange, SecretKind, Storage
from portal.clusters.selectors import quota_lines
from portal.clusters.services import image_rule_add, quota_change_create, secret_set, storage_create, vc_create
from portal.jobs.models import IdleExemption, IdlePolicy, IdleWarning, Job, JobTemplate
from portal.jobs.services import code_upload, idle_exemption_add, template_create
from portal.notices.services import webhook_set
from tests.support.archives import HELLO, packed
from tests.support.cast import HOST, Api, cast_of, person
from tests.support.scripted_node import ScriptedNode
from tests.support.world import World, job_file

pytestmark = pytest.mark.django_db

RIGHTS = {
    "job.read": "admin auditor lead member owner",
    "job.stop": "admin lead owner",
    "job.move": "admin lead owner",
    "job.pause": "admin lead owner",
    "job.tag": "admin lead owner",
    "job.priority": "admin lead owner",
    "job.order": "admin lead owner",
    "job.files": "admin auditor lead owner",
    "job.shell": "admin owner",
    "job.submit": "admin lead member",
    "vc.order": "admin lead",
    "vc.read": "admin auditor lead member owner other",
    "vc.cap": "admin lead",
    "vc.members": "admin lead",
    "vc.configure": "admin",
    "vc.make": "admin",
    "vc.secrets_list": "admin auditor lead member",
    "vc.secrets_set": "admin lead",
    "cluster.configure": "admin",
    "node.read": "admin auditor lead member owner other",
    "node.set_intent": "admin",
    "node.remove": "admin",
    "audit.read": "admin auditor",
    "usage.read": "admin auditor lead member owner",
    "usage.users": "admin auditor lead owner",
    "webhook.read": "admin auditor",
    "webhook.set": "admin",
    "user.read": "admin auditor lead",
    "user.manage": "admin",
    "group.read": "admin auditor lead",
    "group.manage": "admin",
    "storage.read": "admin auditor lead member",
    "storage.manage": "admin",
    "images.read": "admin auditor lead member",
    "images.set": "admin",
    "template.read": "admin auditor lead member",
    "template.write": "admin lead",
    "template.publish": "admin",
    "settings.read": "admin auditor",
    "alert.read": "admin auditor lead",
    "idle.read": "admin auditor lead member",
    "idle.set": "admin",
    "idle.exempt": "admin lead",
    "idle.extend": "admin lead owner",
}
"""The whole table, in other words than the code's."""

SAME_AS = {"group_lead": "lead", "group_member": "member", "nobody": "other"}
PEOPLE = ["admin", "auditor", "lead", "group_lead", "member", "group_member", "owner", "other", "nobody"]


@dataclass(frozen=True)
class Case:
    """What is asked, under which right, and the status that says no: 403 to those who may see the thing, which
    ``sees`` says."""

    action: str
    method: str
    path: str
    body: object = None
    refusal: int | None = None
    granted: tuple[int, ...] = (200, 201, 202, 204)
    sees: str = "job.read"
    kind: str = ""


NO_NODE = (503,)
"""May, but no node of the scene has the storage of job folders."""
LINE = {"vc": "vision", "cell_type": "A100", "count": 1}
CASES = {
    "job_list": Case("job.read", "GET", "jobs"),
    "job": Case("job.read", "GET", "jobs/{job}"),
    "job_config": Case("job.read", "GET", "jobs/{job}/config"),
    "job_event_list": Case("job.read", "GET", "jobs/{job}/events"),
    "job_attempt_list": Case("job.read", "GET", "jobs/{job}/attempts"),
    "job_preemption_list": Case("job.read", "GET", "jobs/{job}/preemptions"),
    "job_task_list": Case("job.read", "GET", "jobs/{job}/tasks"),
    "job_log": Case("job.read", "GET", "jobs/{running}/logs"),
    "job_log_all": Case("job.read", "GET", "jobs/{running}/logs/all"),
    "job_log_search": Case("job.read", "GET", "jobs/{running}/logs/search?text=epoch"),
    "job_metrics": Case("job.read", "GET", "jobs/{running}/metrics"),
    "job_file_list": Case("job.files", "GET", "jobs/{job}/files", granted=NO_NODE),
    "job_file_content": Case("job.files", "GET", "jobs/{job}/files/content?path=model.pt", granted=NO_NODE),
    "job_move": Case("job.move", "POST", "jobs/{job}/move", {"vc": "vision"}),
    "job_pause": Case("job.pause", "POST", "jobs/{job}/pause"),
    "job_resume": Case("job.pause", "POST", "jobs/{job}/resume"),
    "job_tag": Case("job.tag", "PATCH", "jobs/{job}/tags", {"add": ["mine"]}),
    "job_change_priority": Case("job.priority", "POST", "jobs/{job}/priority", {"priority_class": "oppo"}),
    "job_place": Case("job.order", "POST", "jobs/{job}/place", {"to": "front"}),
    "job_bulk": Case("job.tag", "POST", "jobs/bulk", lambda scene: {"jobs": [scene.waiting.pk], "add_tags": ["b"]}),
    "job_stop": Case("job.stop", "POST", "jobs/{job}/stop"),
    "job_submit": Case("job.submit", "POST", "jobs", job_file(name="second"), 400),
    "job_validate": Case("job.submit", "POST", "validate", job_file(name="second")),
    "code": Case("job.read", "GET", "code/{code}", None, 404),
    "code_archive": Case("job.read", "GET", "code/{code}/archive", None, 404),
    "queue_list": Case("job.read", "GET", "queue"),
    "job_estimate": Case("job.submit", "POST", "estimates", job_file(name="second"), 400),
    "virtual_cluster_list": Case("vc.read", "GET", "virtual-clusters"),
    "virtual_cluster": Case("vc.read", "GET", "virtual-clusters/vision"),
    "node_list": Case("node.read", "GET", "nodes"),
    "node": Case("node.read", "GET", "nodes/gpu01"),
    "sku_list": Case("node.read", "GET", "skus"),
    "gpu_list": Case("node.read", "GET", "gpus"),
    "virtual_cluster_set_rules": Case("vc.cap", "PATCH", "virtual-clusters/vision", {"user_gpus": 9}, 403),
    "member_list": Case("vc.members", "GET", "virtual-clusters/vision/members", None, 403),
    "member_set": Case(
        "vc.members", "POST", "virtual-clusters/vision/members", {"name": "nobody", "role": "member"}, 403
    ),
    "member_remove": Case("vc.members", "DELETE", "virtual-clusters/vision/members/{extra}", None, 403),
    "user_share_list": Case("vc.read", "GET", "virtual-clusters/vision/shares"),
    "firm_right_set": Case(
        "vc.configure", "PUT", "virtual-clusters/vision/firm-rights/alice", {"gpus": 1, "last_day": "2999-01-01"}, 403
    ),
    "firm_right_end": Case("vc.configure", "DELETE", "virtual-clusters/vision/firm-rights/alice", None, 403),
    "cluster_export": Case("cluster.configure", "GET", "cluster", None, 404),
    "cluster_import": Case("cluster.configure", "PUT", "cluster?dry_run=true", {}, 404),
    "quota_list": Case("vc.read", "GET", "quotas"),
    "quota_set": Case("cluster.configure", "PATCH", "quotas?dry_run=true", {"lines": []}, 403),
    "quota_change_list": Case("vc.read", "GET", "quota-changes"),
    "quota_change_plan": Case("cluster.configure", "POST", "quota-changes?dry_run=true", {"lines": [LINE]}, 403),
    "quota_change_withdraw": Case("cluster.configure", "DELETE", "quota-changes/{change}", None, 403),
    "gpu_history": Case("node.read", "GET", "gpus/history"),
    "cell_type_list": Case("node.read", "GET", "cell-types"),
    "node_take_topology": Case("cluster.configure", "POST", "nodes/gpu02/topology", None, 403),
    "node_remove": Case("node.remove", "DELETE", "nodes/gpu02?dry_run=true", None, 403),
    "node_set_intent": Case("node.set_intent", "PATCH", "nodes/gpu01", {"intent": "cordoned"}, 403),
    "virtual_cluster_create": Case("vc.make", "POST", "virtual-clusters", {"name": "new"}, 403),
    "virtual_cluster_remove": Case("vc.make", "DELETE", "virtual-clusters/idle", None, 403),
    "virtual_cluster_secret_list": Case("vc.secrets_list", "GET", "virtual-clusters/vision/secrets", None, 404),
    "virtual_cluster_secret_set": Case(
        "vc.secrets_set", "PUT", "virtual-clusters/vision/secrets/key", {"value": "x"}, 403
    ),
    "virtual_cluster_secret_delete": Case(
        "vc.secrets_set", "DELETE", "virtual-clusters/vision/secrets/{secret}", None, 403
    ),
    "virtual_cluster_registry_login_list": Case(
        "vc.secrets_list", "GET", "virtual-clusters/vision/registry-logins", None, 404
    ),
    "virtual_cluster_registry_login_set": Case(
        "vc.secrets_set",
        "PUT",
        "virtual-clusters/vision/registry-logins/registry.example.org",
        {"username": "robot", "password": "x"},
        403,
    ),
    "virtual_cluster_registry_login_delete": Case(
        "vc.secrets_set", "DELETE", "virtual-clusters/vision/registry-logins/{registry}", None, 403
    ),
    "sku_set_price": Case("cluster.configure", "PATCH", "skus/A100", {"price": "2.50"}, 403),
    "usage_report": Case("usage.read", "GET", "usage"),
    "user_list": Case("user.read", "GET", "users"),
    "user": Case("user.read", "GET", "users/spare", sees="user.read"),
    "user_create": Case("user.manage", "POST", "users", {"username": "new"}, 403),
    "user_change": Case("user.manage", "PATCH", "users/spare", {"email": "spare@example.org"}, sees="user.read"),
    "user_set_password": Case(
        "user.manage", "PUT", "users/spare/password", {"password": "correct horse 7"}, sees="user.read"
    ),
    "user_import": Case("user.manage", "POST", "users/import", "username\nimported\n", 403, kind="text/csv"),
    "group_list": Case("group.read", "GET", "groups"),
    "group": Case("group.read", "GET", "groups/spares", sees="group.read"),
    "group_create": Case("group.manage", "POST", "groups", {"name": "crew"}, 403),
    "group_change": Case("group.manage", "PATCH", "groups/spares", {"description": "d"}, sees="group.read"),
    "group_member_add": Case("group.manage", "PUT", "groups/spares/members/extra", sees="group.read"),
    "group_member_remove": Case("group.manage", "DELETE", "groups/spares/members/spare", sees="group.read"),
    "group_remove": Case("group.manage", "DELETE", "groups/spares", sees="group.read"),
    "setting_list": Case("settings.read", "GET", "settings", None, 404),
    "alert_list": Case("alert.read", "GET", "alerts"),
    "job_idle": Case("job.read", "GET", "jobs/{running}/idle"),
    "job_idle_extend": Case("idle.extend", "POST", "jobs/{running}/idle/extend"),
    "idle_policy": Case("vc.read", "GET", "idle-policy"),
    "idle_policy_set": Case("idle.set", "PATCH", "idle-policy", {"percent": 9}, 403),
    "virtual_cluster_idle_policy": Case("idle.read", "GET", "virtual-clusters/vision/idle-policy", None, 404),
    "virtual_cluster_idle_policy_set": Case(
        "idle.set", "PATCH", "virtual-clusters/vision/idle-policy", {"percent": 9}, 403
    ),
    "virtual_cluster_idle_policy_remove": Case("idle.set", "DELETE", "virtual-clusters/vision/idle-policy", None, 403),
    "idle_exemption_list": Case("idle.read", "GET", "idle-exemptions"),
    "idle_exemption_add": Case(
        "idle.exempt", "POST", "idle-exemptions", {"vc": "vision", "user": "alice", "reason": "r"}, 403
    ),
    "idle_exemption_remove": Case("idle.exempt", "DELETE", "idle-exemptions/{exemption}", sees="idle.read"),
    "template_list": Case("template.read", "GET", "templates"),
    "template": Case("template.read", "GET", "templates/{template}", sees="template.read"),
    "template_create": Case(
        "template.publish", "POST", "templates", {"name": "all", "file": job_file(), "public": True}, 403
    ),
    "template_change": Case(
        "template.write", "PATCH", "templates/{template}", {"description": "d"}, sees="template.read"
    ),
    "template_remove": Case("template.write", "DELETE", "templates/{template}", sees="template.read"),
    "image_list": Case("images.read", "GET", "images"),
    "image_disallow": Case("images.set", "DELETE", "images/{rule}", sees="images.read"),
    "image_allow": Case("images.set", "POST", "images", {"pattern": "registry.example.org/*"}, 403),
    "storage_list": Case("storage.read", "GET", "storages"),
    "storage": Case("storage.read", "GET", "storages/data", sees="storage.read"),
    "storage_create": Case("storage.manage", "POST", "storages", {"name": "new", "root": "/mnt/new"}, 403),
    "storage_change": Case("storage.manage", "PATCH", "storages/data", {"per_user": True}, sees="storage.read"),
    "storage_remove": Case("storage.manage", "DELETE", "storages/data", sees="storage.read"),
    "user_remove": Case("user.manage", "DELETE", "users/spare", sees="user.read"),
    "audit_list": Case("audit.read", "GET", "audit", None, 404),
    "audit_export": Case("audit.read", "GET", "audit/export", None, 404),
    "webhook": Case("webhook.read", "GET", "webhook", None, 404),
    "webhook_delivery_list": Case("webhook.read", "GET", "webhook/deliveries", None, 404),
    "webhook_set": Case(
        "webhook.set", "PUT", "webhook", {"url": "https://example.org/", "kinds": []}, sees="webhook.read"
    ),
    "webhook_test": Case("webhook.set", "POST", "webhook/test", None, sees="webhook.read"),
    "webhook_delete": Case("webhook.set", "DELETE", "webhook", None, sees="webhook.read"),
}
OWN_AFFAIRS = {
    "login", "me", "me_change", "token_list", "token_create", "token_revoke",
    "secret_list", "secret_set", "secret_delete", "user_import_template",
    "registry_login_list", "registry_login_set", "registry_login_delete",
    "code_list", "sample_list", "code_limits", "code_upload", "code_forget",
    "notice_choice", "notice_choice_set",
    "ssh_key_list", "ssh_key_add", "ssh_key_remove",
    "saved_view_list", "saved_view_save", "saved_view_forget",
}  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """A running and a waiting job of alice's in ``vision`` on gpu01, and everybody who may look."""

    people: dict[str, User]
    running: Job
    waiting: Job
    change: QuotaChange
    extra: Membership
    code: str
    rule: ImageRule
    template: JobTemplate
    exemption: IdleExemption


@pytest.fixture
def scene(db: None) -> Scene:
    world = World()
    world.node("gpu01", gpus=1)
    code, _ = code_upload(user=world.user, stream=io.BytesIO(packed(HELLO)), now=world.now)
    running, waiting = world.submit(name="secret", berth={"code": code.name}), world.submit(name="secret")
    world.settle()
    ScriptedNode("gpu02", gpus=1).report()
    later = world.now + timedelta(days=1)
    change = quota_change_create(
        lines=quota_lines(), starts_at=later, ends_at=None, reason="", actor="root", now=world.now
    )
    people = cast_of(world.vc, world.user)
    Storage.objects.create(name="jobs", root="/mnt/jobs", jobs=True)
    for kind, name in ((SecretKind.SECRET, "stored"), (SecretKind.REGISTRY, "stored.example.org")):
        secret_set(owner=world.vc, kind=kind, name=name, value="secret", actor="root", now=world.now)
    vc_create(name="idle", now=world.now)
    webhook_set(url="https://example.org/", kinds=[], secret="whsec_" + "A" * 32, actor="root", now=world.now)
    extra = Membership.objects.create(vc=world.vc, user=person("extra"), role="member")
    storage_create(name="data", root="/mnt/data", vcs=[world.vc], now=world.now, actor="root")
    spare, spares = person("spare"), Group.objects.create(name="spares")
    spare.groups.add(spares)
    Membership.objects.create(vc=world.vc, user=spare, role="member")
    Membership.objects.create(vc=world.vc, group=spares, role="member")
    template = template_create(home=world.vc, name="ours", description="", file=job_file(), now=world.now, actor="root")
    rule = image_rule_add(vc=world.vc, pattern="*", now=world.now, actor="root")
    IdlePolicy.objects.create(
        vc=world.vc, action="stop", percent=5, minutes=60, after_minutes=60, extensions=2, extension_minutes=60
    )
    IdleWarning.objects.create(
        job_attempt=running.attempts.get(), action="stop", percent=5, minutes=60, after_minutes=60, gpus=1,
        since=world.now, warned_at=world.now, due_at=later,
    )  # fmt: skip
    exemption = idle_exemption_add(
        vc=world.vc, user=None, job=None, pattern="n*", reason="r", until=None, now=world.now, actor="root"
    )
    return Scene(people, running, waiting, change, extra, code.name, rule, template, exemption)


def may(person: str, action: str) -> bool:
    return SAME_AS.get(person, person) in RIGHTS[action].split()


def test_the_table_in_the_code_is_the_one_written_here() -> None:
    assert {action: set(RIGHTS[action].split()) for action in Action} == {
        action: {str(relation) for relation in relations} for action, relations in ALLOWED.items()
    }


def test_every_operation_of_the_document_stands_in_the_matrix() -> None:
    document = Client(HTTP_HOST=HOST).get("/api/v1/openapi.json").json()
    operations = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
    assert operations == CASES.keys() | OWN_AFFAIRS


@pytest.mark.parametrize("person", PEOPLE)
def test_each_person_gets_what_the_table_gives_and_no_more(scene: Scene, person: str) -> None:
    api = Api(scene.people[person])
    for name in in_an_order_that_works():
        case = CASES[name]
        allowed = may(person, case.action)
        answer = api.call(case.method, path_of(case, scene), body_of(case, scene), kind=kind_of(case))
        judge = LISTS.get(name)
        if judge is not None:
            assert answer.status_code == 200, name
            assert judge(answer.json(), scene) is allowed, (name, person)
        elif allowed:
            assert answer.status_code in case.granted, (name, person, answer.content)
        else:
            expected = case.refusal or (403 if may(person, case.sees) and case.sees != case.action else 404)
            assert answer.status_code == expected, (name, person, answer.content)


def in_an_order_that_works() -> list[str]:
    """Every operation; what changes nothing first, so that one scene serves all."""
    return sorted(CASES, key=lambda name: (name == "webhook_delete", CASES[name].method == "POST"))


def path_of(case: Case, scene: Scene) -> str:
    return case.path.format(
        job=scene.waiting.pk, running=scene.running.pk, change=scene.change.pk, extra=scene.extra.pk,
        rule=scene.rule.pk, exemption=scene.exemption.pk,
        template=scene.template.pk,
        secret="stored", registry="stored.example.org", code=scene.code,
    )  # fmt: skip


def body_of(case: Case, scene: Scene) -> object:
    return case.body(scene) if callable(case.body) else case.body


def kind_of(case: Case) -> str:
    return case.kind or ("text/yaml" if isinstance(case.body, str) else "application/json")


def rows_with(key: str, value: object = None) -> Callable[[dict[str, object], Scene], bool]:
    """Whether the waiting job, or the value, is among a list's rows."""

    def judge(answer: dict[str, object], scene: Scene) -> bool:
        rows = answer["results"]
        assert isinstance(rows, list)
        return (value or scene.waiting.pk) in [row[key] for row in rows]

    return judge


def names(rows: object, key: str) -> set[str]:
    assert isinstance(rows, list)
    return {row[key] for row in rows}


LISTS: dict[str, Callable[[dict[str, object], Scene], bool]] = {
    "job_list": rows_with("id"),
    "queue_list": rows_with("job"),
    "usage_report": lambda answer, scene: {"vision"} == names(answer["rows"], "vc"),
    "user_list": rows_with("username", "spare"),
    "group_list": rows_with("name", "spares"),
    "storage_list": rows_with("name", "data"),
    "alert_list": lambda answer, scene: "data" in [row["name"] for row in cast("list[Any]", answer)],
    "template_list": rows_with("vc", "vision"),
    "image_list": rows_with("vc", "vision"),
    "job_bulk": lambda answer, scene: cast("list[Any]", answer)[0]["done"],
    "idle_exemption_list": rows_with("vc", "vision"),
    "job_validate": lambda answer, scene: answer["valid"] is True,
}


@pytest.mark.parametrize("person", PEOPLE)
def test_whom_a_gpu_is_held_by_is_named_to_those_who_may_see_the_job(scene: Scene, person: str) -> None:
    answer = Api(scene.people[person]).call("GET", "nodes/gpu01")
    holder = answer.json()["gpus"][0]["holder"]
    assert (holder["vc"], holder["user"], holder["standing"]) == ("vision", "alice", "guaranteed")
    assert (holder["job"] == scene.running.pk) is may(person, "job.read")
    assert (b"secret" in answer.content) is may(person, "job.read")


def test_of_a_foreign_waiting_job_one_sees_size_and_place_but_neither_name_nor_reason(scene: Scene) -> None:
    answer = Api(scene.people["other"]).call("GET", "queue")
    (row,) = answer.json()["results"]
    assert (row["place"], row["gpu_count"], row["user"], row["vc"]) == (1, 1, "alice", "vision")
    assert [row[key] for key in ("job", "label", "waiting_code", "waiting_message")] == [None] * 4
    assert b"secret" not in answer.content


def test_a_disabled_account_may_nothing(scene: Scene) -> None:
    api = Api(scene.people["admin"])
    User.objects.filter(pk=scene.people["admin"].pk).update(is_active=False)
    assert {api.call("GET", path).status_code for path in ("me", "jobs", "nodes")} == {401}
