"""The pages of users, groups and the import: who sees them, and what is done there."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from portal.accounts.models import ClusterRole, User
from portal.common.progress import progress_read
from portal.teams.models import Membership
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser, Page

pytestmark = pytest.mark.django_db
TICKET = "0123456789abcdef" * 2


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def admin(world: World) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def shown(page: Page, name: str) -> str:
    """What the field of that name holds."""
    return next(tag["value"] for kind, tag in page.tags if kind == "input" and tag.get("name") == name)


def test_the_list_is_searched_and_shows_teams_and_groups(admin: Browser) -> None:
    bob = person("bob")
    bob.groups.add(Group.objects.create(name="crew"))
    User.objects.filter(pk=bob.pk).update(email="bob@example.org", is_active=False)
    page = admin.get("/users?text=EXAMPLE.org")
    assert ("bob disabled bob@example.org User none crew" in page.text, "alice" in page.text) == (True, False)
    assert "vision" in admin.get("/users?vc=vision&role=user&active=true").text
    assert "No account matches these filters." in admin.get("/users?text=nobody").text
    assert "bob" in admin.get("/users?role=nonsense").text


def test_a_long_list_has_pages_and_takes_no_more_queries(admin: Browser) -> None:
    before = admin.queries("/users")
    for number in range(60):
        person(f"u{number:02}").groups.add(Group.objects.get_or_create(name=f"g{number % 3}")[0])
    assert admin.queries("/users") == before
    page = admin.get("/users")
    assert ("u30" in page.text, "u59" in page.text) == (True, False)
    assert "u59" in admin.get("/users" + page.links["Next"].removeprefix("/users")).text


def test_an_account_is_made_with_its_teams(admin: Browser) -> None:
    Group.objects.create(name="crew")
    typed: dict[str, Any] = {
        "username": "dora",
        "email": "d@example.org",
        "role": "user",
        "uid": 2002,
        "groups": "crew",
    }
    page = admin.send("/new-user", **typed, virtual_clusters="vision")
    assert "The account dora is made." in page.text
    dora = User.objects.get(username="dora")
    assert (dora.uid, dora.has_usable_password(), [group.name for group in dora.groups.all()]) == (
        2002, False, ["crew"],
    )  # fmt: skip
    assert Membership.objects.filter(user=dora, vc__name="vision", role="member").exists()


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_is_kept(admin: Browser) -> None:
    typed = {"username": "dora", "email": "dora", "role": "user", "groups": "nowhere", "extra_gids": "7, x"}
    page = admin.send("/new-user", **typed)
    assert page.status == 400
    assert [shown(page, name) for name in typed if name != "role"] == ["dora", "dora", "nowhere", "7, x"]
    assert "Enter a valid email address." in page.text
    assert "whole numbers from 1" in page.text
    page = admin.send("/new-user", username="alice", role="user", groups="nowhere")
    assert "There is no group nowhere." in page.text
    page = admin.send("/new-user", username="alice", role="user", password="12345")
    assert "too short" in page.text
    assert "There is a user alice already." in admin.send("/new-user", username="alice", role="user").text
    assert not User.objects.filter(username="dora").exists()


def test_an_account_is_disabled_and_opened_and_the_last_administrator_stays(admin: Browser) -> None:
    page = admin.send("/users/alice", role="user", email="a@example.org")
    assert "disabled" in page.text
    assert not User.objects.get(username="alice").is_active
    page = admin.send("/users/root", role="user", active="on")
    assert "last administrator" in page.text
    assert User.objects.get(username="root").role == ClusterRole.ADMIN


def test_who_comes_second_sees_the_first_ones_change_and_keeps_what_was_typed(admin: Browser) -> None:
    seen = shown(admin.get("/users/alice"), "seen")
    User.objects.filter(username="alice").update(email="first@example.org", uid=7)
    typed = {"role": "auditor", "active": "on", "email": "second@example.org", "uid": "1001", "seen": seen}
    was = {"initial-role": "user", "initial-active": "True", "initial-email": "", "initial-uid": "1001"}
    page = admin.send("/users/alice", **typed, **was)
    assert page.status == 409
    assert "Somebody else changed this" in page.text
    assert "E-mail: it is “first@example.org” now." in page.text
    assert (shown(page, "email"), shown(page, "uid")) == ("second@example.org", "7")
    again = {**typed, "uid": shown(page, "uid"), "seen": shown(page, "seen")}
    assert "alice is changed." in admin.send("/users/alice", **again).text
    alice = User.objects.get(username="alice")
    assert (alice.email, alice.uid, alice.role) == ("second@example.org", 7, "auditor")


def test_what_the_other_changed_is_named_and_what_only_oneself_did_is_not(admin: Browser) -> None:
    opened = admin.get("/users/alice").tags
    seen = {tag["name"]: tag.get("value", "") for kind, tag in opened if kind == "input" and "name" in tag}
    seen = {name: value for name, value in seen.items() if name == "seen" or name.startswith("initial-")}
    same = {name.removeprefix("initial-"): value for name, value in seen.items() if name != "seen"} | {"active": "on"}
    assert (same["role"], same["email"]) == ("user", "")
    other = Browser(person("other", ClusterRole.ADMIN))
    assert "alice is changed." in other.send("/users/alice", **same | {"email": "new@example.org"}, **seen).text
    page = admin.send("/users/alice", **same | {"role": "auditor"}, **seen)
    assert (page.status, shown(page, "email")) == (409, "new@example.org")
    assert "E-mail: it is “new@example.org” now." in page.text
    assert page.text.count(": it is “") == 1
    assert f"The last change: Changed an account (alice) · other · {timezone.now():%Y-%m-%d}" in page.text
    del same["active"]
    other.send("/users/alice", **same | {"role": "admin"})
    page = admin.send("/users/alice", **same | {"role": "auditor", "active": "on"}, **seen)
    assert "Role: it is “Administrator” now." in page.text
    assert "May sign in: it is “No” now." in page.text
    assert page.text.count(": it is “") == 2
    assert '<option value="auditor" selected' in page.html


def test_a_password_is_set_and_a_weak_one_is_refused_beside_its_field(admin: Browser) -> None:
    assert "too short" in admin.send("/users/alice/password", form="/users/alice", password="x").text
    admin.send("/users/alice/password", form="/users/alice", password="a very long one 1")
    assert User.objects.get(username="alice").check_password("a very long one 1")


def test_an_account_without_jobs_is_removed_and_one_with_jobs_is_not(world: World, admin: Browser) -> None:
    world.node("gpu01", gpus=1)
    world.submit()
    person("spare")
    assert "is removed" in admin.send("/users/spare/remove", form="/users/spare").text
    assert "disable the account instead" in admin.send("/users/alice/remove", form="/users/alice").text


def test_a_lead_reads_the_people_of_the_team_and_changes_nobody(world: World) -> None:
    people = cast_of(world.vc, person("solo"))
    lead = Browser(people["lead"])
    assert "member" in lead.get("/users").text
    page = lead.get("/users/member")
    assert (page.status, "Set the password" in page.text) == (200, False)
    assert lead.get("/users/nobody").status == 404
    for path in ("/users/member", "/users/member/password", "/users/member/remove"):
        assert lead.send(path, form="/profile", role="admin", password="a very long one 1").status == 403
    assert Browser(people["member"]).get("/users").status == 404
    assert {lead.get(path).status for path in ("/new-user", "/users/import", "/new-group")} == {403}


def test_a_group_is_made_gives_teams_and_has_people(admin: Browser) -> None:
    assert "The group crew is made." in admin.send("/new-group", name="crew", description="all").text
    page = admin.send("/groups/crew", description="all", member="vision", lead="", seen="")
    assert "crew is changed." in page.text
    page = admin.send("/groups/crew/members", form="/groups/crew", username="alice")
    assert page.links["alice"] == "/users/alice"
    assert "There is no user nobody" in admin.send("/groups/crew/members", form="/groups/crew", username="nobody").text
    assert "There is no virtual cluster nowhere." in admin.send("/groups/crew", member="nowhere", lead="").text
    admin.send("/groups/crew/members/alice/remove", form="/groups/crew")
    assert not User.objects.get(username="alice").groups.exists()
    assert "crew" in admin.get("/groups?text=all").text
    assert "is removed" in admin.send("/groups/crew/remove", form="/groups/crew").text


def test_a_table_is_looked_at_row_by_row_before_accounts_are_made(admin: Browser) -> None:
    table = b"username,virtual_clusters,password\ndora,vision,\nalice,,\nemil,nowhere,x\n"
    page = admin.send("/users/import", file=SimpleUploadedFile("users.csv", table))
    assert page.status == 400
    assert "2 of 3 rows cannot be imported. No account was created" in page.text
    assert "3 alice username : there is a user alice already" in page.text
    assert "4 emil password : " in page.text
    assert "virtual_clusters : there is no virtual cluster nowhere" in page.text
    assert "dora,vision," in page.html
    assert "2 dora can be created User none: cannot log in until you set one vision" in page.text
    assert "nobody can log in to the account until you set a password on its page" in page.text
    assert not User.objects.filter(username="dora").exists()
    page = admin.send("/users/import", table=table.decode(), apply="on")
    assert (page.status, User.objects.filter(username="dora").exists()) == (400, False)
    page = admin.send("/users/import", table=table.decode(), apply="on", others="on", ticket=TICKET)
    assert "1 account is created. 2 rows could not be imported" in page.text
    assert Membership.objects.filter(user__username="dora", vc__name="vision").exists()
    assert written(page) == "username,virtual_clusters,password\nalice,,\nemil,nowhere,x\n"
    mended = written(page).replace("nowhere,x", "vision,").replace("alice", "ada")
    page = admin.send("/users/import", table=mended, apply="on")
    assert ("2 accounts are created." in page.text, written(page)) == (True, "")


def written(page: Page) -> str:
    """What the table's text field holds."""
    return html.unescape(page.html.partition('name="table"')[2].partition(">")[2].partition("</textarea>")[0])[1:]


