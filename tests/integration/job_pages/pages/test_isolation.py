"""What a task really runs under is said wherever it is shown: a plain process, or root in its container."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.protocol.states import ContainerState
from tests.support.cluster.world import World
from tests.support.people.pages import Browser

pytestmark = pytest.mark.django_db

WORDS = "not isolated"


def test_tasks_and_nodes_of_the_process_runtime_are_labelled(world: World, browser: Browser) -> None:
    node = world.nodes["gpu01"]
    job = world.submit()
    world.settle()
    assert WORDS not in browser.get(f"/jobs/{job.pk}").text
    assert WORDS not in browser.get("/cluster/nodes/gpu01").text
    (order,) = node.desired().orders
    node.set(order, ContainerState.RUNNING, isolation=f"process ({WORDS})")
    node.inventory = replace(node.inventory, runtime="process")
    node.report()
    assert WORDS in browser.get(f"/jobs/{job.pk}").text
    assert WORDS in browser.get("/cluster/nodes/gpu01").text


@pytest.mark.parametrize(("profile", "shown"), [("root", True), ("user", False)])
def test_a_task_says_whether_it_runs_as_root(world: World, browser: Browser, profile: str, shown: bool) -> None:
    node = world.nodes["gpu01"]
    job = world.submit()
    world.settle()
    (order,) = node.desired().orders
    node.set(order, ContainerState.RUNNING, isolation=f"docker, profile {profile}")
    node.report()
    assert ("as root" in browser.get(f"/jobs/{job.pk}").text) is shown
