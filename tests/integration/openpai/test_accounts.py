"""OpenPAI's API: signing in, tokens, users and groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from portal.accounts.models import AuditEntry, ClusterRole, Token, User
from portal.openpai.errors import APPLICATION, BAD_TOKEN, NOT_ADMIN
from portal.storages.models import Storage
from portal.teams.models import Membership, VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.integration.openpai.conftest import Pai
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.run.waiting import early_in_a_minute

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
FORM = "application/x-www-form-urlencoded"
NEW = {"username": "eve", "password": "secret-6"}


def test_the_cluster_says_what_it_is_to_anybody(db: None) -> None:
    info = Pai().get("info")
    assert (info["launcherType"], info["authnMethod"]) == ("k8s", "basic")
    assert info["version"].startswith("v")


def login(**form: str) -> tuple[int, dict[str, Any]]:
    answer = Pai().call("POST", "authn/basic/login", urlencode(form), kind=FORM)
    return answer.status_code, json.loads(answer.content)


def test_a_form_with_name_and_password_gets_a_token_that_ends_as_asked(world: World) -> None:
    status, told = login(username="alice", password="correct horse", expiration="4000")
    assert (status, told["user"], told["admin"]) == (200, "alice", False)
    assert Pai(token=told["token"]).get("users/alice")["username"] == "alice"
    token = Token.objects.get()
    assert token.expires_at is not None
    assert round((token.expires_at - token.created_at).total_seconds()) == 4000


@pytest.mark.parametrize(
    ("form", "status", "code"),
    [
        ({"username": "alice", "password": "wrong"}, 400, "IncorrectPasswordError"),
        ({"username": "none", "password": "wrong"}, 400, "NoUserError"),
        ({"username": "alice"}, 400, "InvalidParametersError"),
        ({"username": "alice", "password": "correct horse", "expiration": "soon"}, 400, "InvalidParametersError"),
    ],
)
def test_a_sign_in_that_fails_says_why(world: World, form: dict[str, str], status: int, code: str) -> None:
    found, told = login(**form)
    assert (found, told["code"]) == (status, code)


def test_guessing_is_slowed_down(world: World) -> None:
    early_in_a_minute()
    statuses = [login(username="alice", password="wrong")[0] for _ in range(11)]
    assert statuses[-1] == 429


def test_a_disabled_account_is_none(world: World) -> None:
    User.objects.update(is_active=False)
    assert login(username="alice", password="correct horse")[1]["code"] == "NoUserError"


def test_logging_out_ends_the_token(world: World, pai: Pai) -> None:
    assert pai.done("DELETE", "authn/basic/logout", 200) == {"message": "Logout successfully"}
    answer = pai.call("GET", "tokens")
    assert (answer.status_code, json.loads(answer.content)["message"]) == (401, BAD_TOKEN)


def test_tokens_are_listed_by_id_and_ended_by_id_or_by_themselves(world: World, pai: Pai) -> None:
    made = [pai.done("POST", "tokens/application", 200, {}) for _ in range(2)]
    assert [one["application"] for one in made] == [True, True]
    listed = pai.get("tokens")["tokens"]
    assert len(listed) == 3
    assert not {one["token"] for one in made} & set(listed)
    pai.done("DELETE", f"tokens/{made[0]['token']}", 200)
    pai.done("DELETE", f"tokens/{listed[0]}", 200)
    assert len(pai.get("tokens")["tokens"]) == 1
    assert [Pai(token=one["token"]).refused("GET", "jobs")[0] for one in made] == [401, 401]


def test_a_token_of_somebody_else_is_not_ended(world: World, pai: Pai) -> None:
    other = Pai(person("bob"))
    key = other.get("tokens")["tokens"][0]
    for named in (key, other.token, "9" * 30, "²", "nothing"):
        assert pai.refused("DELETE", f"tokens/{named}") == (403, "ForbiddenUserError")
    assert other.get("tokens")["tokens"] == [key]


# ---------------------------------------------------------------- users


def test_an_administrator_makes_changes_and_removes_an_account(world: World, root: Pai) -> None:
    vc_create(name="default", now=timezone.now())
    body = {**NEW, "email": "eve@example.org", "virtualCluster": ["vision"], "extension": {"sshKeys": []}}
    assert root.done("POST", "users", 201, body)["message"] == "User is created successfully"
    eve = root.get("users/eve")
    assert [eve[key] for key in ("admin", "virtualCluster", "email", "extension")] == [
        False, ["default", "vision"], "eve@example.org", {"sshKeys": []},
    ]  # fmt: skip
    root.done("PUT", "users", 201, {"data": {"username": "eve", "email": "new@example.org"}, "patch": True})
    assert root.get("users/eve")["email"] == "new@example.org"
    assert login(username="eve", password="secret-6")[0] == 200
    whole = {
        "username": "eve",
        "email": "",
        "virtualCluster": ["default"],
        "admin": False,
        "password": "other-6",
        "extension": {},
    }
    root.done("PUT", "users", 201, {"data": whole})
    assert root.get("users/eve")["virtualCluster"] == ["default"]
    assert login(username="eve", password="other-6")[0] == 200
    root.done("DELETE", "users/eve", 200)
    assert root.refused("GET", "users/eve") == (404, "NoUserError")
    assert not User.objects.filter(username="eve").exists()


def test_an_account_with_jobs_is_disabled_and_its_jobs_stay(world: World, root: Pai) -> None:
    world.node("gpu01")
    job = world.submit()
    alice = Pai(world.user)
    root.done("DELETE", "users/alice", 200)
    assert alice.refused("GET", "jobs") == (401, "UnauthorizedUserError")
    assert root.refused("GET", "users/alice") == (404, "NoUserError")
    assert root.get("jobs/alice~train")["debugId"] == str(job.pk)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**NEW, "username": "alice"}, 409, "ConflictUserError"),
        ({**NEW, "password": "short"}, 400, "InvalidParametersError"),
        ({**NEW, "username": "e v e"}, 400, "InvalidParametersError"),
        ({**NEW, "virtualCluster": ["none"]}, 400, "NoVirtualClusterError"),
        ({**NEW, "admin": "yes"}, 400, "InvalidParametersError"),
        ({**NEW, "extension": {"a": "\0"}}, 400, "InvalidParametersError"),
        ({**NEW, "email": "nowhere"}, 400, "InvalidParametersError"),
        ({"username": "eve"}, 400, "InvalidParametersError"),
        ({**NEW, "odd": 1}, 400, "InvalidParametersError"),
    ],
)
def test_an_account_that_cannot_be_is_refused_whole(
    world: World, root: Pai, body: dict[str, Any], status: int, code: str
) -> None:
    assert root.refused("POST", "users", body) == (status, code)
    assert not User.objects.filter(username="eve").exists()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "users", None),
        ("POST", "users", NEW),
        ("PUT", "users", {"data": {"username": "alice", "admin": True}, "patch": True}),
        ("DELETE", "users/bob", None),
        ("PUT", "users/alice/group", {"groupname": "other"}),
        ("DELETE", "users/alice/group", {"groupname": "vision"}),
        ("PUT", "users/alice/grouplist", {"grouplist": ["other"]}),
        ("POST", "groups", {"groupname": "g"}),
        ("PUT", "groups", {"data": {"groupname": "vision", "description": "x"}, "patch": True}),
        ("DELETE", "groups/g", None),
        ("GET", "groups/vision/userlist", None),
        ("GET", "kubernetes/nodes", None),
        ("GET", "kubernetes/pods", None),
    ],
)
def test_administrators_work_is_for_administrators(
    world: World, pai: Pai, root: Pai, method: str, path: str, body: Any
) -> None:
    answer = pai.call(method, path, body)
    assert (answer.status_code, json.loads(answer.content)["message"]) == (403, NOT_ADMIN)
    app = Pai(token=root.done("POST", "tokens/application", 200, {})["token"])
    if method != "GET":
        answer = app.call(method, path, body)
        assert (answer.status_code, json.loads(answer.content)["message"]) == (403, APPLICATION)
    assert list(Membership.objects.values_list("vc__name", "user__username")) == [("vision", "alice")]
    assert User.objects.get(username="alice").role == ClusterRole.USER


def test_an_account_that_is_not_there_is_not_found(world: World, root: Pai) -> None:
    calls: list[tuple[str, str, Any]] = [
        ("GET", "users/none", None),
        ("DELETE", "users/none", None),
        ("PUT", "users", {"data": {"username": "none", "email": "a@example.org"}, "patch": True}),
        ("PUT", "users/none/group", {"groupname": "vision"}),
        ("PUT", "users/none/grouplist", {"grouplist": []}),
    ]
    for method, path, body in calls:
        assert root.refused(method, path, body) == (404, "NoUserError")


def test_an_administrators_account_is_not_removed(world: World, root: Pai) -> None:
    assert root.refused("DELETE", "users/root") == (403, "RemoveAdminError")


def test_a_change_that_is_no_patch_names_everything(world: World, root: Pai) -> None:
    data = {"username": "alice", "email": "a@example.org"}
    assert root.refused("PUT", "users", {"data": data, "patch": False}) == (400, "InvalidParametersError")


def test_one_reads_and_changes_ones_own_account_only(world: World, pai: Pai) -> None:
    person("bob")
    own = {"username": "alice", "email": "a@example.org", "extension": {"theme": "dark"}}
    for old in ({}, {"oldPassword": "wrong"}):
        refused = pai.refused("PUT", "users/me", {"data": {**own, **old}, "patch": True})
        assert refused == (400, "IncorrectPasswordError")  # a new password could be sent to the new address
    assert (pai.get("users/alice")["email"], pai.get("users/alice")["extension"]) == ("", {})
    pai.done("PUT", "users/me", 201, {"data": {**own, "oldPassword": "correct horse"}, "patch": True})
    pai.done("PUT", "users/me", 201, {"data": own, "patch": True})
    alice = pai.get("users/alice")
    assert (alice["email"], alice["extension"], alice["virtualCluster"]) == (
        "a@example.org", {"theme": "dark"}, ["vision"],
    )  # fmt: skip
    assert pai.refused("GET", "users/bob") == (404, "NoUserError")
    assert pai.refused("PUT", "users/me", {"data": {"username": "bob"}, "patch": True}) == (403, "ForbiddenUserError")


def test_an_address_that_no_mail_can_be_sent_to_is_refused(world: World, pai: Pai) -> None:
    own = {"username": "alice", "email": '"a\x0bX:"@example.org', "oldPassword": "correct horse"}
    assert pai.refused("PUT", "users/me", {"data": own, "patch": True}) == (400, "InvalidParametersError")
    assert pai.get("users/alice")["email"] == ""


def test_a_new_password_wants_the_old_one(world: World, pai: Pai) -> None:
    new = {"username": "alice", "newPassword": "battery staple 7"}
    for old in ({}, {"oldPassword": "wrong"}):
        found = pai.refused("PUT", "users/me", {"data": {**new, **old}, "patch": True})
        assert found == (400, "IncorrectPasswordError")
    pai.done("PUT", "users/me", 201, {"data": {**new, "oldPassword": "correct horse"}, "patch": True})
    assert login(username="alice", password="battery staple 7")[0] == 200


def test_an_auditor_reads_all_accounts_and_changes_none(world: World) -> None:
    auditor = Pai(person("audit", ClusterRole.AUDITOR))
    assert [one["username"] for one in auditor.get("users")] == ["alice", "audit"]
    assert auditor.refused("POST", "users", NEW) == (403, "ForbiddenUserError")


def test_storages_and_virtual_clusters_of_an_account_come_by_groups_too(world: World, root: Pai) -> None:
    other = vc_create(name="other", now=timezone.now())
    Storage.objects.create(name="all", root="/all", everyone=True)
    Storage.objects.create(name="theirs", root="/theirs").vcs.add(other)
    group = Group.objects.create(name="crew")
    Membership.objects.create(vc=other, group=group, role="member")
    world.user.groups.add(group)
    alice = root.get("users/alice")
    assert [alice[key] for key in ("grouplist", "virtualCluster", "storageConfig")] == [
        ["crew", "vision"], ["other", "vision"], ["all", "theirs"],
    ]  # fmt: skip


def test_an_account_written_back_as_it_was_read_keeps_no_right_of_a_group(world: World, root: Pai) -> None:
    now = timezone.now()
    group = Group.objects.create(name="crew")
    Membership.objects.create(vc=vc_create(name="other", now=now), group=group, role="member")
    world.user.groups.add(group)
    boss = person("boss", ClusterRole.ADMIN)
    for name in ("alice", "boss"):
        told = root.get(f"users/{name}")["virtualCluster"]
        assert told == ["other", "vision"]
        root.done("PUT", "users", 201, {"data": {"username": name, "virtualCluster": told}, "patch": True})
    assert [*Membership.objects.filter(user__isnull=False).values_list("user", "vc__name")] == [
        (world.user.pk, "vision")
    ]
    User.objects.filter(pk=boss.pk).update(role=ClusterRole.USER)
    world.user.groups.clear()
    assert [root.get(f"users/{name}")["virtualCluster"] for name in ("alice", "boss")] == [["vision"], []]


def test_a_member_of_a_virtual_cluster_that_is_gone_breaks_no_list(world: World, root: Pai) -> None:
    gone = vc_create(name="gone", now=timezone.now())
    VirtualCluster.objects.filter(pk=gone.pk).update(removed_at=timezone.now())
    Membership.objects.create(vc=gone, user=world.user, role="member")
    assert root.get("users/alice")["virtualCluster"] == ["vision"]
    assert [one["username"] for one in root.get("users")] == ["alice", "root"]


def test_many_accounts_take_no_more_queries_than_few(
    world: World, root: Pai, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for index in range(15):
        member_set(vc=world.vc, user=person(f"u{index}"), role="member", now=timezone.now())
    root.get("users")  # a token's first use of a day is noted
    with django_assert_max_num_queries(10):
        assert len(root.get("users")) == 17


def test_an_administrators_work_stands_in_the_audit_log(world: World, root: Pai) -> None:
    root.done("POST", "users", 201, NEW)
    root.done("PUT", "users", 201, {"data": {"username": "eve", "admin": True}, "patch": True})
    root.done("PUT", "users", 201, {"data": {"username": "eve", "admin": False}, "patch": True})
    root.done("POST", "groups", 201, {"groupname": "crew"})
    root.done("PUT", "users/eve/grouplist", 201, {"grouplist": ["crew"]})
    root.done("DELETE", "groups/crew", 201)
    root.done("DELETE", "users/eve", 200)
    told = AuditEntry.objects.filter(actor="root").exclude(action__startswith="token").order_by("id")
    assert [(entry.action, entry.target) for entry in told] == [
        ("user.create", "eve"), ("user.change", "eve"), ("user.change", "eve"), ("group", "crew"), ("group", "eve"),
        ("group", "crew"), ("user.remove", "eve"),
    ]  # fmt: skip
    assert (told[1].before, told[1].after) == ({"role": "user"}, {"role": "admin"})
    assert not [entry for entry in told if NEW["password"] in f"{entry.before}{entry.after}"]


# ---------------------------------------------------------------- groups


def test_a_group_is_made_changed_filled_and_removed(world: World, root: Pai) -> None:
    root.done("POST", "groups", 201, {"groupname": "crew", "description": "d", "externalName": "x"})
    assert root.refused("POST", "groups", {"groupname": "crew"}) == (409, "ConflictGroupError")
    extension = {"acls": {"virtualClusters": ["vision"]}, "own": 1}
    root.done("PUT", "groups", 201, {"data": {"groupname": "crew", "extension": extension}, "patch": True})
    crew = root.get("groups/crew")
    assert (crew["description"], crew["externalName"], crew["extension"]["own"]) == ("d", "x", 1)
    assert crew["extension"]["acls"]["virtualClusters"] == ["vision"]
    person("bob")
    root.done("PUT", "users/bob/group", 201, {"groupname": "crew"})
    assert root.get("groups/crew/userlist") == [{"username": "bob", "clusterAdmin": False}]
    assert root.get("users/bob")["virtualCluster"] == ["vision"]
    root.done("DELETE", "users/bob/group", 201, {"groupname": "crew"})
    assert root.get("users/bob")["virtualCluster"] == []
    root.done("DELETE", "groups/crew", 201)
    assert root.refused("GET", "groups/crew") == (404, "NoGroupError")


def test_each_virtual_cluster_is_a_group_that_stays(world: World, pai: Pai, root: Pai) -> None:
    assert [one["groupname"] for one in pai.get("groups")] == ["vision"]
    assert root.refused("DELETE", "groups/vision") == (403, "ForbiddenKeyError")
    assert root.refused("POST", "groups", {"groupname": "vision"}) == (409, "ConflictGroupError")
    change = {"data": {"groupname": "vision", "description": "Seeing"}, "patch": True}
    root.done("PUT", "groups", 201, change)
    assert VirtualCluster.objects.get().description == "Seeing"
    change = {"data": {"groupname": "vision", "extension": {"acls": {"admin": True}}}, "patch": True}
    assert root.refused("PUT", "groups", change) == (403, "ForbiddenKeyError")


def test_a_list_of_groups_takes_the_place_of_the_old_one_and_leads_stay_leads(world: World, root: Pai) -> None:
    vc_create(name="other", now=timezone.now())
    Membership.objects.update(role="lead")
    Group.objects.create(name="crew")
    root.done("PUT", "users/alice/grouplist", 201, {"grouplist": ["vision", "other", "crew"]})
    roles = {row.vc.name: row.role for row in Membership.objects.select_related("vc")}
    assert roles == {"vision": "lead", "other": "member"}
    assert root.get("users/alice")["grouplist"] == ["crew", "other", "vision"]
    root.done("PUT", "users/alice/grouplist", 201, {"grouplist": ["other"]})
    assert root.get("users/alice")["grouplist"] == ["other"]
    assert root.refused("PUT", "users/alice/grouplist", {"grouplist": ["none"]}) == (404, "NoGroupError")


@pytest.mark.parametrize(
    ("extension", "code"),
    [
        ({"acls": {"admin": True}}, "InvalidParametersError"),
        ({"acls": {"virtualClusters": "vision"}}, "InvalidParametersError"),
        ({"acls": {"virtualClusters": ["none"]}}, "NoVirtualClusterError"),
        ({"acls": []}, "InvalidParametersError"),
    ],
)
def test_what_no_group_can_give_is_refused_whole(world: World, root: Pai, extension: Any, code: str) -> None:
    assert root.refused("POST", "groups", {"groupname": "crew", "extension": extension}) == (400, code)
    assert not Group.objects.exists()
