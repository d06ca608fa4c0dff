"""As whom a job's containers run: root only where the virtual cluster allows it."""

from __future__ import annotations

import pytest

from portal.clusters.models import VirtualCluster
from portal.clusters.services import member_set, vc_create
from portal.jobs.models import Job
from tests.clusters.test_quotas import give
from tests.support.cast import Api
from tests.support.world import World, job_file

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
