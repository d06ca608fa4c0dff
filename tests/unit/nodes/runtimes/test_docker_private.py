"""That an image was had by a login, and that nobody else is given it, through all that may happen to the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodes.protocol.states import Cause
from tests.support.cluster.scripted_runtime import ScriptedNode, stored

SECRET, DIGEST = "acme/secret:1", "sha256:" + "a" * 64


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ScriptedNode]:
    with closing(ScriptedNode(tmp_path, locked={SECRET: DIGEST})) as node:
        yield node


@pytest.mark.parametrize("name", [SECRET, f"docker.io/{SECRET}"])
def test_an_image_of_which_its_registry_does_not_say_whether_it_is_there_is_given_to_nobody(
    node: ScriptedNode, name: str
) -> None:
    node.images = [stored(SECRET, DIGEST, id="sha256:" + "1" * 64)]
    assert node.refused(name) is Cause.IMAGE_DENIED
    assert node.image(SECRET, login=True).digest == DIGEST


def seen(node: ScriptedNode) -> None:
    """What the agent does each minute."""
    store = node.runtime.store()
    assert store is not None
    store.images_seen()


def test_an_image_that_comes_by_a_login_while_images_are_listed_stays_private_also_the_second_time(
    node: ScriptedNode,
) -> None:
    def listed(_: object) -> tuple[int, list[object]]:
        """As before the pull, which ends before they are told."""
        assert node.image(SECRET, login=True).digest == DIGEST
        return 200, []

    listing = node.engine.answers["GET /images/json"]
    for _ in range(2):
        node.images = []
        node.silent = False
        node.engine.answers["GET /images/json"] = listed
        seen(node)
        node.engine.answers["GET /images/json"] = listing
        node.silent = True
        assert node.refused(SECRET), "nobody else is given it while its registry says nothing"
    assert len(node.pulled) == 2


@pytest.mark.parametrize("left", [b"", b"\0" * 64, b'{"used": {"\xff": 1}}'], ids=["empty", "zeros", "torn"])
def test_where_the_file_of_marks_cannot_be_read_all_that_was_pulled_is_private(node: ScriptedNode, left: bytes) -> None:
    """As a power cut may leave it."""
    made_here = stored("lab/own:1", "sha256:" + "b" * 64, id="sha256:" + "2" * 64) | {"RepoDigests": []}
    public = stored("busybox:1", "sha256:" + "c" * 64, id="sha256:" + "3" * 64)
    node.images = [stored(SECRET, DIGEST, id="sha256:" + "1" * 64), made_here, public]
    node.registry = {"busybox:1": "sha256:" + "c" * 64}
    (node.folder / "images.json").write_bytes(left)
    for look in (lambda _: None, seen, seen):
        node.begin()
        look(node)
        node.silent = True
        assert node.refused(SECRET)
        assert node.image("lab/own:1").digest == "sha256:" + "2" * 64
        assert node.refused("busybox:1")
        node.silent = False
        assert node.image("busybox:1").digest == "sha256:" + "c" * 64, "its registry gives it to everybody"
    later = stored("alpine:3", "sha256:" + "d" * 64, id="sha256:" + "4" * 64)
    node.images = [*node.images, later]
    node.silent = True
    assert node.image("alpine:3").digest == "sha256:" + "d" * 64, "what comes later is judged by itself"


def test_of_a_file_of_an_older_agent_the_marks_are_known(node: ScriptedNode) -> None:
    id = "sha256:" + "1" * 64
    node.images = [stored(SECRET, DIGEST, id=id), stored("busybox:1", "sha256:" + "c" * 64, id="sha256:" + "3" * 64)]
    (node.folder / "images.json").write_text(f'{{"used": {{"{id}": 1}}, "private": ["{id}"]}}')
    node.begin()
    node.silent = True
    assert node.refused(SECRET)
    assert node.image("busybox:1")


@pytest.mark.parametrize("name", ["2" * 64, "2" * 12, "sha256:" + "2" * 64, "busybox@sha256:" + "b" * 64])
def test_a_job_has_no_image_of_the_node_by_its_id_or_by_anothers_name(node: ScriptedNode, name: str) -> None:
    """Which images it may run is told by names: `docker.io/library/*` would mean each of these."""
    node.images = [stored("lab/own:1", "sha256:" + "b" * 64, id="sha256:" + "2" * 64)]
    inspect = node.engine.answers["GET /images/(.+)/json"]
    # As an Engine whose store looks for the digest alone.
    node.engine.answers["GET /images/(.+)/json"] = lambda request: (
        (200, node.images[0]) if "b" * 64 in request.groups[0] else inspect(request)
    )
    assert node.refused(name) in {Cause.IMAGE_MISSING, Cause.IMAGE_DENIED}
