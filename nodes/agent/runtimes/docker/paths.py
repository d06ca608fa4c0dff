"""Resolves a container's paths by its image alone, in a container without mounts that is never started and removed at
once.

With mounts, the Engine would show what lies below them, and a mount can lie over the very link that moved it: only here
is a link of the image seen.
"""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import NotFound

from nodes.agent.runtimes.docker.mount_targets import path_plain

_LINK = 1 << 27
"""The bit of a link in a mode as Go has it."""
_FACTS = "X-Docker-Container-Path-Stat"
_NOT_FOUND = 404


@contextmanager
def bare_container(client: docker.APIClient, image: str, name: str, workdir: str) -> Iterator[str]:
    """The id of a container of the image without any mount, to be looked at. ``name``: only one of these has it at a
    time, so that one left by a killed agent goes; ``workdir``: the Engine makes it where the image has none. Raises
    APIError."""
    _remove(client, name)
    made = client.create_container(image, command=["true"], name=name, working_dir=workdir, network_disabled=True)
    try:
        yield str(made["Id"])
    finally:
        _remove(client, name)


def path_resolved(client: docker.APIClient, container: str, path: str) -> str:
    """The path with all links followed, also one at its end; a missing path stays as it would be made. Raises
    APIError."""
    real = "/"
    for step in filter(None, path_plain(path).split("/")):
        real = _led(client, container, posixpath.join(real, step))
    return real


def _led(client: docker.APIClient, container: str, path: str) -> str:
    """The same for one name in a folder without links on its way. The Engine follows a link to its end."""
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/archive"
    answer = client.head(url, params={"path": path}, timeout=client.timeout)
    if answer.status_code == _NOT_FOUND:
        return path
    if not answer.ok:
        client.get_archive(container, path)  # says in words what is wrong, which HEAD cannot
        answer.raise_for_status()
    facts: dict[str, Any] = json.loads(base64.b64decode(answer.headers[_FACTS]))
    return path_plain(str(facts["linkTarget"])) if int(facts["mode"]) & _LINK else path


def _remove(client: docker.APIClient, name: str) -> None:
    try:
        client.remove_container(name, v=True, force=True)
    except NotFound:
        return
