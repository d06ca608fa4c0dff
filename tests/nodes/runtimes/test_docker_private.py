"""That an image was had by a login, and that nobody else is given it, through all that may happen to the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nodes.protocol import Cause
from tests.nodes.runtimes.scripted import ScriptedNode, stored

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
