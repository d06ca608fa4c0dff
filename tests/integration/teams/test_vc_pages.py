"""A virtual cluster's pages: what it owns and allows, and changes that show what they do before they do it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from portal.accounts.models import Audited, AuditEntry, ClusterRole
from portal.hardware.models import CellType
from portal.teams.fairness import shares_keep
from portal.teams.models import FirmRight, QuotaChange, QuotaLine, VirtualCluster
from portal.teams.selectors.quotas import quota_lines
from portal.teams.services.quotas import quota_change_create
from portal.teams.services.rules import firm_right_set
from portal.teams.services.teams import vc_create
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser, Page

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


def leaf() -> str:
    return f"cells-{CellType.objects.get(name='A100').pk}-"


def cells(count: int) -> dict[str, Any]:
    """The quota form as it is filled in."""
    rows = CellType.objects.filter(child__isnull=False)
    return {f"cells-{row.pk}-": 0 for row in rows} | {leaf(): count}


def test_its_page_says_what_it_owns_and_allows(world: World) -> None:
    world.submit(gpu=3)
    world.settle()
    page = Browser(world.user).get(VC)
    assert "3 of 4 used" in page.text
    assert "A100 4 4" in page.text
    assert "members Production, leads Critical" in page.text
    assert "alice Member" in page.text
    assert "Change" not in page.links


def test_others_see_its_quota_and_not_who_is_in_it(world: World) -> None:
    page = Browser(cast_of(world.vc, world.user)["other"]).get(VC)
    assert "0 of 4 used" in page.text
    assert "Members" not in page.text


def test_a_quota_is_changed_after_a_look_at_what_it_would_do(world: World, admin: Browser) -> None:
    world.submit(gpu=4)
    world.settle()
    vc_create(name="other", now=world.now)
    for name, others in (("vision", 0), ("other", 4)):
        told = f"Of 4 A100 GPUs in the cluster {others} are guaranteed to other teams."
        assert told in admin.get(f"/virtual-clusters/{name}/quota").text
    look = admin.send(f"{VC}/quota", **cells(2))
    assert "alice/train#1" in look.text
    assert QuotaLine.objects.get().count == 4
    done = admin.send(f"{VC}/quota", **cells(2), apply="on")
    assert "No job was stopped." in done.text
    assert QuotaLine.objects.get().count == 2


def test_a_quota_that_cannot_be_is_refused_in_words(world: World, admin: Browser) -> None:
    page = admin.send(f"{VC}/quota", **cells(5), apply="on")
    assert (page.status, beside(page, leaf())) == (400, "The quotas need 5 A100, 4 are there.")
    assert field(page, leaf()) == "5"
    assert "nothing would change" in admin.send(f"{VC}/quota", **cells(4)).text


def beside(page: Page, name: str) -> str:
    """What is said to be wrong with the field of that name, to everybody."""
    (tag,) = (tag for kind, tag in page.tags if kind == "input" and tag.get("name") == name)
    assert tag.get("aria-invalid") == "true", name
    (place,) = (one for one in tag["aria-describedby"].split() if one.endswith("_error"))
    told = page.html.split(f'id="{place}">')[1].split("</div>")[0]
    return told.split(">")[1]


@pytest.mark.parametrize(
    ("count", "wrong"),
    [(5, "The quotas need 5 A100, 4 are there."), (-1, "Ensure this value is greater than or equal to 0."), (4, "")],
)
def test_all_that_is_wrong_with_a_quota_stands_beside_its_fields_at_once(
    world: World, admin: Browser, count: int, wrong: str
) -> None:
    past = f"{world.now - timedelta(days=2):%Y-%m-%dT%H:%M}"
    earlier = f"{world.now - timedelta(days=3):%Y-%m-%dT%H:%M}"
    page = admin.send(f"{VC}/quota", starts_at=past, ends_at=earlier, reason="a fair", **cells(count))
    assert page.status == 400
    assert beside(page, "starts_at") == "Lies in the past."
    assert beside(page, "ends_at") == "Must be later than the start."
    assert not wrong or beside(page, leaf()) == wrong
    assert [field(page, name) for name in (leaf(), "starts_at", "ends_at", "reason")] == [
        str(count), past, earlier, "a fair",
    ]  # fmt: skip
    assert (QuotaLine.objects.get().count, QuotaChange.objects.exists()) == (4, False)


def test_a_level_that_is_short_is_told_beside_the_number_that_was_changed(world: World, admin: Browser) -> None:
    node = CellType.objects.get(name="A100-node4")
    typed = cells(4) | {f"cells-{node.pk}-": 1}
    page = admin.send(f"{VC}/quota", **typed)
    assert "The quotas need" in beside(page, f"cells-{node.pk}-")
    start = f"{world.now + timedelta(days=1):%Y-%m-%dT%H:%M}"
    admin.send(f"{VC}/quota", **cells(2), starts_at=start, apply="on")
    page = admin.send(f"{VC}/quota", **cells(3), starts_at=start)
    assert beside(page, "starts_at").startswith("A change of the same quota holds from")


def test_the_reason_of_a_change_stands_in_the_events_and_in_the_audit_log(world: World, admin: Browser) -> None:
    page = admin.send(f"{VC}/quota", **cells(3), reason="speech {borrows} one", apply="on")
    assert "Quota of vision: 3 A100. Reason: speech {borrows} one (root)" in page.text
    entry = AuditEntry.objects.filter(action=Audited.QUOTA).latest("pk")
    assert (entry.before, entry.after) == ({"A100": 4}, {"A100": 3, "reason": "speech {borrows} one"})
    assert "speech {borrows} one" in admin.get("/audit").text
    start = f"{world.now + timedelta(days=1):%Y-%m-%dT%H:%M}"
    page = admin.send(f"{VC}/quota", **cells(2), starts_at=start, reason="a fair", apply="on")
    assert "2 A100 for vision. Reason: a fair (root)" in page.text
    after = AuditEntry.objects.get(action=Audited.QUOTA_CHANGE).after
    assert after is not None
    assert after["reason"] == "a fair"


def test_a_change_for_a_time_shows_its_return_and_is_withdrawn(world: World, admin: Browser) -> None:
    start = world.now + timedelta(days=1)
    typed: dict[str, Any] = {
        "starts_at": f"{start:%Y-%m-%dT%H:%M}", "ends_at": f"{start + timedelta(days=7):%Y-%m-%dT%H:%M}",
        "reason": "deadline", **cells(1),
    }  # fmt: skip
    assert "comes back: 4 A100" in admin.send(f"{VC}/quota", **typed).text
    page = admin.send(f"{VC}/quota", **typed, apply="on")
    assert "deadline" in page.text
    change = QuotaChange.objects.get()
    assert "withdrawn" in admin.send(f"/quota-changes/{change.pk}/withdraw", form=VC).text
    change.refresh_from_db()
    assert change.withdrawn


def test_a_lead_changes_what_one_user_may_hold_and_nothing_else(world: World) -> None:
    lead = Browser(cast_of(world.vc, world.user)["lead"])
    assert "Weight" not in lead.get(f"{VC}/rules").text
    page = lead.send(f"{VC}/rules", user_gpus=2, user_factor="", default_borrow="auto", parking="True", weight=9)
    assert "The rules of vision are changed." in page.text
    vc = VirtualCluster.objects.get(name="vision")
    assert (vc.user_gpus, vc.default_borrow, vc.weight) == (2, "auto", 1)


def test_rules_that_cannot_be_are_refused_beside_their_field(world: World, admin: Browser) -> None:
    page = admin.send(f"{VC}/rules", user_gpus=-1, default_borrow="sometimes", weight=0)
    assert page.status == 400
    assert "greater than or equal to 0" in page.text
    assert VirtualCluster.objects.get(name="vision").user_gpus is None


def test_a_right_is_given_and_taken_back(world: World, admin: Browser) -> None:
    last = f"{world.now + timedelta(days=9):%Y-%m-%d}"
    page = admin.send(f"{VC}/firm-rights", form=VC, username="alice", gpus=2, last_day=last)
    assert f"alice 2 {last}" in page.text
    page = admin.send(f"{VC}/firm-rights", form=VC, username="alice", gpus=5, last_day=last)
    assert "5 GPUs asked for; of 4" in page.text
    assert "no user nobody" in admin.send(f"{VC}/firm-rights", form=VC, username="nobody", gpus=1, last_day=last).text
    admin.send(f"{VC}/firm-rights/alice/end", form=VC)
    assert not FirmRight.objects.exists()


@pytest.mark.parametrize("who", ["member", "owner", "auditor", "other"])
def test_nobody_else_changes_anything(world: World, who: str) -> None:
    firm_right_set(vc=world.vc, username="alice", gpus=1, last_day=world.now.date(), now=world.now, actor="root")
    change = quota_change_create(
        lines=quota_lines(), starts_at=world.now, ends_at=None, reason="", actor="root", now=world.now
    )
    browser = Browser(cast_of(world.vc, world.user)[who])
    assert {browser.get(f"{VC}/{page}").status for page in ("quota", "rules")} == {403}
    posts = [f"{VC}/quota", f"{VC}/rules", f"{VC}/firm-rights", f"{VC}/firm-rights/alice/end"]
    posts += [f"{VC}/members", f"{VC}/members/1/remove"]
    posts += [f"/quota-changes/{change.pk}/withdraw", "/cluster/nodes/gpu01/topology"]
    assert {browser.send(path, form="/profile").status for path in posts} == {403}
    assert FirmRight.objects.exists()


def test_the_cluster_page_shows_teams_and_the_cells_of_which_quotas_are_made(admin: Browser, world: World) -> None:
    page = admin.get("/cluster")
    assert page.links["vision"] == VC
    assert "A100-node4" in page.text


def field(page: Page, name: str) -> str:
    """What the page's field of that name holds."""
    return next(tag["value"] for kind, tag in page.tags if kind == "input" and tag.get("name") == name)


