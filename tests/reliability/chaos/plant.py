"""What a campaign is played on: two nodes with an Engine, PostgreSQL, Redis, and everything that can be broken."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.reliability.chaos.clock import Clock, clock_library
from tests.reliability.chaos.network import Cable
from tests.support.cluster.stack import Agent, Stack
from tests.support.images import images
from tests.support.services.migrated import postgres_copy
from tests.support.services.services import Services

NODES = ("gpu01", "gpu02")
PORTAL = ("web", "scheduler", "reports", "control")
LOST_AFTER_S = 15
LEASE_STILL_S = 12
TELLS_OF_CRASHES = {"PYTHONFAULTHANDLER": "1"}
DISK_MB = 192
"""Of the portal's data folder and of each agent's: enough for the load, quickly filled."""


class Disk:
    """A small file system at a folder, that can be filled to the last byte."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        options = f"size={DISK_MB}m,mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "berth-chaos", str(folder)], check=True)

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 65536)
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0")

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Plant:
    """A running Berth with its cables, clocks and disks by the name of the machine: `portal`, or a node's."""

    def __init__(self, services: Services) -> None:
        self.services = services
        services.postgres.start()
        services.docker.start()
        services.docker.ensure_image(images.BUSYBOX)
        folder = services.new_folder("clocks")
        library = clock_library(folder)
        self.clocks = {name: Clock(folder / name, library) for name in ("portal", *NODES)}
        short = {"BERTH_NODE_LOST_AFTER": str(LOST_AFTER_S), "BERTH_GRACE_PERIOD": "2", **TELLS_OF_CRASHES}
        self.stack = Stack(
            services,
            database_url=postgres_copy(services.postgres, "chaos"),
            docker_url=services.docker.url,
            agents=(),
            env={**short, **self.clocks["portal"].environment},
        )
        self.cables = {name: Cable(self.stack.redis) for name in NODES}
        self.stack.agents = tuple(self._agent(name, first) for name, first in zip(NODES, (22000, 22500), strict=True))
        folders = {"portal": self.stack.folder / "data", **{name: self.stack.folder / name for name in NODES}}
        self.disks = {name: Disk(folder) for name, folder in folders.items()}

    def _agent(self, name: str, first_port: int) -> Agent:
        env = {
            "BERTH_NODE_LEASE_STILL_S": str(LEASE_STILL_S),
            **TELLS_OF_CRASHES,
            **self.clocks[name].environment,
        }
        ports, redis_port = f"{first_port}-{first_port + 499}", self.cables[name].port
        return Agent(name=name, ports=ports, redis_port=redis_port, env=tuple(env.items()))


@contextlib.contextmanager
def running_plant() -> Iterator[Plant]:
    """A plant that is up and ends with everything in it, also when this process is killed."""
    services = Services()
    try:
        services.fill_environment()
        plant = Plant(services)
        with contextlib.closing(plant.stack):
            plant.stack.start()
            yield plant
    finally:
        services.close()
