"""Images of real registries: through a mirror and past it, and private ones, whose registry is asked at each start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from nodes.agent.runtimes.base import AttemptFailed, Image
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.messages import ImageAuth
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import spec_of
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.registry import PASSWORD, USER, Registry, image_pushed
from tests.support.services.services import Services

pytestmark = pytest.mark.docker


@dataclass
class Node:
    """A node's runtime over an Engine, and which mirrors it was told of."""

    client: docker.DockerClient
    runtime: DockerRuntime
    mirrors: dict[str, str]

    def image(self, name: str, *, auth: ImageAuth | None = None, digest: str | None = None) -> Image:
        spec = spec_of("true", image=name, auth=auth, digest=digest)
        return self.runtime.image(spec, mirrors=self.mirrors, progress=lambda _: None, cancelled=lambda: False)

    def refused(self, name: str, *, auth: ImageAuth | None = None, digest: str | None = None) -> Cause:
        with pytest.raises(AttemptFailed) as raised:
            self.image(name, auth=auth, digest=digest)
        return raised.value.cause

    def forget(self, *names: str) -> None:
        """Off the node with all names that have come to it."""
        for name in names:
            for tag in {*self.client.images.get(name).tags, *self.client.images.get(name).attrs["RepoDigests"]}:
                with suppress(ImageNotFound):  # the last of its tags takes its digests along
                    self.client.images.remove(tag)


def runtime_at(engine: DockerEngine, folder: Path) -> DockerRuntime:
    return DockerRuntime(
        cluster="berth", node="gpu01", url=engine.url, gpus=tuple, simulated=True, raises_limits=False,
        notices=folder / "notices", workspaces=folder / "workspaces", images=folder / "images.json",
    )  # fmt: skip


@pytest.fixture
def node(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Node]:
    runtime = runtime_at(docker_engine, tmp_path)
    with docker_engine.client() as client, closing(runtime):
        yield Node(client, runtime, {})


@pytest.fixture(scope="module")
def registry(services: Services) -> Iterator[Registry]:
    registry = Registry(services.new_folder("registry") / "open", services.guard)
    registry.start()
    yield registry
    registry.stop()


@pytest.fixture
def mirror(registry: Registry, services: Services) -> Iterator[Registry]:
    mirror = Registry(services.new_folder("mirror") / "mirror", services.guard, upstream=registry.host)
    mirror.start()
    yield mirror
    mirror.stop()


@pytest.fixture(scope="module")
def locked(services: Services) -> Iterator[Registry]:
    locked = Registry(services.new_folder("locked") / "locked", services.guard, locked=True)
    locked.start()
    yield locked
    locked.stop()


def test_an_image_comes_through_the_mirror_and_past_it_with_the_same_digest(
    node: Node, registry: Registry, mirror: Registry
) -> None:
    name = f"{registry.host}/lab/tool:1"
    digest = image_pushed(node.client, name)
    node.forget(name)
    node.mirrors = {registry.host: mirror.host}

    image = node.image(name)
    assert image == Image(digest=digest, reference=f"{mirror.host}/lab/tool@{digest}")
    assert mirror.asked("/v2/lab/tool/blobs/")
    made = node.runtime.create(spec_of("true", image=name), "hash", image)
    assert made.digest == digest
    node.runtime.remove(made.attempt)

    mirror.stop()
    assert node.image(name).digest == digest, "it is here, under its own name"
    node.forget(name)
    assert node.image(name) == Image(digest=digest, reference=f"{registry.host}/lab/tool@{digest}")
    node.forget(name)
    assert node.image(name, digest=digest).reference == f"{registry.host}/lab/tool@{digest}"


def test_a_mirror_that_does_not_have_the_digest_is_passed_by(
    node: Node, registry: Registry, services: Services
) -> None:
    name = f"{registry.host}/lab/only-here:1"
    digest = image_pushed(node.client, name)
    node.forget(name)
    empty = Registry(services.new_folder("empty") / "empty", services.guard)
    empty.start()
    node.mirrors = {registry.host: empty.host}
    assert node.image(name) == Image(digest=digest, reference=f"{registry.host}/lab/only-here@{digest}")
    empty.stop()


def test_a_private_image_needs_the_login_at_each_start_cached_or_not(
    node: Node, locked: Registry, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    name = f"{locked.host}/secret/model:1"
    login = {"username": USER, "password": PASSWORD}
    digest = image_pushed(node.client, name, auth=login)
    node.forget(name)
    good = ImageAuth(registry=locked.host, **login)
    bad = ImageAuth(registry=locked.host, username=USER, password="guessed")

    assert node.refused(name) is Cause.IMAGE_DENIED
    assert node.refused(name, auth=bad) is Cause.IMAGE_DENIED
    node.mirrors = {locked.host: "127.0.0.1:1"}  # which is never told of it
    assert node.image(name, auth=good).digest == digest
    # It is on the node now, and neither that nor its digest opens it.
    for known in (None, digest):
        assert node.refused(name, digest=known) is Cause.IMAGE_DENIED
        assert node.refused(name, auth=bad, digest=known) is Cause.IMAGE_DENIED
        assert node.image(name, auth=good, digest=known).digest == digest
    with closing(runtime_at(docker_engine, tmp_path)) as again:
        assert Node(node.client, again, {}).refused(name, digest=digest) is Cause.IMAGE_DENIED
    locked.stop()
    assert node.refused(name) is not None
    assert node.refused(name, auth=good) is not None
    locked.start()


def test_a_login_to_a_registry_that_everybody_may_read_makes_nothing_private(node: Node, registry: Registry) -> None:
    name = f"{registry.host}/lab/open:1"
    digest = image_pushed(node.client, name)
    auth = ImageAuth(registry=registry.host, username="somebody", password="x")
    assert node.image(name, auth=auth).digest == digest
    assert node.image(name).digest == digest
