"""Which Docker Engine the jobs of the embedded stack run on, if any."""

from __future__ import annotations

import os
from pathlib import Path

from nodes.protocol.addresses import ENGINE_ANYHOW, AddressInvalid, engine_guarded

SOCKET = "unix:///var/run/docker.sock"
RUNTIMES = ("", "docker", "process")
OURS, DOCKERS = "BERTH_NODE_DOCKER_URL", "DOCKER_HOST"


class CannotStart(SystemExit):
    """The stack cannot start; the text is one sentence that says why and what to do."""


def engine_chosen() -> tuple[str | None, Path | None]:
    """The Engine's address, and the folder of certificates by which it is asked; without an address jobs run as plain
    processes. What BERTH_NODE_RUNTIME and BERTH_NODE_DOCKER_URL say must hold; else an Engine is used where one
    answers. Raises CannotStart."""
    runtime = os.environ.get("BERTH_NODE_RUNTIME", "")
    if runtime not in RUNTIMES:
        raise CannotStart(f"BERTH_NODE_RUNTIME={runtime!r} is none of docker, process.")
    if runtime == "process":
        return None, None
    name = OURS if os.environ.get(OURS) else DOCKERS
    url, tls = os.environ.get(name) or SOCKET, _certificates()
    _check(name, url, tls)
    if _answers(url, tls):
        return url, tls
    if runtime or name == OURS:
        said = "BERTH_NODE_RUNTIME=docker" if runtime else OURS
        raise CannotStart(
            f"No Docker Engine answers at {url}, and {said} asks for one: start it, correct {name}, or let jobs run as "
            "plain processes: BERTH_NODE_RUNTIME=process make demo"
        )
    return None, None


def _certificates() -> Path | None:
    """The folder that the agent, or else Docker's own client, would ask the Engine by."""
    if ours := os.environ.get("BERTH_NODE_DOCKER_TLS"):
        return Path(ours)
    if not os.environ.get("DOCKER_TLS_VERIFY"):
        return None
    return Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")


def _check(name: str, url: str, tls: Path | None) -> None:
    """As the agent does, which would end with the whole stack."""
    if os.environ.get("BERTH_NODE_DOCKER_WITHOUT_TLS") == ENGINE_ANYHOW:
        return
    try:
        engine_guarded(url, has_certificates=tls is not None)
    except AddressInvalid as error:
        raise CannotStart(
            f"{name}={url} {error}. With certificates: DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=/their/folder make "
            "demo; without an Engine, jobs run as plain processes: BERTH_NODE_RUNTIME=process make demo"
        ) from None


def _answers(url: str, tls: Path | None) -> bool:
    import docker
    from docker.errors import DockerException

    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    secured = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tls)} if tls else {}
    try:
        client = docker.from_env(version="auto", timeout=3, environment={**kept, **secured, "DOCKER_HOST": url})
        client.ping()
        client.close()
    except (DockerException, OSError):
        return False
    return True
