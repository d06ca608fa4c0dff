"""Registries that are there and give nothing: what each answer means, from a real Engine that is given it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.states import Cause
from tests.integration.nodes.runtimes.test_docker import image, runtime_of
from tests.support.services.docker_engine import DockerEngine

pytestmark = pytest.mark.docker

UNKNOWN = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'


class Answering(ThreadingHTTPServer):
    """A registry on a loopback port that answers each request for an image with ``status`` and ``body``."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.status, self.body = status, body
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        ping = self.path == "/v2/"
        body = b"{}" if ping else self.server.body
        self.send_response(200 if ping else self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def runtime(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[DockerRuntime]:
    runtime = runtime_of(docker_engine, tmp_path)
    yield runtime
    runtime.close()


@pytest.mark.parametrize(
    ("status", "body", "cause", "told"),
    [
        (404, UNKNOWN, Cause.IMAGE_MISSING, "there is no image "),
        (429, b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}', Cause.IMAGE_AWAY, " answers 429: "),
        (503, b"<html>the page was not found</html>", Cause.IMAGE_AWAY, " answers 503: "),
        (500, b"{}", Cause.IMAGE_AWAY, " answers 500: "),
    ],
)
def test_what_a_registry_answers_has_its_cause(
    runtime: DockerRuntime, status: int, body: bytes, cause: Cause, told: str
) -> None:
    with Answering(status, body) as registry:
        with pytest.raises(AttemptFailed) as failed:
            image(runtime, image=f"{registry.host}/lab/tool:1")
        registry.shutdown()
    assert failed.value.cause is cause, failed.value.message
    assert told in failed.value.message


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "registry.invalid"], ids=["nobody listens", "a name that is not found"]
)
def test_a_registry_that_cannot_be_reached_is_away_and_does_not_say_that_there_is_no_image(
    runtime: DockerRuntime, host: str
) -> None:
    with pytest.raises(AttemptFailed) as failed:
        image(runtime, image=f"{host}/lab/tool:1")
    assert failed.value.cause is Cause.IMAGE_AWAY
    assert failed.value.message.startswith(f"the image {host}/lab/tool:1 cannot be fetched: ")
