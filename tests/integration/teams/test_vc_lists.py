"""The list of virtual clusters, making and removing one, its secrets, and what bars say of lending."""

from __future__ import annotations

import pytest

from portal.accounts.models import AuditEntry, ClusterRole
from portal.hardware.models import CellType, Gpu, Node
from portal.jobs.services.stop import job_stop
from portal.secrets.models import StoredSecret
from portal.teams.models import Membership, VirtualCluster
from portal.teams.selectors.shares import _shared_out, vc_shares
from portal.teams.services.quotas import quota_set
from portal.teams.services.teams import member_set, vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db
VC = "/virtual-clusters/vision"


@pytest.fixture
def world() -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


@pytest.fixture
def admin(world: World) -> Browser:
    return Browser(person("root", ClusterRole.ADMIN))


def test_the_list_has_the_own_ones_first_with_their_jobs(world: World) -> None:
    vc_create(name="audio", description="speech", now=world.now)
    world.submit(gpu=3)
    world.submit(gpu=4)
    world.settle()
    page = Browser(world.user).get("/virtual-clusters")
    assert page.text.index("vision you are a member") < page.text.index("audio speech It owns no GPUs")
    assert "3 of 4 used" in page.text
    assert "1 job runs 1 waits" in page.text
    assert "Create a virtual cluster" not in page.links


def test_more_of_them_take_no_more_queries(world: World, admin: Browser) -> None:
    admin.get("/virtual-clusters")
    vc_create(name="first", now=world.now)
    before = admin.queries("/virtual-clusters")
    for number in range(5):
        vc_create(name=f"vc{number}", now=world.now)
    assert admin.queries("/virtual-clusters") == before


def test_what_others_have_on_loan_is_told_of_who_lends_it(world: World) -> None:
    borrower = vc_create(name="audio", now=world.now)
    member_set(vc=borrower, user=world.user, role="member", now=world.now)
    quota_set(vc=world.vc, cell_type=CellType.objects.get(name="A100"), count=3, now=world.now)
    quota_set(vc=borrower, cell_type=CellType.objects.get(name="A100"), count=1, now=world.now)
    for _ in range(2):
        world.submit(defaults={"virtualCluster": "audio"}, berth={"borrow": "auto"})
    world.settle()
    found = vc_shares(vcs=[world.vc, borrower])
    ((vision,), (audio,)) = found[world.vc.pk], found[borrower.pk]
    assert (vision.lent, vision.unused, audio.guaranteed, audio.borrowed, audio.lent) == (1, 3, 1, 1, 0)
    assert "0 of 3 used, 3 unused ( 1 lent )" in Browser(world.user).get("/virtual-clusters").text


def test_what_no_server_can_give_now_is_told_beside_what_is_unused(world: World) -> None:
    reader = Browser(world.user)
    job = world.submit(gpu=1)
    world.settle()
    unused = vc_shares(vcs=[world.vc])[world.vc.pk][0].unused
    Node.objects.update(intent="cordoned")
    (share,) = vc_shares(vcs=[world.vc])[world.vc.pk]
    assert (share.guaranteed, share.unused, share.out) == (1, unused, unused)
    words = f"{unused} unused ({unused} out of service)"
    for path in ("/", "/submit", "/cluster", "/virtual-clusters", VC):
        assert words in reader.get(path).text, path
    assert f"{unused} A100 unused ({unused} out of service)" in reader.get("/submit").text
    Node.objects.update(intent="open")
    job_stop(job=job, actor=world.user, now=world.now)
    world.settle()
    Gpu.objects.filter(pk=Gpu.objects.earliest("pk").pk).update(fault="ecc")
    (share,) = vc_shares(vcs=[world.vc])[world.vc.pk]
    assert (share.unused, share.out) == (unused + 1, 1)


@pytest.mark.parametrize(
    ("amount", "among", "parts"),
    [
        (0, {1: 3}, {}),
        (5, {}, {}),
        (9, {1: 2, 2: 1}, {1: 2, 2: 1}),
        (2, {1: 2, 2: 2}, {1: 1, 2: 1}),
        (1, {1: 2, 2: 2}, {1: 1, 2: 0}),
        (4, {1: 5, 2: 1}, {1: 3, 2: 1}),
    ],
)
def test_what_is_lent_is_shared_out_whole(amount: int, among: dict[int, int], parts: dict[int, int]) -> None:
    assert _shared_out(amount, among) == parts


