"""The cluster page: sums, what is wrong, and the map's data: who has what, what is free, what is sick."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Gpu, Node
from portal.hardware.wordings import NO_REPORT_BY
from portal.jobs.models import Allocation
from tests.support.cluster.scripted_node import ScriptedNode
from tests.support.cluster.world import World
from tests.support.people.cast import cast_of, person
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    made = World()
    made.node("gpu01", gpus=4)
    return made


def dots(user: User) -> dict[str, Any]:
    page = Browser(user).get("/cluster/map")
    assert page.status == 200
    found: dict[str, Any] = json.loads(page.html)
    return found


def places(user: User, node: str = "gpu01") -> list[str]:
    return [gpu[1] for name, *_, gpus in dots(user)["nodes"] for gpu in gpus if name == node]


def test_a_held_gpu_names_its_job(world: World) -> None:
    job = world.submit(gpu=2)
    world.settle()
    assert dots(world.user)["holders"] == [["vision", "alice", "guaranteed", job.pk, "alice/train#1 (worker/0)"]]
    assert sorted(places(world.user)) == ["free", "free", "held", "held"]


def test_of_another_teams_job_one_sees_whose_it_is_and_not_which(world: World) -> None:
    world.submit(gpu=2)
    world.settle()
    found = dots(cast_of(world.vc, world.user)["other"])
    assert found["holders"] == [["vision", "alice", "guaranteed", 0, ""]]
    assert "train" not in json.dumps(found)


def test_gpus_that_are_given_and_released_are_seen_at_once(world: World) -> None:
    assert places(world.user).count("held") == 0
    world.submit(gpu=1)
    world.settle()
    assert places(world.user).count("held") == 1
    for node in world.nodes.values():
        node.finish()
    world.settle()
    assert places(world.user).count("held") == 0


def test_a_faulty_gpu_says_what_is_wrong(world: World) -> None:
    Gpu.objects.filter(index=3).update(fault="fell off the bus")
    assert places(world.user)[3] == "sick"
    page = Browser(world.user).get("/cluster")
    assert "GPU 3: fell off the bus" in page.text
    assert page.links["gpu01"] == "/cluster/nodes/gpu01"
    assert "4 GPUs 3 free 0 in quota 0 on loan 1 sick" in page.text


def test_a_page_that_was_opened_before_shows_what_has_changed_since(world: World) -> None:
    """What is remembered of a node is made anew when anything of it is another."""
    mine = Browser(world.user)
    assert "4 GPUs 4 free" in mine.get("/cluster").text
    job = world.submit(gpu=2)
    world.settle()
    assert "4 GPUs 2 free 2 in quota" in mine.get("/cluster").text
    Allocation.objects.filter(task_attempt__task__job=job).update(standing="borrowed", virtual_cell="")
    assert "2 free 0 in quota 2 on loan" in mine.get("/cluster").text
    Node.objects.update(rack="R7")
    assert dots(world.user)["sections"] == ["R7"]
    Node.objects.update(clock_skew_ms=90_000)
    assert "Its clock is 90 s ahead" in mine.get("/cluster").text
    Node.objects.update(clock_skew_ms=200)
    assert "Its clock" not in mine.get("/cluster").text
    Gpu.objects.filter(allocations=None).update(present=False)
    assert "0 free 0 in quota 2 on loan" in mine.get("/cluster").text


LOST = NO_REPORT_BY(time="noon", user="root", why="new fans")


@pytest.mark.parametrize(
    ("changes", "state", "place"),
    [
        ({"intent": "cordoned", "intent_reason": "new fans"}, "cordoned", "out"),
        ({"intent": "draining", "intent_reason": "new fans"}, "draining", "out"),
        ({"health": "lost", "health_reason": LOST}, "lost", "sick"),
    ],
)
def test_a_node_that_takes_no_tasks_is_closed_or_sick_and_says_why(
    world: World, changes: dict[str, str], state: str, place: str
) -> None:
    Node.objects.update(**changes)
    node = dots(world.user)["nodes"][0]
    why = LOST if state == "lost" else "new fans"
    assert node[1:3] == [state, why]
    assert places(world.user) == [place] * 4
    assert f"gpu01 {state} {why}" in Browser(world.user).get("/cluster").text


def test_cells_inside_a_node_and_racks_around_it_are_told(world: World) -> None:
    for name in ("gpu02", "gpu03"):
        node = ScriptedNode(name)
        gpus = tuple(replace(gpu, numa=gpu.index // 2) for gpu in node.inventory.gpus)
        node.inventory = replace(node.inventory, rack="a", gpus=gpus)
        assert node.report()
    found = dots(world.user)
    assert found["sections"] == ["", "a"]
    inside = {name: found["shapes"][shape] for name, _, _, _, shape, *_ in found["nodes"]}
    assert inside["gpu01"] == []
    assert inside["gpu02"] == [["A100-pair", 2]]


def test_what_has_not_changed_is_not_sent_again(world: World) -> None:
    client = Browser(world.user).client
    first = client.get("/cluster/map")
    assert client.get("/cluster/map", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    world.submit(gpu=1)
    world.settle()
    assert client.get("/cluster/map", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_as_many_queries_for_many_nodes_as_for_one(world: World) -> None:
    browser = Browser(person("root", ClusterRole.ADMIN))
    paths = ("/cluster", "/cluster/map", "/cluster/nodes")
    world.submit(gpu=3)
    world.settle()
    one = [browser.queries(path) for path in paths]
    for number in range(2, 6):
        world.node(f"gpu0{number}", gpus=4)
        world.submit(gpu=3)
    world.settle()
    assert [browser.queries(path) for path in paths] == one


def test_the_list_says_the_same_in_words_and_finds_nodes(world: World) -> None:
    world.node("other01", gpus=2)
    Gpu.objects.filter(node__name="other01", index=0).update(fault="hot")
    browser = Browser(world.user)
    assert "gpu01" in browser.get("/cluster/nodes").links
    found = browser.get("/cluster/nodes?state=sick")
    assert "other01" in found.links
    assert "gpu01" not in found.links
    assert "No node matches." in browser.get("/cluster/nodes?text=nowhere").text
    for odd in ("page=99", "page=x", "page=" + "9" * 6000, "state=nonsense"):
        assert browser.get(f"/cluster/nodes?{odd}").status == 200


def test_before_the_first_server_joins_the_page_says_what_to_do(db: None) -> None:
    page = Browser(person("root", ClusterRole.ADMIN)).get("/cluster")
    assert "No server has joined yet" in page.text
