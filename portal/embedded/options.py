"""What the embedded stack is started with, from the environment and the command line."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from nodes.protocol import ENGINE_ANYHOW, AddressInvalid, engine_guarded

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "data"
"""Where everything is kept unless BERTH_DATA_DIR says otherwise."""
SOCKET = "unix:///var/run/docker.sock"
ADMIN = "admin"
OLDEST_PYTHON = (3, 11)
SIMULATED = {"BERTH_NODE_SIMULATED_CPUS": "32", "BERTH_NODE_SIMULATED_MEMORY_GB": "256"}
"""What this machine promises jobs beside simulated GPUs, at least: enough for each sample of the gallery."""


class CannotStart(SystemExit):
    """The stack cannot start; the text is one sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """``bind`` and ``port``: where the portal answers; ``data``: where everything is kept; ``docker_tls``: the folder
    with the certificates by which the Engine is asked."""

    bind: str
    port: int
    data: Path
    docker_url: str | None
    gpus: str
    docker_tls: Path | None = None

    @property
    def url(self) -> str:
        """The portal's address as this machine reaches it."""
        host = "127.0.0.1" if self.bind in {"0.0.0.0", "::"} else self._host
        return os.environ.get("BERTH_URL", f"http://{host}:{self.port}")

    @property
    def tunnel(self) -> str:
        """The command that leads another machine's browser here; empty where the portal answers other machines."""
        loopback = self.bind == "localhost"
        with suppress(ValueError):
            loopback = ip_address(self.bind).is_loopback
        if not loopback:
            return ""
        return f"ssh -L {self.port}:{self._host}:{self.port} {socket.gethostname()}"

    @property
    def new_password(self) -> str:
        """The command that asks for the administrator's new password."""
        elsewhere = "" if self.data == DATA else f"BERTH_DATA_DIR={shlex.quote(str(self.data))} "
        return f"{elsewhere}.venv/bin/python manage.py reset_password --ask {ADMIN}"

    @property
    def _host(self) -> str:
        return f"[{self.bind}]" if ":" in self.bind else self.bind


def options_read() -> Options:
    """Read and check everything that can be wrong before anything is started. Raises CannotStart."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        raise CannotStart(f"Python {found} is too old: Berth needs 3.11 or later. Try: make demo PYTHON=python3.12")
    docker_url, docker_tls = os.environ.get("DOCKER_HOST") or SOCKET, _certificates()
    _engine_check(docker_url, docker_tls)
    options = Options(
        bind=os.environ.get("BIND", "127.0.0.1"),
        port=_port(os.environ.get("PORT", "8000")),
        data=Path(os.environ.get("BERTH_DATA_DIR") or DATA).expanduser().resolve(),
        docker_url=_docker_answers(docker_url),
        docker_tls=docker_tls,
        gpus=os.environ.get("BERTH_NODE_GPUS", "demo"),
    )
    _folder_check(options.data)
    _port_check(options.bind, options.port)
    return options


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise CannotStart(f"PORT={text!r}: must be a number from 1 to 65535.")
    return int(text)


def jobs_let_through(data: Path) -> str:
    """Without an Engine a root's agent runs jobs as other users: they must get through to their folders, and into
    nothing else of ``data``. Returns what is in their way, a sentence; empty: nothing."""
    if os.geteuid() != 0:
        return ""
    for entry in data.iterdir():
        if entry.name == "jobs":
            entry.chmod(0o755)
        elif not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o7770)
    data.chmod(0o711)
    closed = next((str(above) for above in data.parents if not above.stat().st_mode & 0o001), "")
    if not closed:
        return ""
    return (
        f"Jobs cannot write their folders: they run as other users, to whom {closed} is closed. "
        "Choose another place: BERTH_DATA_DIR=/var/lib/berth make demo"
    )


def _folder_check(data: Path) -> None:
    try:
        data.mkdir(mode=0o750, parents=True, exist_ok=True)
        probe = data / ".write-probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CannotStart(
            f"{data} cannot be written ({error.strerror}). Choose another folder: BERTH_DATA_DIR=/path make demo"
        ) from None


def _port_check(bind: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError as error:
            raise CannotStart(
                f"{bind}:{port} cannot be used ({error.strerror}). Stop what listens there (perhaps another "
                f"Berth), or choose another: make demo PORT={port + 1}"
            ) from None


def _certificates() -> Path | None:
    """The folder that Docker's own client would ask the Engine by."""
    if not os.environ.get("DOCKER_TLS_VERIFY"):
        return None
    return Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")


def _engine_check(url: str, tls: Path | None) -> None:
    """As the agent does, which would end with the whole stack."""
    if os.environ.get("BERTH_NODE_DOCKER_WITHOUT_TLS") == ENGINE_ANYHOW:
        return
    try:
        engine_guarded(url, has_certificates=tls is not None)
    except AddressInvalid as error:
        raise CannotStart(
            f"DOCKER_HOST={url} {error}. With certificates: DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=/their/folder make "
            "demo; without an Engine, jobs run as plain processes: DOCKER_HOST=unix:///none make demo"
        ) from None


def _docker_answers(url: str) -> str | None:
    """The Engine's address when one answers there."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(version="auto", timeout=3, environment={**os.environ, "DOCKER_HOST": url})
        client.ping()
        client.close()
    except (DockerException, OSError):
        return None
    return url