def test_a_table_with_semicolons_is_read_and_what_is_left_of_it_keeps_them(admin: Browser) -> None:
    table = 'username;role;virtual_clusters\r\nalice;;\r\ndora;user;"vision;nowhere"\r\nemil;;"vision"\r\n'
    page = admin.send("/users/import", apply="on", others="on", file=SimpleUploadedFile("u.csv", table.encode()))
    assert "1 account is created. 2 rows could not be imported" in page.text
    assert Membership.objects.filter(user__username="emil", vc__name="vision").exists()
    assert written(page) == 'username;role;virtual_clusters\nalice;;\ndora;user;"vision;nowhere"\n'


@pytest.mark.parametrize("content", [b"PK\x03\x04\xff\xfe", "username\ndora\n".encode("utf-16"), b"username\n\0\n"])
def test_a_file_that_is_no_text_is_refused_beside_its_field(admin: Browser, content: bytes) -> None:
    page = admin.send("/users/import", file=SimpleUploadedFile("u.csv", content), table="username\ntyped\n")
    assert page.status == 400
    assert "This file is no text." in page.html.partition('id="id_file_error"')[2][:200]
    assert written(page).split() == ["username", "typed"]


def test_how_far_an_import_is_can_be_asked_for_by_who_runs_it(admin: Browser) -> None:
    admin.send("/users/import", table="username\ndora\nemil\n", apply="on", ticket=TICKET)
    root = User.objects.get(username="root")
    assert progress_read(f"people:{root.pk}:{TICKET}") == (2, 2)
    assert admin.client.get(f"/users/import/progress/{TICKET}").json() == {"done": 2, "total": 2}
    other = Browser(person("other", ClusterRole.ADMIN))
    assert other.client.get(f"/users/import/progress/{TICKET}").json() == {}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "Choose a file, or write a table below."),
        ("nickname\nx\n", "Nickname: there is no such column"),
        ('username\n"a', "This is no CSV"),
    ],
)
def test_a_table_that_is_none_is_refused_in_words(admin: Browser, table: str, said: str) -> None:
    page = admin.send("/users/import", table=table)
    assert (page.status, said in page.text) == (400, True), page.text


