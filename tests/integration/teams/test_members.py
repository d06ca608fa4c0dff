"""Who is in a virtual cluster, what it lends and borrows, and whose turn it is: on its page and by REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from portal.accounts.models import ClusterRole
from portal.accounts.rights import Action, allowed_everywhere
from portal.common.errors import NotFound
from portal.forecast.estimates import starts_estimate
from portal.hardware.models import Sku
from portal.jobs.selectors.visible import job_restrict
from portal.jobs.services.submit import job_submit
from portal.teams.models import LoanLimit, Membership, VirtualCluster
from portal.teams.selectors.visible import may, vc_restrict, vc_roles
from portal.teams.services.teams import member_set, vc_create, vc_remove
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
VC = "/virtual-clusters/vision"


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


@pytest.fixture
def lead(world: World) -> Browser:
    who = person("lena")
    member_set(vc=world.vc, user=who, role="lead", now=world.now)
    return Browser(who)


def roles(world: World) -> dict[str, str]:
    rows = Membership.objects.filter(vc=world.vc).select_related("user", "group")
    return {str(row.user.username if row.user else row.group): row.role for row in rows}


def test_a_lead_adds_people_and_groups_changes_roles_and_removes(world: World, lead: Browser) -> None:
    person("bob")
    Group.objects.create(name="students")
    page = lead.send(f"{VC}/members", form=VC, name="bob", kind="user", role="member")
    assert "bob is a member of vision now." in page.text
    lead.send(f"{VC}/members", form=VC, name="students", kind="group", role="member")
    page = lead.send(f"{VC}/members", form=VC, name="alice", kind="user", role="lead")
    assert page.status == 400
    assert "alice is in it already, as Member; the role is changed in the list." in page.text
    page = lead.send(f"{VC}/members", form=VC, name="lena", kind="user", role="member")
    assert (page.status, roles(world)["lena"]) == (400, "lead"), "nobody's role is taken by adding them"
    page = lead.send(f"{VC}/members", form=VC, name="alice", kind="user", role="lead", change="1")
    assert "alice leads vision now." in page.text
    assert roles(world) == {"alice": "lead", "bob": "member", "lena": "lead", "students": "member"}
    row = Membership.objects.get(user__username="bob")
    page = lead.send(f"{VC}/members/{row.pk}/remove", form=VC)
    assert "bob is not in vision any more." in page.text
    assert "bob" not in roles(world)


def test_somebody_who_is_not_there_is_named_beside_the_field(world: World, lead: Browser) -> None:
    page = lead.send(f"{VC}/members", form=VC, name="ghost", kind="group", role="member")
    assert (page.status, "there is no group ghost" in page.text) == (400, True)


def test_by_rest_members_are_listed_set_and_removed(world: World, lead: Browser) -> None:
    person("bob")
    api = Api(Membership.objects.get(role="lead").user)
    answer = api.call("POST", "virtual-clusters/vision/members", {"name": "bob", "role": "lead"})
    assert [(row["user"], row["role"]) for row in answer.json()] == [
        ("bob", "lead"), ("lena", "lead"), ("alice", "member"),
    ]  # fmt: skip
    assert api.call("DELETE", f"virtual-clusters/vision/members/{answer.json()[0]['id']}").status_code == 204
    assert [row["user"] for row in api.get("virtual-clusters/vision/members")] == ["lena", "alice"]
    refused = api.call("POST", "virtual-clusters/vision/members", {"name": "ghost", "role": "lead"})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (400, "name")


def test_an_administrator_sets_what_it_borrows_and_lends_with_its_rules(world: World, lead: Browser) -> None:
    admin, sku = Browser(person("root", ClusterRole.ADMIN)), Sku.objects.get()
    rules: dict[str, Any] = {
        "default_borrow": "never", "member_class": "prod", "lead_class": "crit", "weight": 2,
        "default_profile": "root", "host_network": "True", "parking": "False",
        f"max_borrow-{sku.pk}": 2, f"max_lend-{sku.pk}": "",
    }  # fmt: skip
    page = admin.send(f"{VC}/rules", **rules)
    assert "borrows at most 2, lends without limit" in page.text
    assert admin.send(f"{VC}/rules", **{**rules, f"max_borrow-{sku.pk}": -1}).status == 400
    assert LoanLimit.objects.get().max_borrow == 2
    admin.send(f"{VC}/rules", **{**rules, f"max_borrow-{sku.pk}": ""})
    assert not LoanLimit.objects.exists()
    assert "Lending" not in lead.get(f"{VC}/rules").text


def test_whose_turn_it_is_stands_on_its_page_with_bars(world: World, lead: Browser) -> None:
    world.submit(gpu=3)
    world.submit(gpu=3)
    world.settle()
    assert "not known yet" in lead.get(VC).text
    starts_estimate(now=timezone.now(), seconds=5)
    page = lead.get(VC)
    assert "alice 0.3 % 1 1" in page.text
    (row,) = Api(world.user).get("virtual-clusters/vision/shares")
    assert (row["user"], row["running"], row["waiting"]) == ("alice", 1, 1)
    assert 0 < row["share"] < 0.01
    assert Api(person("stranger")).get("virtual-clusters/vision/shares") == []


def test_more_people_jobs_and_events_take_no_more_queries(world: World, lead: Browser) -> None:
    world.submit()
    world.settle()
    lead.get(VC)  # what is kept of the cluster from one page to the next
    before = lead.queries(VC)
    for number in range(5):
        member_set(vc=world.vc, user=person(f"p{number}"), role="member", now=world.now)
        Group.objects.create(name=f"g{number}").vc_memberships.create(vc=world.vc, role="member")
        world.submit(name=f"more-{number}")
    world.settle()
    lead.get(VC)
    assert lead.queries(VC) == before


def test_nobody_joins_a_virtual_cluster_that_was_removed_meanwhile(world: World) -> None:
    late = VirtualCluster.objects.get(pk=vc_create(name="late", now=world.now).pk)
    vc_remove(vc=VirtualCluster.objects.get(pk=late.pk), now=world.now, actor="root")
    with pytest.raises(NotFound):
        member_set(vc=late, user=person("bob"), role="member", now=world.now)
    assert not Membership.objects.filter(vc=late).exists()


def test_of_two_roles_in_a_virtual_cluster_the_higher_one_counts(world: World) -> None:
    for own, of_the_group in (("lead", "member"), ("member", "lead")):
        who, crew = person(f"{own}-alone"), Group.objects.create(name=f"crew of {of_the_group}s")
        who.groups.add(crew)
        Membership.objects.create(vc=world.vc, user=who, role=own)
        Membership.objects.create(vc=world.vc, group=crew, role=of_the_group)
        assert vc_roles(user=who) == {world.vc.pk: "lead"}


@pytest.mark.parametrize("role", [ClusterRole.USER, ClusterRole.AUDITOR, ClusterRole.ADMIN])
def test_a_disabled_account_has_no_right_left_over_what_it_led_and_owned(world: World, role: ClusterRole) -> None:
    """Whatever lets it in: sessions and tokens ask by themselves, what runs on asks here."""
    who = person("lena", role)
    member_set(vc=world.vc, user=who, role="lead", now=world.now)
    job = job_submit(user=who, text=job_file(), now=world.now)
    assert job_restrict(user=who).filter(pk=job.pk).exists()
    who.is_active = False
    assert not vc_restrict(user=who, action=Action.JOB_SUBMIT).exists()
    assert not may(user=who, vc=world.vc, action=Action.VC_MEMBERS)
    assert not job_restrict(user=who).exists()
    assert not any(allowed_everywhere(who, action) for action in Action)
