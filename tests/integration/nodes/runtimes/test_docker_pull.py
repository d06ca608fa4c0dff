"""A pull that nobody wants any more ends at the Engine and at the registry too, wherever it is."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nodes.agent.runtimes.base import Cancelled
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.messages import Progress
from tests.support.cluster.portal_side import spec_of
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine

pytestmark = pytest.mark.docker

LAYER_BYTES = 64 << 20
ASKED_BEFORE = 2
"""So often the Engine asks for the manifest to tell its digest."""
KIND = "application/vnd.docker.distribution.manifest.v2+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
LAYER = digest_of(b"a layer that never comes to its end")
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": KIND,
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": len(CONFIG),
            "digest": digest_of(CONFIG),
        },
        "layers": [
            {
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": LAYER_BYTES,
                "digest": LAYER,
            }
        ],
    }
).encode()


@dataclass
class Slow:
    """A registry that tells the digest of a tag, and then stands still when the manifest is pulled, or gives the layer
    so slowly that it takes for ever."""

    before_manifest: bool
    manifests: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    """Its client is gone."""
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfOne", (Handler,), {"registry": self}))
        self._server.daemon_threads = True
        self.image = f"127.0.0.1:{self._server.server_port}/lab/slow:1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    registry: Slow
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.manifest(b"")

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self.answer("application/json", b"{}")
        elif self.path.endswith(digest_of(CONFIG)):
            self.answer("application/octet-stream", CONFIG)
        elif self.path.endswith(LAYER):
            self.head("application/octet-stream", LAYER_BYTES)
            self.last(b"\0" * 1000)
        else:
            self.manifest(MANIFEST)

    def manifest(self, body: bytes) -> None:
        self.registry.manifests += 1
        if self.registry.before_manifest and self.registry.manifests > ASKED_BEFORE:
            self.last(b"")
        else:
            self.head(KIND, len(MANIFEST))
            self.wfile.write(body)

    def answer(self, kind: str, body: bytes) -> None:
        self.head(kind, len(body))
        self.wfile.write(body)

    def head(self, kind: str, size: int) -> None:
        self.send_response(200)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(size),
            "Docker-Content-Digest": digest_of(MANIFEST),
            "Docker-Distribution-Api-Version": "registry/2.0",
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def last(self, drop: bytes) -> None:
        self.registry.reached.set()
        self.close_connection = True
        with suppress(OSError):
            while not self.registry.over.wait(0.1):
                self.wfile.write(drop)
        self.registry.left.set()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def runtime(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[DockerRuntime]:
    made = DockerRuntime(
        cluster="berth", node="gpu01", url=docker_engine.url, gpus=tuple, simulated=True, raises_limits=False,
        notices=tmp_path / "notices", workspaces=tmp_path / "workspaces", images=tmp_path / "images.json",
    )  # fmt: skip
    with closing(made):
        yield made


def pulls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "pull"]


def cancelled_when_reached(runtime: DockerRuntime, registry: Slow) -> list[Progress]:
    said: list[Progress] = []
    spec = spec_of("true", image=registry.image)
    with pytest.raises(Cancelled):
        runtime.image(spec, mirrors={}, progress=said.append, cancelled=registry.reached.is_set)
    return said


def test_a_pull_that_is_cancelled_amid_a_layer_ends_at_the_registry_too(runtime: DockerRuntime) -> None:
    with closing(Slow(before_manifest=False)) as registry:
        cancelled_when_reached(runtime, registry)
        assert pulls() == []
        wait_until(registry.left.is_set, "the Engine to give the layer up", deadline_s=10)


def test_a_pull_that_is_cancelled_before_the_engine_answers_leaves_nothing_behind(runtime: DockerRuntime) -> None:
    with closing(Slow(before_manifest=True)) as registry:
        assert cancelled_when_reached(runtime, registry) == [], "the Engine had not begun to answer"
        assert pulls() == []
