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
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.rights import ALLOWED, Action
from portal.alerts.models import AlertSilence
from portal.code.services import code_upload
from portal.hardware.models import Node, ReportsLane
from portal.idle.models import IdleExemption, IdlePolicy, IdleWarning
from portal.idle.services.policy import idle_exemption_add
from portal.images.models import ImageRule
from portal.images.services import image_rule_add
from portal.jobs.models import Job
from portal.joining.models import JoinToken
from portal.joining.services.join_tokens import join_token_create
from portal.notices.services.webhook import webhook_set
from portal.secrets.models import SecretKind
from portal.secrets.services import secret_set
from portal.storages.models import Storage
from portal.storages.services.storages import storage_create
from portal.teams.models import Membership, QuotaChange
from portal.teams.selectors.quotas import quota_lines
from portal.teams.services.quotas import quota_change_create
from portal.teams.services.teams import vc_create
from portal.templates.models import JobTemplate
from portal.templates.services import template_create
from tests.integration.accounts.matrix import (
    CASES,
    OWN_AFFAIRS,
    PEOPLE,
    RIGHTS,
    SAME_AS,
    SILENCED,
    STRANGER,
    TOMORROW,
    Case,
)
from tests.support.cluster.kept import Kept, kept_scene
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import HOST, Api, cast_of, person
from tests.support.run.archives import HELLO, packed
from tests.support.services.redis_server import RedisServer

pytestmark = pytest.mark.django_db


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
    join_token: JoinToken
    silence: AlertSilence


def build() -> Scene:
    world = World()
    world.node("gpu01", gpus=1)
    code, _ = code_upload(user=world.user, stream=io.BytesIO(packed(HELLO)), now=world.now)
    running, waiting = world.submit(name="secret", berth={"code": code.name}), world.submit(name="secret")
    world.settle()
    ScriptedNode("gpu02", gpus=1).report()
    told = {STRANGER: {"gpus": [], "seen_at": world.now.isoformat()}}
    Node.objects.filter(name="gpu01").update(strangers=told)
    Node.objects.filter(name="gpu02").update(
        trials=1, out_cause="device_fault", last_report_at=world.now - timedelta(days=1)
    )
    ReportsLane.objects.update(open_since=world.now - timedelta(days=1), last_pulse_at=world.now)
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
    token = join_token_create(uses=3, hours=1, labels="rack=3", actor="root", now=world.now).token
    silence = AlertSilence.objects.create(
        key=SILENCED, name="data", reason="r", author="root", created_at=world.now, until=TOMORROW
    )
    return Scene(people, running, waiting, change, extra, code.name, rule, template, exemption, token, silence)


kept = kept_scene(build)


@pytest.fixture
def scene(kept: Kept[Scene], transactional_db: None, redis_server: RedisServer) -> Scene:
    return kept.again()


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
        answer = ask(api, case, scene)
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


def ask(api: Api, case: Case, scene: Scene) -> Any:
    """The answer of a portal that takes reports in, however long others took before."""
    ReportsLane.objects.update(last_pulse_at=timezone.now())
    return api.call(case.method, path_of(case, scene), body_of(case, scene), kind=kind_of(case))


def path_of(case: Case, scene: Scene) -> str:
    return case.path.format(
        job=scene.waiting.pk, running=scene.running.pk, change=scene.change.pk, extra=scene.extra.pk,
        rule=scene.rule.pk, exemption=scene.exemption.pk, silence=scene.silence.pk, join_token=scene.join_token.pk,
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
    "alert_silence_list": lambda answer, scene: SILENCED in [row["key"] for row in cast("list[Any]", answer)],
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
