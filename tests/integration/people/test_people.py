"""Accounts and groups over REST: what is made and changed, what is refused, and that somebody always administers."""

from __future__ import annotations

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import AuditEntry, ClusterRole, User
from portal.accounts.people import LastAdministrator, user_change, user_remove
from portal.teams.models import Membership
from portal.teams.services.teams import member_set, vc_create
from tests.integration.accounts.conftest import _fast_hash as _fast_hash
from tests.support.cluster.world import World
from tests.support.people.cast import HOST, Api, cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse 7"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(db: None) -> Api:
    return Api(person("root", ClusterRole.ADMIN))


def faults(answer: Any) -> set[tuple[str, str]]:
    return {(fault["path"], fault["code"]) for fault in answer.json()["errors"]}


def signs_in(name: str, password: str = PASSWORD) -> bool:
    return Client(HTTP_HOST=HOST).post("/login", {"username": name, "password": password}).status_code == 302


def test_an_account_is_made_with_everything_about_it_and_signs_in(admin: Api) -> None:
    vc_create(name="vision", now=timezone.now())
    admin.call("POST", "groups", {"name": "crew"})
    body = {
        "username": "eve", "password": PASSWORD, "email": "eve@example.org", "role": "auditor", "uid": 1001,
        "gid": 100, "extra_gids": [7, 8], "groups": ["crew"], "virtual_clusters": ["vision"],
    }  # fmt: skip
    made = admin.call("POST", "users", body)
    assert made.status_code == 201, made.content
    told = {key: value for key, value in body.items() if key != "password"}
    vcs = [{"name": "vision", "role": "member"}]
    assert admin.get("users/eve") == {
        **told, "virtual_clusters": vcs, "active": True, "joined_at": made.json()["joined_at"],
    }  # fmt: skip
    assert signs_in("eve")


def test_without_a_password_nobody_signs_in_until_one_is_given(admin: Api) -> None:
    admin.call("POST", "users", {"username": "eve"})
    assert not signs_in("eve", "")
    assert admin.call("PUT", "users/eve/password", {"password": PASSWORD}).status_code == 204
    assert signs_in("eve")


