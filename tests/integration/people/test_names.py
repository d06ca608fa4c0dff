"""Names are offered while one types: those that the reader may see anyway, and no others."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group

from portal.accounts.models import ClusterRole, User
from portal.people.selectors.names import OFFERED
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    made = World()
    for name in ("alan", "sally", "mallory"):
        person(name)
    member_set(vc=made.vc, user=person("lea"), role="lead", now=made.now)
    Group.objects.create(name="all-hands")
    vc_create(name="audio", now=made.now)
    return made


def offered(browser: Browser, path: str) -> list[str]:
    page = browser.get(path)
    assert page.status == 200
    return re.findall(r'<option value="([^"]*)">', page.html)


def test_an_administrator_is_offered_everybody_first_those_whose_name_begins_so(world: World) -> None:
    root = Browser(person("root", ClusterRole.ADMIN))
    assert offered(root, "/names/users?user=AL") == ["alan", "alice", "mallory", "sally"]
    assert offered(root, "/names/members?name=al") == ["alan", "alice", "mallory", "sally", "all-hands"]
    assert offered(root, "/names/groups?groups=x") == []
    assert offered(root, "/names/virtual-clusters?vc=") == ["audio", "vision"]
    assert root.get("/names/passwords?x=a").status == 404


def test_a_lead_is_offered_the_people_of_the_team_and_others_only_themselves(world: World) -> None:
    lead, other = (Browser(User.objects.get(username=name)) for name in ("lea", "mallory"))
    assert offered(lead, "/names/users?user=") == ["alice", "lea"]
    assert offered(lead, "/names/groups?name=a") == []
    assert offered(other, "/names/members?name=") == ["mallory"]
    assert Browser().get("/names/users?user=a").status == 302


def test_of_a_list_of_names_the_last_is_looked_for_and_the_others_stay(world: World) -> None:
    root = Browser(person("root", ClusterRole.ADMIN))
    path = "/names/virtual-clusters?several=&virtual_clusters="
    assert offered(root, f"{path}vision%2C%20a") == ["vision, audio"]
    assert offered(root, f"{path}%3Cb%3E%2C%20au") == ["&lt;b&gt;, audio"]
    assert offered(root, f"{path}%00") == ["audio", "vision"]
    assert offered(root, f"{path}{'x,' * 4999}au") == ["x," * 4999 + "audio"]
    assert offered(root, f"{path}{'x,' * 5000}au") == [], "a list of that length is nobody's"


def test_so_many_at_most(world: World) -> None:
    for number in range(OFFERED + 5):
        person(f"u{number:02}")
    assert len(offered(Browser(person("root", ClusterRole.ADMIN)), "/names/users?user=u")) == OFFERED


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/virtual-clusters/vision", "members"),
        ("/virtual-clusters/vision", "users"),
        ("/jobs", "users"),
        ("/usage", "users"),
        ("/users", "virtual-clusters"),
        ("/new-user", "groups"),
        ("/groups/all-hands", "users"),
        ("/new-storage", "virtual-clusters"),
        ("/images", "virtual-clusters"),
        ("/idle", "users"),
        ("/audit", "users"),
    ],
)
def test_fields_for_names_ask_for_them(world: World, path: str, kind: str) -> None:
    page = Browser(person("root", ClusterRole.ADMIN)).get(path)
    fields = [tag for name, tag in page.tags if name == "input" and f"/names/{kind}" in tag.get("data-hx-get", "")]
    lists = [tag["id"] for name, tag in page.tags if name == "datalist"]
    assert fields
    assert all(tag["list"] in lists and tag["data-hx-target"] == f"#{tag['list']}" for tag in fields)
