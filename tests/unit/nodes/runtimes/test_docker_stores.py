"""Which images a registry has, by the store that the Engine keeps them in: in containerd's all that have a name have a
digest too, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodes.agent.clock import SystemClock
from nodes.agent.disk.guard import DiskGuard, DiskLimits
from tests.support.cluster.scripted_runtime import CONTAINERD, GRAPH_DRIVER, ScriptedNode, stored

HERE, THERE, LATER = (f"sha256:{letter * 64}" for letter in "abc")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ScriptedNode]:
    with closing(ScriptedNode(tmp_path, store=CONTAINERD)) as node:
        yield node


def cleaned(node: ScriptedNode) -> set[str]:
    """Names of the images that go where there is no room."""
    node.removed.clear()
    DiskGuard(
        runtime=node.runtime, limits=DiskLimits(clean_percent=100.5), state=node.folder, folders={}, wanted=set,
        layers=lambda taken: None, graces=dict, changed=lambda at_once: None, clock=SystemClock(), every_s=60,
    ).look()  # fmt: skip
    return {name for name in node.removed if not name.startswith("sha256:") and "@" not in name}


@pytest.mark.parametrize("registry", ["a stranger's", "none", "silent"])
def test_an_image_that_is_nowhere_else_stays_and_is_taken_whatever_a_registry_has_under_its_name(
    node: ScriptedNode, registry: str
) -> None:
    node.images = [stored("lab/train:latest", HERE)]
    node.registry = {"lab/train:latest": THERE} if registry == "a stranger's" else {}
    node.silent = registry == "silent"
    for _ in range(2):
        assert node.image("lab/train:latest").digest == HERE
    assert node.asked() == 1, "whoever waits for a registry in vain does it once"
    assert node.pulled == []
    assert cleaned(node) == set()


def test_what_the_agent_pulled_can_go_and_follows_its_registry_also_in_the_agents_next_life(node: ScriptedNode) -> None:
    node.registry = {"team/tool:1": HERE}
    assert node.image("team/tool:1").digest == HERE
    node.begin()
    assert cleaned(node) == {"team/tool:1"}
    node.registry = {"team/tool:1": LATER}
    assert node.image("team/tool:1").digest == LATER
    node.images = []
    cleaned(node)
    node.images = [stored("team/tool:1", LATER)]
    assert cleaned(node) == set(), "what was removed and loaded by hand again is nobody's but the node's"


def test_an_image_that_was_brought_by_hand_counts_as_pulled_once_its_registry_names_that_very_digest(
    node: ScriptedNode,
) -> None:
    node.images = [stored("team/tool:1", HERE)]
    assert cleaned(node) == set()
    node.registry = {"team/tool:1": HERE}
    assert node.image("team/tool:1").digest == HERE
    assert cleaned(node) == {"team/tool:1"}
    node.registry = {"team/tool:1": LATER}
    assert node.image("team/tool:1").digest == LATER


def test_by_a_graph_driver_a_digest_tells_that_a_registry_has_it(node: ScriptedNode) -> None:
    node.store = GRAPH_DRIVER
    own = stored("lab/own:1", HERE, id="sha256:" + "1" * 64) | {"RepoDigests": []}
    node.images = [stored("team/tool:1", THERE, id="sha256:" + "2" * 64), own]
    node.registry = {"team/tool:1": LATER, "lab/own:1": LATER}
    assert cleaned(node) == {"team/tool:1"}
    assert node.image("lab/own:1").digest == "sha256:" + "1" * 64
    assert node.image("team/tool:1").digest == LATER
