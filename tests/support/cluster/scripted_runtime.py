"""A node whose Engine has the images, and gives the registries' answers, that a test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.runtimes.base import AttemptFailed, Image
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.messages import ImageAuth
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import spec_of
from tests.support.services.scripted_engine import Request, ScriptedEngine

CONTAINERD = [["driver-type", "io.containerd.snapshotter.v1"]]
GRAPH_DRIVER = [["Backing Filesystem", "extfs"]]
REFUSAL = (
    "pull access denied for acme/secret, repository does not exist or may require 'docker login': "
    "denied: requested access to the resource is denied"
)


def stored(image: str, digest: str, *, id: str = "") -> dict[str, Any]:
    """An image as the Engine tells it; the containerd store makes its digest its id."""
    repository = image.partition(":")[0]
    return {"Id": id or digest, "RepoTags": [image], "RepoDigests": [f"{repository}@{digest}"], "Size": 8 << 30}


@dataclass
class ScriptedNode:
    """``images``: what lies there; ``registry``: the digest of each name that it gives to everybody, ``locked``: to a
    login; ``store``: the Engine's own words for it; ``root``: its data folder; ``pulled``, ``removed``: what was."""

    folder: Path
    store: list[list[str]] = field(default_factory=lambda: GRAPH_DRIVER)
    images: list[dict[str, Any]] = field(default_factory=list)
    registry: dict[str, str] = field(default_factory=dict)
    locked: dict[str, str] = field(default_factory=dict)
    root: str = "/"
    silent: bool = False
    pulled: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    engine: ScriptedEngine = field(init=False)
    runtime: DockerRuntime = field(init=False)

    def __post_init__(self) -> None:
        answers = {
            "GET /info": lambda _: (200, self.info),
            "GET /containers/json": (200, []),
            "GET /images/json": lambda _: (200, self.images),
            "GET /images/(.+)/json": self._inspect,
            "GET /distribution/(.+)/json": self._distribution,
            "POST /images/create": self._pull,
            "POST /images/(.+)/tag": (201, {}),
            "DELETE /images/(.+)": self._delete,
        }
        self.engine = ScriptedEngine(self.folder / "engine", answers)
        self.begin()

    @property
    def info(self) -> dict[str, Any]:
        return {"DriverStatus": self.store, "ServerVersion": "29", "DockerRootDir": self.root}

    def begin(self) -> None:
        """Another life of the agent."""
        self.runtime = DockerRuntime(
            cluster="berth", node="gpu01", url=self.engine.url, gpus=tuple, simulated=True, raises_limits=False,
            notices=self.folder, workspaces=self.folder, images=self.folder / "images.json",
        )  # fmt: skip

    def close(self) -> None:
        self.runtime.close()
        self.engine.close()

    def image(self, name: str, *, login: bool = False) -> Image:
        auth = ImageAuth(registry="docker.io", username="alice", password="hunter2") if login else None
        spec = spec_of("true", image=name, auth=auth)
        return self.runtime.image(spec, mirrors={}, progress=lambda _: None, cancelled=lambda: False)

    def refused(self, name: str, *, login: bool = False) -> Cause:
        with pytest.raises(AttemptFailed) as raised:
            self.image(name, login=login)
        return raised.value.cause

    def asked(self) -> int:
        """How often a registry was."""
        return sum("/distribution/" in line for line in self.engine.seen)

    def _inspect(self, request: Request) -> tuple[int, Any]:
        name = request.groups[0].removeprefix("docker.io/")
        for one in self.images:
            if name in (one["Id"], *one["RepoTags"], *one["RepoDigests"]) or f"{name}:latest" in one["RepoTags"]:
                return 200, one
            if one["Id"].startswith(f"sha256:{name}"):
                return 200, one
        return 404, {"message": f"No such image: {name}"}

    def _distribution(self, request: Request) -> tuple[int, Any]:
        if self.silent:
            return 500, {"message": "dial tcp: lookup registry-1.docker.io: no such host"}
        gives = self.registry | (self.locked if request.login else {})
        name, _, digest = request.groups[0].removeprefix("docker.io/").partition("@")
        given = gives.get(name) if not digest else next((one for one in gives.values() if one == digest), None)
        return (200, {"Descriptor": {"digest": given}}) if given else (403, {"message": REFUSAL})

    def _pull(self, request: Request) -> tuple[int, Any]:
        repository, wanted = request.query["fromImage"], request.query["tag"]
        self.pulled.append(f"{repository}@{wanted}")
        name, digest = next((one for one in (self.registry | self.locked).items() if one[1] == wanted), ("", ""))
        if not digest:
            return 404, {"message": REFUSAL}
        self.images = [one for one in self.images if name not in one["RepoTags"]] + [stored(name, digest)]
        return 200, ({"status": "Pull complete", "id": "1"},)

    def _delete(self, request: Request) -> tuple[int, Any]:
        self.removed.append(request.groups[0])
        return 200, []