def test_one_is_made_and_removed_again(admin: Browser) -> None:
    assert (
        "Give it a quota"
        in admin.send("/new-virtual-cluster", name="audio", description="speech", host_network="False").text
    )
    page = admin.send("/new-virtual-cluster", name="audio", host_network="False")
    assert (page.status, "There is a virtual cluster named audio already." in page.text) == (400, True)
    assert "Letters, digits" in admin.send("/new-virtual-cluster", name="no/slash").text
    assert "is removed" in admin.send("/virtual-clusters/audio/remove").text
    assert not VirtualCluster.objects.filter(name="audio").exists()


def test_who_makes_one_is_asked_about_the_host_network_and_nobody_has_it_unasked(world: World, admin: Browser) -> None:
    unsaid = admin.send("/new-virtual-cluster", name="audio")
    assert (unsaid.status, "reach whatever listens on its loopback" in unsaid.text) == (400, True)
    for name, said in (("shut", "False"), ("open", "True")):
        admin.send("/new-virtual-cluster", name=name, host_network=said)
    vc_create(name="unasked", now=world.now)
    found = VirtualCluster.objects.filter(name__in=["shut", "open", "unasked"])
    assert dict(found.values_list("name", "host_network")) == {"shut": False, "open": True, "unasked": False}
    assert AuditEntry.objects.get(action="vc.create", target="open").after == {"host_network": True}


def test_one_with_live_jobs_is_not_removed_and_says_why(world: World, admin: Browser) -> None:
    assert "Remove it" in admin.get(f"{VC}/remove").text
    job = world.submit()
    before = admin.get(f"{VC}/remove")
    after = admin.send(f"{VC}/remove")
    assert (before.status, after.status) == (200, 409)
    for page in (before, after):
        assert "jobs that are not over (1 waiting)" in page.text
        assert "Remove it" not in page.text
        assert page.links["alice/train#1"] == f"/jobs/{job.pk}"
    assert VirtualCluster.objects.filter(name="vision", removed_at=None).exists()


def test_a_lead_stores_secrets_and_members_read_their_names(world: World) -> None:
    people = cast_of(world.vc, world.user)
    lead, member = Browser(people["lead"]), Browser(people["member"])
    page = lead.send(f"{VC}/secrets/store", form=f"{VC}/secrets", name="hf_token", value="very-secret")
    assert "hf_token is stored." in page.text
    page = lead.send(
        f"{VC}/secrets/registries", form=f"{VC}/secrets", server="Registry.example.org", username="bot", password="pw1"
    )
    assert "registry.example.org bot" in page.text
    seen = member.get(f"{VC}/secrets")
    assert ("hf_token" in seen.text, "Delete" in seen.text, "very-secret" in seen.html) == (True, False, False)
    assert "Letters, digits" in lead.send(f"{VC}/secrets/store", form=f"{VC}/secrets", name="a b", value="x").text
    lead.send(f"{VC}/secrets/hf_token/forget", form=f"{VC}/secrets")
    lead.send(f"{VC}/secrets/registries/registry.example.org/forget", form=f"{VC}/secrets")
    assert not StoredSecret.objects.exists()
    assert AuditEntry.objects.filter(action="secret", vc="vision", actor="lead").count() == 4
    assert Browser(people["other"]).get(f"{VC}/secrets").status == 404
    assert member.send(f"{VC}/secrets/store", form="/profile", name="a", value="b").status == 403


def test_everybody_stores_secrets_of_their_own(world: World) -> None:
    alice = Browser(world.user)
    alice.send("/profile/secrets/store", form="/profile/secrets", name="mine", value="x")
    assert "mine" in alice.get("/profile/secrets").text
    assert StoredSecret.objects.get().user == world.user
    assert "mine" not in Browser(person("bob")).get("/profile/secrets").text
    assert Browser(person("carl")).send("/profile/secrets/mine/forget", form="/profile/secrets").status == 404


def test_nobody_else_makes_or_removes_one(world: World) -> None:
    people = cast_of(world.vc, world.user)
    for who in ("lead", "member", "auditor", "other"):
        browser = Browser(people[who])
        assert {browser.get(path).status for path in ("/new-virtual-cluster", f"{VC}/remove")} == {403}
        assert browser.send(f"{VC}/remove", form="/profile").status == 403
    assert Membership.objects.filter(vc=world.vc).exists()
