"""As whom a job's containers run: root only where the virtual cluster allows it."""

from __future__ import annotations

import pytest

from portal.accounts.models import AuditEntry, ClusterRole
from portal.images.models import ImageRule
from portal.images.services import image_rule_add
from portal.jobs.models import Job
from portal.teams.models import VirtualCluster
from portal.teams.services.teams import member_set, vc_create
from tests.integration.teams.test_quotas import give
from tests.support.cluster.world import World, job_file
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def allow(vc: str, profile: str) -> None:
    VirtualCluster.objects.filter(name=vc).update(default_profile=profile)


def profiles(world: World) -> list[str]:
    """Those of the containers that the node is asked for."""
    world.cycle()
    node = world.nodes["gpu01"]
    return [node.spec(order).profile for order in node.desired().orders]


@pytest.mark.parametrize(
    ("allowed", "asked", "becomes"),
    [("root", None, "root"), ("root", "user", "user"), ("root", "root", "root"), ("user", None, "user")],
)
def test_a_container_runs_as_the_team_allows_and_the_job_asks(
    world: World, allowed: str, asked: str | None, becomes: str
) -> None:
    world.node("gpu01")
    allow("vision", allowed)
    world.submit(berth={"profile": asked} if asked else {})
    assert profiles(world) == [becomes]


def test_root_is_refused_where_containers_run_as_their_users(world: World) -> None:
    world.node("gpu01")
    allow("vision", "user")
    answer = Api(world.user).call("POST", "jobs", job_file(berth={"profile": "root"}), kind="application/yaml")
    assert answer.status_code == 400
    (fault,) = answer.json()["errors"]
    assert (fault["path"], fault["code"]) == ("extras.berth.profile", "profile")
    assert fault["message"].startswith("containers run as their user in vision, never as root")
    assert not Job.objects.exists()


RULES = [
    ({}, "root"),
    ({"busybox": "root"}, "root"),
    ({"busybox": "user"}, "user"),
    ({"*": "user", "busybox:*": "root"}, "root"),
    ({"*": "root", "busybox:*": "user"}, "root"),
    ({"*": "user", "python": "root"}, "user"),
]
"""Patterns with the profile that each gives, and what busybox becomes where its virtual cluster allows root."""


@pytest.mark.parametrize(("rules", "becomes"), RULES)
@pytest.mark.parametrize("everywhere", [True, False], ids=["of the cluster", "of the team"])
def test_an_images_patterns_narrow_as_whom_it_runs(
    world: World, rules: dict[str, str], becomes: str, everywhere: bool
) -> None:
    world.node("gpu01")
    for pattern, profile in rules.items():
        vc = None if everywhere else world.vc
        image_rule_add(vc=vc, pattern=pattern, profile=profile, now=world.now, actor="root")
    world.submit()
    assert profiles(world) == [becomes]


def test_no_pattern_gives_root_where_the_team_has_none(world: World) -> None:
    world.node("gpu01")
    allow("vision", "user")
    image_rule_add(vc=world.vc, pattern="busybox", profile="root", now=world.now, actor="root")
    world.submit()
    assert profiles(world) == ["user"]


def test_a_teams_own_patterns_decide_alone_as_whom_an_image_runs(world: World) -> None:
    world.node("gpu01")
    image_rule_add(vc=None, pattern="busybox", profile="user", now=world.now, actor="root")
    image_rule_add(vc=world.vc, pattern="busybox", profile="root", now=world.now, actor="root")
    world.submit()
    assert profiles(world) == ["root"]


def test_root_is_refused_for_an_image_that_never_runs_as_root(world: World) -> None:
    world.node("gpu01")
    admin, alice = Api(person("root", ClusterRole.ADMIN)), Api(world.user)
    made = admin.call("POST", "images", {"pattern": "*", "profile": "user"})
    assert (made.status_code, made.json()["profile"]) == (201, "user")
    answer = alice.call("POST", "jobs", job_file(berth={"profile": "root"}), kind="application/yaml")
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["path"], fault["code"]) == (400, "extras.berth.profile", "profile")
    assert fault["message"].startswith("busybox:latest runs as its user in vision, never as root")
    assert admin.call("POST", "images", {"pattern": "busybox"}).json()["profile"] == "root"
    answer = alice.call("POST", "jobs", job_file(berth={"profile": "root"}), kind="application/yaml")
    assert answer.status_code == 201
    assert profiles(world) == ["root"]


def test_the_page_of_images_says_and_sets_as_whom_they_run(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    assert browser.send("/images", pattern="busybox", vc="", note="").status == 200
    assert "as the virtual cluster says" in browser.get("/images").text
    browser.send("/images", pattern="registry.lab/*", vc="vision", profile="user", note="")
    made = dict(ImageRule.objects.values_list("pattern", "profile"))
    assert made == {"busybox": "root", "registry.lab/*": "user"}
    assert "the user, always" in browser.get("/images").text
    assert AuditEntry.objects.order_by("-id")[0].after == {"pattern": "registry.lab/*", "profile": "user", "note": ""}


def test_what_waits_when_a_pattern_is_narrowed_starts_as_its_user(world: World) -> None:
    world.node("gpu01")
    world.submit(berth={"profile": "root"})
    image_rule_add(vc=world.vc, pattern="busybox", profile="user", now=world.now, actor="root")
    assert profiles(world) == ["user"]


def test_a_waiting_job_does_not_move_to_a_team_that_has_no_root_for_it(world: World) -> None:
    world.node("gpu01", gpus=2)
    vc_create(name="audio", now=world.now)
    member_set(vc=VirtualCluster.objects.get(name="audio"), user=world.user, role="member", now=world.now)
    give(world, "vision", "A100", 1)
    give(world, "audio", "A100", 1)
    allow("audio", "user")
    job = world.submit(berth={"profile": "root"})
    answer = Api(world.user).call("POST", f"jobs/{job.pk}/move", {"vc": "audio"})
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["errors"]] == ["extras.berth.profile"]
    assert Job.objects.get().vc.name == "vision"


def test_what_waits_when_the_rule_is_made_starts_as_its_user(world: World) -> None:
    world.node("gpu01")
    world.submit(berth={"profile": "root"})
    allow("vision", "user")
    assert profiles(world) == ["user"]