def test_the_menu_shows_what_the_reader_may_see(world: World, admin: Browser) -> None:
    people = cast_of(world.vc, person("solo"))
    entries = {name: set(Browser(people[name]).get("/").links) for name in ("member", "lead")}
    assert {"Virtual clusters"} <= entries["member"]
    assert not {"Users", "Groups", "Webhook"} & entries["member"]
    assert {"Users", "Groups"} <= entries["lead"]
    assert "Webhook" not in entries["lead"]
    assert {"Users", "Webhook"} <= set(admin.get("/").links)


def test_everything_that_is_wrong_with_a_new_account_is_told_at_once(admin: Browser, world: World) -> None:
    typed = {"username": world.user.username, "password": "short", "email": "no address", "role": "user", "uid": "0"}
    page = admin.send("/new-user", **typed, groups="nowhere", virtual_clusters="nothing", extra_gids="x")
    assert page.status == 400
    for told in (
        "There is a user alice already.", "This password is too short.", "Enter a valid email address.",
        "There is no group nowhere.", "There is no virtual cluster nothing.", "At most 64 whole numbers",
        "Ensure this value is greater than or equal to 1.",
    ):  # fmt: skip
        assert told in page.text
    assert (shown(page, "username"), shown(page, "groups")) == ("alice", "nowhere")


def test_everything_that_is_wrong_with_a_row_of_a_table_is_told_at_once(admin: Browser) -> None:
    header = "username,password,email,uid,groups"
    table = f"{header}\nalice,short,no address,0,nowhere\nbob,,,,\nbob,short,,,\nno name,short,,,\n"
    page = admin.send("/users/import", table=table)
    row = page.text[page.text.index("2 alice") : page.text.index("3 bob")]
    for told in ("too short", "valid email", "greater than or equal to 1", "no group nowhere", "a user alice already"):
        assert told in row
    assert "too short" in page.text[page.text.index("4 bob") :]
    assert "line 3 has bob already" in page.text
    assert "too short" in page.text[page.text.index("5 no name") :]
    assert not User.objects.filter(username="bob").exists()


def test_of_a_group_too_it_is_told_who_changed_it_and_when(admin: Browser) -> None:
    Group.objects.create(name="crew")
    opened = admin.get("/groups/crew")
    typed = {"description": "mine", "member": "", "lead": "", "seen": shown(opened, "seen")}
    other = Browser(person("other", ClusterRole.ADMIN))
    other.send("/groups/crew", description="theirs", member="", lead="", seen="")
    page = admin.send("/groups/crew", **typed)
    assert (page.status, "it is “theirs” now" in page.text) == (409, True)
    words = "The last change: Made, changed or removed a group, or changed who is in it (crew) · other · "
    assert f"{words}{timezone.now():%Y-%m-%d}" in page.text
