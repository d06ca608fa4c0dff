"""A GPU server of the tests that runs the agent of the compose stack, on a network of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.services.compose import NAME, Project, build_settings, edge_settings
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.services import Services


class Server(NamedTuple):
    """A GPU server on a network of its own, with the folders that its agent has."""

    project: Project
    state: Path
    jobs: Path


@contextmanager
def new_server(
    services: Services, engine: DockerEngine, name: str, told: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """One that knows the portal's name, and what it is told in its settings; nothing else."""
    folder = services.new_folder(f"server-{name}")
    state, jobs = folder / "state", folder / "jobs"
    state.mkdir()
    jobs.mkdir()
    # As every folder is on a server with systemd: mounts that come later are handed on into the agent's container.
    subprocess.run(["mount", "--bind", jobs, jobs], check=True)
    subprocess.run(["mount", "--make-shared", jobs], check=True)
    settings = {
        "BERTH_NODE_STATE_DIR": str(state),
        "BERTH_NODE_MOUNT_ROOTS": str(jobs),
        "BERTH_NODE_GPUS": "simulated:4xA100-80GB",
        **edge_settings(200 - int(name.removeprefix("gpu")) - 1),  # nobody is in it, and yet compose makes it
        "BERTH_DOCKER_SOCKET": engine.url.removeprefix("unix://"),
        **build_settings(),
        **(told or {}),
    }
    project = Project(folder / "clone", engine, name=f"berth-{name}", settings=settings)
    with engine.client() as client:
        site = client.networks.create(f"berth-site-{name}", driver="bridge")
        site.reload()
        gateway = site.attrs["IPAM"]["Config"][0]["Gateway"]
        # In the place of the server's own network: another one, from which the portal is somewhere else.
        away = {"network_mode": site.name, "extra_hosts": [f"{NAME}:{gateway}"]}
        override = {"services": {"agent": away, "berth-node": away}}
        (project.folder / "docker-compose.override.yml").write_text(json.dumps(override))  # which is YAML, too
        try:
            yield Server(project, state, jobs)
        finally:
            project.run("docker compose --profile node down --timeout 5")
            site.remove()
            subprocess.run(["umount", "--lazy", jobs], check=True)