def test_of_two_who_change_one_quota_the_second_sees_the_first_ones_change(world: World, admin: Browser) -> None:
    opened = admin.get(f"{VC}/quota")
    typed = cells(2) | {f"initial-{leaf()}": field(opened, leaf()), "seen": field(opened, "seen")}
    other = Browser(person("other", ClusterRole.ADMIN))
    other.send(f"{VC}/quota", **cells(3), reason="less for vision", apply="on")
    for press in ({}, {"apply": "on"}):
        page = admin.send(f"{VC}/quota", **typed, **press)
        assert (page.status, field(page, leaf())) == (409, "2")
        assert "A100: it is “3” now." in page.text
        told = f"The last change: Changed quotas (vision) · other · {timezone.now():%Y-%m-%d}"
        assert told in page.text
        assert "“less for vision”" in page.text
    assert QuotaLine.objects.get().count == 3
    again = typed | {"seen": field(page, "seen")}
    assert "A100: 3 now, 2 then" in admin.send(f"{VC}/quota", **again).text
    assert "No job was stopped." in admin.send(f"{VC}/quota", **again, apply="on").text


def test_what_was_not_touched_becomes_what_it_is_now(world: World, admin: Browser) -> None:
    opened = admin.get(f"{VC}/quota")
    typed = cells(4) | {f"initial-{leaf()}": "4", "seen": field(opened, "seen")}
    Browser(person("other", ClusterRole.ADMIN)).send(f"{VC}/quota", **cells(3), apply="on")
    page = admin.send(f"{VC}/quota", **typed, apply="on")
    assert (page.status, field(page, leaf()), "A100: it is “3” now." in page.text) == (409, "3", True)


