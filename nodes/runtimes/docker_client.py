"""Clients of an Engine, in a version of its API that this code was written for, and what kind of Engine it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import docker
from docker.constants import DEFAULT_MAX_POOL_SIZE
from docker.errors import DockerException

NEWEST_API = "1.51"
"""The next ones leave out what is read here: 1.52 fields of events, 1.53 what ``/system/df`` told until then."""


def engine_client(url: str, *, timeout: int, pool: int = DEFAULT_MAX_POOL_SIZE) -> docker.APIClient:
    """One for the Engine at this address, which is asked what it speaks. Raises what its silence raises."""
    with closing(docker.APIClient(base_url=url, version=NEWEST_API, timeout=timeout)) as asking:
        version = api_version(asking.version(api_version=False))
    return docker.APIClient(base_url=url, version=version, timeout=timeout, max_pool_size=pool)


def api_version(told: Mapping[str, Any]) -> str:
    """The Engine's newest (``GET /version``), but none that is newer than this code; of an Engine that has left that
    one behind its oldest, which is the nearest."""
    if "ApiVersion" not in told:
        raise DockerException("what answers there tells no version of its API")
    known = min(str(told["ApiVersion"]), NEWEST_API, key=_numbers)
    return max(known, str(told.get("MinAPIVersion") or known), key=_numbers)


def keeps_in_containerd(client: docker.APIClient) -> bool:
    """Whether its images lie in containerd's store (of a fresh Engine 29), where each that has a name has a digest too;
    by the graph drivers only what a registry has, or was given, has one."""
    status = client.info().get("DriverStatus") or ()
    return ["driver-type", "io.containerd.snapshotter.v1"] in [list(one) for one in status]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
