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

from portal.embedded.engine import CannotStart, engine_chosen

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "data"
"""Where everything is kept unless BERTH_DATA_DIR says otherwise."""
ELSEWHERE = Path("/var/lib/berth-jobs")
"""Where jobs have their folders that run as users who do not get through to where everything else is kept."""
ADMIN = "admin"
OLDEST_PYTHON = (3, 11)
SIMULATED = {"BERTH_NODE_SIMULATED_CPUS": "32", "BERTH_NODE_SIMULATED_MEMORY_GB": "256"}
"""What this machine promises jobs beside simulated GPUs, at least: enough for each sample of the gallery."""


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
        """The portal's address."""
        return os.environ.get("BERTH_URL", self.here)

    @property
    def here(self) -> str:
        """Where it answers on this machine, whatever the address is by which others know it."""
        return f"http://{'127.0.0.1' if self.bind in {'0.0.0.0', '::'} else self._host}:{self.port}"

    @property
    def jobs_as_others(self) -> bool:
        """Whether jobs run as users of this machine other than the one who starts the stack."""
        return not self.docker_url and os.geteuid() == 0

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
    docker_url, docker_tls = engine_chosen()
    options = Options(
        bind=os.environ.get("BIND", "127.0.0.1"),
        port=_port(os.environ.get("PORT", "8000")),
        data=Path(os.environ.get("BERTH_DATA_DIR") or DATA).expanduser().resolve(),
        docker_url=docker_url,
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


def redis_named(data: Path) -> bool:
    """Whether the environment names a Redis of its own, which is then used in the place of the bundled one; the file
    that tells the bundled one's address to commands beside the stack is none."""
    file = os.environ.get("BERTH_REDIS_URL_FILE")
    return bool(os.environ.get("BERTH_REDIS_URL") or (file and Path(file).resolve() != data / "redis" / "url"))


def closed_above(path: Path) -> str:
    """The first folder above it that other users cannot pass; empty where they get through."""
    return next((str(above) for above in path.parents if above.exists() and not above.stat().st_mode & 0o001), "")


def jobs_let_through(data: Path, jobs: Path) -> str:
    """Without an Engine a root's agent runs jobs as other users: they must get through to their folders, and into
    nothing else of ``data``. Returns what is in their way, a sentence; empty: nothing."""
    if os.geteuid() != 0:
        return ""
    for entry in data.iterdir():
        if entry != jobs and not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o7770)
    if jobs.parent in {data, ELSEWHERE}:
        jobs.chmod(0o755)
        jobs.parent.chmod(0o711)
    closed = closed_above(jobs)
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