def test_the_look_says_with_numbers_what_would_lose_its_guarantee(world: World, admin: Browser) -> None:
    world.submit(gpu=3)
    world.settle()
    look = admin.send(f"{VC}/quota", **cells(1))
    assert "1 running job with 3 GPUs would lose its guarantee." in look.text
    assert "vision: 1 job with 3 GPUs" in look.text


def test_a_topology_is_taken_anew_on_the_nodes_page(world: World, admin: Browser) -> None:
    page = "/cluster/nodes/gpu01"
    assert "Refresh topology" in admin.get(page).text
    assert "is taken anew" in admin.send(f"{page}/topology", form=page).text


def test_one_reads_the_own_share_and_why_others_come_first(world: World) -> None:
    world.submit()
    world.settle()
    shares_keep({"vision": {"alice": 0.25, "bob": 0.1}})
    page = Browser(world.user).get(VC)
    assert (
        "You recently used 25.0 % of this quota. 1 other user used less: of equal jobs, theirs start first."
        in page.text
    )
    shares_keep({"vision": {"alice": 0.05, "bob": 0.1}})
    assert "nobody used less: of equal jobs, yours start first." in Browser(world.user).get(VC).text


def test_usage_by_day_is_for_those_who_see_its_jobs(world: World) -> None:
    world.submit()
    world.settle()
    page = Browser(world.user).get(f"{VC}/usage?days=7")
    assert page.status == 200
    assert "GPU hours inside the quota" in page.text
    assert "by=user%2Cday" in page.links["CSV"]
    part = Browser(world.user).get(f"{VC}/usage", HX_Request="true")
    assert ("<html" in part.html, "vc-usage" in part.html) == (False, True)
    assert Browser(person("stranger")).get(f"{VC}/usage").status == 404
