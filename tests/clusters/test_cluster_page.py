"""The cluster page: nodes, GPUs, who holds them, and what an administrator wants of a node."""

from __future__ import annotations

import pytest

from portal.accounts.models import ClusterRole
from portal.clusters.models import Gpu, Node
from tests.support.cast import cast_of, person
from tests.support.pages import Browser, Page
from tests.support.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


def gpus(page: Page) -> list[str]:
    """What each GPU's field says."""
    return [title for tag in ("a", "span") for title in page.attribute(tag, "title") if title.startswith("GPU ")]


def test_a_held_gpu_names_its_job_and_leads_to_it(world: World) -> None:
    job = world.submit(gpu=2)
    world.settle()
    page = Browser(world.user).get("/cluster")
    assert page.links["0: alice/train#1"] == f"/jobs/{job.pk}"
    assert sum("free" in title for title in gpus(page)) == 2
    assert "vision 2" in page.text
    assert "A100" in page.text


def test_of_another_teams_job_one_sees_whose_it_is_and_not_which(world: World) -> None:
    world.submit(gpu=2)
    world.settle()
    page = Browser(cast_of(world.vc, world.user)["other"]).get("/cluster")
    assert "train" not in page.html
    assert sum("alice, vision, guaranteed" in title for title in gpus(page)) == 2


def test_a_faulty_gpu_says_what_is_wrong(world: World) -> None:
    Gpu.objects.filter(index=3).update(fault="fell off the bus")
    page = Browser(world.user).get("/cluster")
    assert any("fell off the bus" in title for title in gpus(page))
    assert "4 (3 usable)" in page.text


def test_an_administrator_cordons_a_node_with_a_reason_and_opens_it_again(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send("/cluster/nodes/gpu01/intent", form="/cluster", intent="cordoned", reason="new fans")
    assert "Healthy, cordoned" in page.text
    assert "new fans" in page.text
    assert not [title for title in gpus(page) if "free" in title]
    page = browser.send("/cluster/nodes/gpu01/intent", form="/cluster", intent="open", reason="")
    assert "cordoned" not in page.text


@pytest.mark.parametrize("who", ["lead", "owner", "auditor", "nobody"])
def test_nobody_else_can_change_what_is_wanted_of_a_node(world: World, who: str) -> None:
    browser = Browser(cast_of(world.vc, world.user)[who])
    assert "Cordon" not in browser.get("/cluster").text
    answer = browser.send("/cluster/nodes/gpu01/intent", form="/profile", intent="cordoned", reason="")
    assert answer.status == 403
    assert Node.objects.get().intent == "open"


def test_an_intent_that_is_none_changes_nothing(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    page = browser.send("/cluster/nodes/gpu01/intent", form="/cluster", intent="explode")
    assert "Nothing was changed" in page.text
    assert Node.objects.get().intent == "open"


def test_more_nodes_take_no_more_queries(world: World) -> None:
    browser = Browser(world.user)
    before = browser.queries("/cluster")
    for number in range(2, 6):
        world.node(f"gpu0{number}", gpus=8)
    assert browser.queries("/cluster") <= before


def test_an_empty_cluster_says_how_a_server_joins(db: None) -> None:
    page = Browser(person("root", ClusterRole.ADMIN)).get("/cluster")
    assert "No server has joined yet." in page.text
    assert "node_add" in page.text