BAD: dict[str, tuple[dict[str, Any], set[tuple[str, str]]]] = {
    "a weak password and an address that is none": (
        {"password": "short", "email": "nowhere"}, {("email", "invalid")},
    ),
    "a weak password": ({"password": "short"}, {("password", "password_too_short")}),
    "an address with a control character": ({"email": '"a\x0bX:"@example.org'}, {("email", "invalid")}),
    "root's ids": ({"uid": 0, "gid": 0}, {("uid", "min_value"), ("gid", "min_value")}),
    "an id that no system has": ({"extra_gids": [2**31]}, {("extra_gids.0", "max_value")}),
    "a folder above": ({"username": ".."}, {("username", "invalid")}),
    "a word of the API": ({"username": "import"}, {("username", "reserved")}),
    "no such group": ({"groups": ["none"]}, {("groups", "unknown")}),
    "no such team": ({"virtual_clusters": ["none"]}, {("virtual_clusters", "unknown")}),
    "misspelt": ({"mail": "x"}, {("mail", "invalid")}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_an_account_that_cannot_be_is_refused_whole(admin: Api, case: str) -> None:
    body, expected = BAD[case]
    answer = admin.call("POST", "users", {"username": "eve", **body})
    assert answer.status_code == 400
    assert faults(answer) == expected
    assert not User.objects.exclude(username="root").exists()


def test_a_name_and_a_uid_belong_to_one_account(admin: Api) -> None:
    for name, uid in (("alice", 1001), ("bob", 1002)):
        assert admin.call("POST", "users", {"username": name, "uid": uid}).status_code == 201
    for method, path, body in (
        ("POST", "users", {"username": "alice"}),
        ("POST", "users", {"username": "eve", "uid": 1001}),
        ("PATCH", "users/bob", {"uid": 1001}),
    ):
        answer = admin.call(method, path, body)
        assert (answer.status_code, "lice" in answer.json()["detail"]) == (409, True), answer.content
    assert admin.call("PATCH", "users/bob", {"uid": 1002, "email": "b@example.org"}).status_code == 200


def test_what_is_named_is_changed_if_it_still_is_as_it_was_read(admin: Api) -> None:
    admin.call("POST", "users", {"username": "alice", "uid": 1001})
    admin.call("POST", "groups", {"name": "crew"})
    seen = admin.call("GET", "users/alice").headers["ETag"]
    changed = admin.call("PATCH", "users/alice", {"uid": None, "groups": ["crew"]}, If_Match=seen)
    assert (changed.status_code, changed.json()["uid"], changed.json()["groups"]) == (200, None, ["crew"])
    late = admin.call("PATCH", "users/alice", {"email": "a@example.org"}, If_Match=seen)
    assert late.status_code == 409
    again = admin.call("PATCH", "users/alice", {"email": "a@example.org"}, If_Match=changed.headers["ETag"])
    assert again.status_code == 200
    assert admin.call("PATCH", "users/alice", {"email": ""}, If_Match="x").status_code == 400
    assert admin.call("PATCH", "users/alice", {}).status_code == 400


def test_a_disabled_accounts_tokens_and_pages_end_and_come_back_with_it(admin: Api) -> None:
    bob = person("bob")
    token, page = Api(bob), Browser(bob)
    assert admin.call("PATCH", "users/bob", {"active": False}).json()["active"] is False
    assert token.call("GET", "me").status_code == 401
    assert page.get("/profile").status == 302
    assert admin.call("PATCH", "users/bob", {"active": True}).status_code == 200
    assert token.call("GET", "me").status_code == 200


def test_an_account_with_jobs_is_not_removed(world: World, admin: Api) -> None:
    world.node("gpu01")
    world.submit()
    answer = admin.call("DELETE", "users/alice")
    assert (answer.status_code, "disable" in answer.json()["detail"]) == (409, True)
    person("bob")
    assert admin.call("DELETE", "users/bob").status_code == 204
    assert sorted(User.objects.values_list("username", flat=True)) == ["alice", "root"]


@pytest.mark.parametrize("change", [{"role": "user"}, {"role": "auditor"}, {"active": False}, None])
def test_the_last_administrator_stays_one(admin: Api, change: dict[str, Any] | None) -> None:
    person("former", ClusterRole.ADMIN)
    assert admin.call("PATCH", "users/former", {"active": False}).status_code == 200
    answer = admin.call("DELETE", "users/root") if change is None else admin.call("PATCH", "users/root", change)
    assert (answer.status_code, "last administrator" in answer.json()["detail"]) == (409, True)
    options = {"role": "user"} if change and "role" in change else {"active": False}
    with pytest.raises(CommandError, match="last administrator"):
        call_command("account", "root", **options)
    assert admin.get("me")["role"] == "admin"
    admin.call("PATCH", "users/former", {"active": True})
    answer = admin.call("DELETE", "users/root") if change is None else admin.call("PATCH", "users/root", change)
    assert answer.status_code in {200, 204}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("second", ["demote", "remove"])
def test_of_two_administrators_who_end_each_other_at_one_moment_one_stays(second: str) -> None:
    people, gate = [person(name, ClusterRole.ADMIN) for name in ("ann", "ben")], Barrier(2)

    def end(index: int) -> bool:
        gate.wait(10)
        try:
            if index and second == "remove":
                user_remove(user=people[0], now=timezone.now(), actor="ben")
            else:
                user_change(user=people[1 - index], changes={"role": "user"}, now=timezone.now(), actor="x")
        except LastAdministrator:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(end, [0, 1])) == [False, True]
    assert User.objects.filter(role=ClusterRole.ADMIN, is_active=True).count() == 1


def test_from_the_server_an_account_is_changed_and_gets_a_password(db: None) -> None:
    person("root", ClusterRole.ADMIN)
    person("bob")
    out = io.StringIO()
    call_command("account", "bob", role="admin", reset_password=True, stdout=out, stderr=io.StringIO())
    assert signs_in("bob", out.getvalue().strip())
    assert User.objects.get(username="bob").role == "admin"
    with pytest.raises(CommandError, match="no user eve"):
        call_command("account", "eve")


def test_leads_see_the_people_of_their_team_and_members_themselves(world: World) -> None:
    cast = cast_of(world.vc, world.user)
    team = {"group_lead", "group_member", "lead", "member"}
    seen = {name: set(Api(one).names("users", "username")) for name, one in cast.items()}
    assert seen["lead"] == seen["group_lead"] == team
    assert (seen["member"], seen["other"], seen["nobody"]) == ({"member"}, {"other"}, {"nobody"})
    assert seen["admin"] == seen["auditor"] >= {*team, "alice", "nobody"}
    assert Api(cast["member"]).call("GET", "users/lead").status_code == 404
    assert Api(cast["member"]).get("users/member")["virtual_clusters"] == [{"name": "vision", "role": "member"}]
    groups = {name: set(Api(one).names("groups", "name")) for name, one in cast.items()}
    assert (groups["lead"], groups["group_member"], groups["other"]) == ({"leads", "members"}, {"members"}, set())


def test_accounts_are_found_by_text_state_role_team_and_group(world: World, admin: Api) -> None:
    cast_of(world.vc, world.user)
    User.objects.filter(username="nobody").update(is_active=False, email="Who@Example.org")
    expected = {
        "text=LEAD": ["group_lead", "lead"],
        "text=who@": ["nobody"],
        "active=false": ["nobody"],
        "role=auditor&role=admin": ["admin", "auditor", "root"],
        "vc=vision": ["group_lead", "group_member", "lead", "member"],
        "vc=none": [],
        "group=leads": ["group_lead"],
    }
    assert {query: admin.names(f"users?{query}", "username") for query in expected} == expected
    assert admin.call("GET", "users?active=perhaps").status_code == 400


# ---------------------------------------------------------------- many at once


def table(*rows: dict[str, str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["username", "role", "uid", "groups", "virtual_clusters", "password"])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


GOOD, TWIN, WRONG, KNOWN = (
    {"username": "ann", "uid": "5001", "groups": "crew", "virtual_clusters": "vision; audio", "password": PASSWORD},
    {"username": "ann"},
    {"username": "ben", "role": "king", "uid": "0"},
    {"username": "alice", "groups": "none"},
)


@pytest.fixture
def many(world: World, admin: Api) -> Api:
    vc_create(name="audio", now=world.now)
    admin.call("POST", "groups", {"name": "crew"})
    return admin


def send(api: Api, text: str | bytes, query: str = "") -> Any:
    return api.call("POST", f"users/import{query}", text, kind="text/csv")


FOUND = {
    (3, "username", "twice"), (4, "role", "invalid_choice"), (4, "uid", "min_value"), (5, "username", "taken"),
    (5, "groups", "unknown"),
}  # fmt: skip


def test_all_or_nothing_a_table_with_faults_makes_nobody_and_tells_each_with_its_line(many: Api) -> None:
    answer = send(many, table(GOOD, TWIN, WRONG, KNOWN))
    assert answer.status_code == 400
    assert {(one["line"], one["path"], one["code"]) for one in answer.json()["errors"]} == FOUND
    assert not User.objects.filter(username="ann").exists()


def test_a_dry_run_tells_the_same_row_by_row_and_makes_nobody(many: Api) -> None:
    answer = send(many, table(GOOD, TWIN, WRONG, KNOWN), "?dry_run=true").json()
    told = {(row["line"], one["path"], one["code"]) for row in answer["rows"] for one in row["errors"]}
    assert (told, answer["created"], answer["refused"]) == (FOUND, 0, 3)
    assert not User.objects.filter(username="ann").exists()


def test_otherwise_the_rows_that_can_be_are_made(many: Api) -> None:
    answer = send(many, table(GOOD, TWIN, WRONG, KNOWN), "?all_or_nothing=false").json()
    assert [(row["username"], row["created"], row["role"], row["password"]) for row in answer["rows"]][::2] == [
        ("ann", True, "user", True), ("ben", False, "", False),
    ]  # fmt: skip
    assert [row["created"] for row in answer["rows"]] == [True, False, False, False]
    ann = many.get("users/ann")
    assert (ann["uid"], ann["groups"], [vc["name"] for vc in ann["virtual_clusters"]]) == (
        5001, ["crew"], ["audio", "vision"],
    )  # fmt: skip
    assert signs_in("ann")
    assert AuditEntry.objects.filter(action="user.create", target="ann", actor="root").count() == 1


def test_a_row_without_a_number_gets_one_of_its_own(many: Api) -> None:
    rows = ({"username": "eve"}, {"username": "fay", "uid": "5002"}, {"username": "gil"})
    assert send(many, table(*rows)).status_code == 200
    eve, fay, gil = (many.get(f"users/{name}") for name in ("eve", "fay", "gil"))
    assert (fay["uid"], fay["gid"]) == (5002, None)
    assert eve["uid"] == eve["gid"] != gil["uid"] == gil["gid"]
    assert None not in (eve["uid"], gil["uid"])


def test_the_template_is_such_a_table(many: Api) -> None:
    template = many.call("GET", "users/import")
    assert template.headers["Content-Type"].startswith("text/csv")
    answer = send(many, template.content, "?dry_run=true").json()
    assert [(row["username"], [one["code"] for one in row["errors"]]) for row in answer["rows"]] == [
        ("alice", ["taken"]),
    ]  # fmt: skip


NO_TABLES: dict[str, tuple[str | bytes, str, str]] = {
    "nothing": ("", "username", "missing"),
    "an unknown column": ("username,colour\nann,red\n", "colour", "unknown"),
    "a column twice": ("username,role,role\nann,user,user\n", "role", "twice"),
    "no UTF-8": (b"username\n\xff\n", "", "encoding"),
    "a quote without end": ('username\n"ann\n', "", "syntax"),
    "too many cells": ("username\nann,ben\n", "", "too_long"),
    "too many rows": ("username\n" + "ann\n" * 201, "", "too_many"),
    "no name": ("username,role\n,user\n", "username", "required"),
    "half a character": ("username\nan\0n\n", "username", "null_characters_not_allowed"),
}


@pytest.mark.parametrize("case", NO_TABLES)
def test_what_is_no_table_is_refused_with_the_place(many: Api, case: str) -> None:
    text, path, code = NO_TABLES[case]
    answer = send(many, text)
    assert answer.status_code == 400, answer.content
    assert (path, code) in faults(answer)


def test_more_rows_take_no_more_queries_to_check(many: Api) -> None:
    def queries(count: int) -> int:
        rows = ({"username": f"u{index}", "uid": str(5000 + index)} for index in range(count))
        with CaptureQueriesContext(connection) as found:
            assert send(many, table(*rows), "?dry_run=true").status_code == 200
        return len(found)

    queries(1)
    assert queries(2) == queries(12)


# ---------------------------------------------------------------- groups


def test_a_group_gives_its_members_roles_until_it_gives_them_no_more(world: World, admin: Api) -> None:
    vc_create(name="audio", now=world.now)
    bob = person("bob")
    made = admin.call(
        "POST", "groups", {"name": "crew", "description": "d", "virtual_clusters": [{"name": "audio", "role": "lead"}]}
    )
    assert made.status_code == 201, made.content
    assert admin.call("PUT", "groups/crew/members/bob").status_code == 204
    assert admin.get("groups/crew") == {
        "name": "crew", "description": "d", "member_count": 1, "members": ["bob"],
        "virtual_clusters": [{"name": "audio", "role": "lead"}],
    }  # fmt: skip
    assert Api(bob).get("users/bob")["virtual_clusters"] == [{"name": "audio", "role": "lead"}]
    seen = made.headers["ETag"]
    other = {"virtual_clusters": [{"name": "vision"}]}
    assert admin.call("PATCH", "groups/crew", other, If_Match=seen).status_code == 200
    assert admin.call("PATCH", "groups/crew", {"description": "e"}, If_Match=seen).status_code == 409
    assert Api(bob).get("users/bob")["virtual_clusters"] == [{"name": "vision", "role": "member"}]
    admin.call("DELETE", "groups/crew/members/bob")
    assert Api(bob).get("users/bob")["virtual_clusters"] == []
    admin.call("PUT", "groups/crew/members/bob")
    assert admin.call("DELETE", "groups/crew").status_code == 204
    assert not Membership.objects.filter(group__isnull=False).exists()
    assert User.objects.filter(username="bob").exists()


def test_a_group_that_cannot_be_is_refused(world: World, admin: Api) -> None:
    Group.objects.create(name="crew")
    for body, status in (
        ({"name": "crew"}, 409), ({"name": "vision"}, 409), ({"name": "a b"}, 400), ({}, 400),
        ({"name": "g", "virtual_clusters": [{"name": "none"}]}, 400), ({"name": "g", "colour": 1}, 400),
    ):  # fmt: skip
        answer = admin.call("POST", "groups", body)
        assert answer.status_code == status, (body, answer.content)
    assert not Group.objects.filter(name="g").exists()
    assert admin.call("PATCH", "groups/crew", {}).status_code == 400
    assert admin.call("PUT", "groups/crew/members/ghost").status_code == 404


def test_groups_are_found_by_name_team_and_member(world: World, admin: Api) -> None:
    cast_of(world.vc, world.user)
    Group.objects.create(name="Leaders")
    member_set(vc=world.vc, user=person("eve"), role="member", now=world.now)
    expected = {"name=LEAD": {"Leaders", "leads"}, "vc=vision": {"leads", "members"}, "user=group_lead": {"leads"}}
    assert {query: set(admin.names(f"groups?{query}", "name")) for query in expected} == expected
