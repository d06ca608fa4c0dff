"""The services of one test run: made when it begins, started at first use, ended with it."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.run import parts
from tests.support.services.collected import static_copy
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.forks import Forks
from tests.support.services.guard import Guard
from tests.support.services.postgres import PostgresServer
from tests.support.services.processes import Process
from tests.support.services.redis_server import RedisServer

SERVICES = pytest.StashKey["Services"]()
RUNS_AT_ONCE, PORTS_OF_A_RUN, LOWEST_SHIFT = 6, 3000, -9000
"""Agents give their tasks fixed ranges of ports, which tests name from 21000 to 23999: each run on this machine has its
own of them, from 12000 on and below the kernel's own."""


class ShowsItsLogs(Protocol):
    """What runs now and whose output belongs into a failed test's report."""

    def tails(self) -> Iterator[tuple[str, str]]: ...


class Services:
    """One temporary folder with everything in it. Nothing runs until it is started. A `durable` database waits for the
    disk. With `forking`, Python processes that a test starts in numbers are forks of one that has imported what they
    need; else, for figures, each starts by itself."""

    def __init__(self, *, durable: bool = False, forking: bool = False) -> None:
        self.forking = forking
        self.guard = Guard()
        self.folder = Path(tempfile.mkdtemp(prefix="berth-"))
        self.folder.chmod(0o755)
        self.guard.add("folder", str(self.folder))
        self.postgres = PostgresServer(self.folder / "postgres", self.guard, durable=durable)
        self.redis = RedisServer(self.folder / "redis", self.guard)
        self.docker = DockerEngine(self.folder / "docker", self.guard)
        self.stacks: list[ShowsItsLogs] = []
        self._made = 0

    @cached_property
    def ports_shift(self) -> int:
        """How far this run's agents are from the ports they name; held by a lock that ends with the process."""
        for number in range(RUNS_AT_ONCE):
            with suppress(BlockingIOError, PermissionError):  # taken, perhaps by another user's run
                self._ports = Path(tempfile.gettempdir(), f"berth-test-ports-{number}").open("a")  # noqa: SIM115
                fcntl.flock(self._ports, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return LOWEST_SHIFT + number * PORTS_OF_A_RUN
        raise pytest.UsageError(f"{RUNS_AT_ONCE} test runs with agents are going on here: wait until one has ended")

    def database_url(self) -> str:
        if parts.database() == "sqlite":
            return f"sqlite:///{self.folder}/berth.sqlite3"
        return self.postgres.url()

    def fill_environment(self) -> None:
        """The settings of this run, in place of whatever the caller's environment says about Berth but for the engine,
        of which both are tested: as it is written, and compiled."""
        for name in [name for name in os.environ if name.startswith("BERTH_")]:
            if not name.startswith("BERTH_TEST_") and name != "BERTH_ENGINE":
                del os.environ[name]
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        os.environ["BERTH_DATA_DIR"] = str(self.folder / "data")
        (self.folder / "data" / "static").mkdir(parents=True)
        os.environ["BERTH_DATABASE_URL"] = self.database_url()
        os.environ["BERTH_REDIS_URL"] = self.redis.url
        os.environ["BERTH_NODE_LISTENERS_EVERY_S"] = "0"  # what listens here is of tests that run beside this one
        os.environ["BERTH_LOGIN_RATE"] = "10/hour"  # no try comes back to who guesses slowly
        os.environ["BERTH_USAGE_KEPT"] = "0"  # a test changes rows between two reports
        os.environ["BERTH_UID_LAST"] = str(2**31 - 1)  # a run's tests share a database, which gives no key twice

    def new_folder(self, name: str) -> Path:
        """A folder of its own for one test's stack, readable by every user of the machine."""
        self._made += 1
        folder = self.folder / f"{name}-{self._made}"
        folder.mkdir()
        folder.chmod(0o755)
        return folder

    def new_redis(self, folder: Path) -> RedisServer:
        return RedisServer(folder / "redis", self.guard)

    def new_process(
        self, name: str, command: list[str], folder: Path, env: dict[str, str], forks: Forks | None = None
    ) -> Process:
        log = folder / f"{name}.log"
        return Process(name, command, guard=self.guard, log=log, env=env, cwd=Path(__file__).parents[3], forks=forks)

    @cached_property
    def static(self) -> Path:
        """The files of the portal's pages."""
        return static_copy(self.folder / "static")

    @cached_property
    def agents(self) -> Forks | None:
        """What the agents of this run are forks of."""
        return Forks("agents", self.guard, self.folder / "agents.log") if self.forking else None

    def portal(self, folder: Path, environment: Mapping[str, str]) -> Forks | None:
        """What the processes of a portal with this environment are forks of."""
        return Forks("portal", self.guard, folder / "portal.log", environment) if self.forking else None

    def close(self) -> None:
        self.guard.close()
