"""The compose stack on an Engine of the tests' own, from a clean copy of the sources, and the way into its portal."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from nodes.protocol.logs import MARK
from portal.compose.certificates import leaf_make
from tests.support.images import compose_images
from tests.support.people.documents import ROOT, commands
from tests.support.people.reader import filled
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.processes import free_port

NAME = "berth.test"
HERE = str(Path(__file__).parent / "compose_image")


def sources_copy(target: Path) -> Path:
    """What git knows or would take, as it is in this tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


class Project:
    """A clone with its `.env`, in which commands are run as the documentation has them."""

    def __init__(self, folder: Path, engine: DockerEngine, *, name: str, settings: Mapping[str, str]) -> None:
        self.folder = sources_copy(folder)
        self._environment = {
            **{word: value for word, value in os.environ.items() if not word.startswith(("BERTH_", "COMPOSE_"))},
            **compose_images.compose_plugin(folder.parent / f"{name}-cli"),
            "DOCKER_HOST": engine.url,
            "DOCKER_BUILDKIT": "0",  # Debian's Engine has no plug-in for the other builder
            "COMPOSE_PROJECT_NAME": name,
        }
        self.variables: dict[str, str] = {}
        """What the reader puts in the place of words of a section's commands."""
        self._settings = dict(settings)
        self.settings_change()

    def settings_change(self, **changes: str) -> None:
        """Write `.env` anew with these."""
        self._settings |= changes
        text = "".join(f"{word}={value}\n" for word, value in self._settings.items())
        (self.folder / ".env").write_text(text)

    def run(self, line: str, *, deadline_s: float = 1500) -> str:
        """What one line of a shell prints; it must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False, timeout=deadline_s,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def section(self, page: str, heading: str) -> dict[str, str]:
        """Run the commands below a heading of a page; what each printed."""
        return {line: self.run(filled(line, self.variables)) for line in commands(page, heading)}

    def containers(self) -> list[dict[str, Any]]:
        """Of this project, ended ones too."""
        return [json.loads(line) for line in self.run("docker compose ps -a --format json").splitlines()]


class Door:
    """The portal as whoever is outside sees it: by its name, over HTTPS, with the stack's own authority."""

    def __init__(self, url: str, authority: Path) -> None:
        self.url = url
        self.authority = authority
        self._context = trusting(authority)
        self._port = httpx.URL(url).port or 443

    def client(self, token: str = "") -> httpx.Client:
        """Paths are below the portal's address."""
        headers = {"Host": f"{NAME}:{self._port}"} | ({"Authorization": f"Bearer {token}"} if token else {})
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self._port}",
            headers=headers, verify=self._context, timeout=120, trust_env=False, event_hooks={"request": [_by_name]},
        )  # fmt: skip

    @contextmanager
    def socket(self, path: str, token: str) -> Iterator[ClientConnection]:
        """A websocket through the proxy."""
        with connect(
            f"{self.url.replace('https', 'wss', 1)}{path}",
            sock=socket.create_connection(("127.0.0.1", self._port), timeout=30),
            ssl=self._context, server_hostname=NAME, proxy=None, max_size=2**24, open_timeout=60,
            additional_headers={"Authorization": f"Bearer {token}"},
        ) as opened:  # fmt: skip
            yield opened

    def log(self, token: str, attempt: str, offset: int, *, until: str | None) -> tuple[str, int]:
        """What the log's websocket sends from an offset on until it has sent this, or all; and the offset behind it."""
        text = ""
        with self.socket(f"/ws/logs/{attempt}?offset={offset}", token) as opened:
            while (message := json.loads(opened.recv(timeout=120)))["type"] != "end":
                assert message["from"] == offset, "nothing is left out and nothing comes twice"
                offset = message["to"]
                text += "".join(piece for _, stream, piece in message["records"] if stream != MARK)
                if until is not None and until in text:
                    break
        return text, offset

    def curl(self, path: str, *words: str) -> str:
        """As somebody at a terminal would ask."""
        command = [
            "curl",
            "--silent",
            "--show-error",
            "--fail-with-body",
            "--noproxy",
            "*",
            "--cacert",
            str(self.authority),
        ]
        command += ["--resolve", f"{NAME}:{self._port}:127.0.0.1", *words, f"{self.url}{path}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _by_name(request: httpx.Request) -> None:
    """The server is reached at loopback and asked for by its name."""
    request.extensions["sni_hostname"] = NAME


def portal_settings(engine: DockerEngine) -> dict[str, str]:
    """`.env` of a portal on this Engine: free ports, local images, a network that no other run has."""
    https = free_port()
    compose_images.debian_image(engine)
    build = [
        "docker",
        "build",
        "-q",
        "--build-arg",
        f"BASE={compose_images.DEBIAN}",
        "-t",
        compose_images.POSTGRES,
        HERE,
    ]
    legacy = {**os.environ, "DOCKER_HOST": engine.url, "DOCKER_BUILDKIT": "0"}
    subprocess.run(build, check=True, capture_output=True, env=legacy)
    compose_images.prometheus_image(legacy)
    return {
        "BERTH_URL": f"https://{NAME}:{https}",
        "BERTH_HTTPS_PORT": str(https),
        "BERTH_HTTP_PORT": str(free_port()),
        "BERTH_REDIS_PORT": str(free_port()),
        "BERTH_PROMETHEUS_PORT": str(free_port()),
        **edge_settings(199),
        **build_settings(),
    }


def edge_settings(second: int) -> dict[str, str]:
    """A network of its own for each stack of a run that one Engine has: ``second`` is the address's second number."""
    net = f"10.{second}.{os.getpid() % 250}"
    return {
        "BERTH_EDGE_SUBNET": f"{net}.0/28", "BERTH_EDGE_RANGE": f"{net}.8/29", "BERTH_PROXY_ADDRESS": f"{net}.2",
    }  # fmt: skip


def build_settings() -> dict[str, str]:
    """What stands in for a registry."""
    return {
        "BERTH_BASE_IMAGE": compose_images.DEBIAN,
        "BERTH_BUILD_NETWORK": "host",
        "BERTH_POSTGRES_IMAGE": compose_images.POSTGRES,
        "BERTH_REDIS_IMAGE": compose_images.DEBIAN,
        "BERTH_CADDY_IMAGE": compose_images.DEBIAN,
        "BERTH_PROMETHEUS_IMAGE": compose_images.PROMETHEUS,
    }


def wait_answering(door: Door) -> None:
    """Until the portal answers again."""

    def answers() -> bool:
        try:
            with door.client() as client:
                return client.get("/healthz").is_success
        except httpx.HTTPError:
            return False

    wait_until(answers, "the portal behind its proxy", deadline_s=180, every_s=0.5)


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def names_shown(name: str, port: int, authority: Path) -> tuple[tuple[str, str], ...]:
    """The names in the certificate that is shown at this port, once it was found to be good for this one."""
    where = name if name[0].isdigit() else "127.0.0.1"
    with (
        socket.create_connection((where, port), timeout=30) as plain,
        trusting(authority).wrap_socket(plain, server_hostname=name) as secured,
    ):
        return tuple((secured.getpeercert() or {})["subjectAltName"])  # type: ignore[arg-type]


def certificate_put(folder: Path, authority: str, key: str, *hosts: str) -> None:
    """As docs/admin/install.md says: the proxy may read the key."""
    leaf, leaf_key = leaf_make(authority=authority, authority_key=key, hosts=hosts, now=datetime.now(UTC))
    (folder / "certificate.pem").write_text(leaf)
    (folder / "key.pem").write_text(leaf_key)
    shutil.chown(folder / "key.pem", group=10013)
    (folder / "key.pem").chmod(0o640)
