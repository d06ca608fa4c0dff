"""Clients of an Engine, in an API version that this code was written for, and what kind of Engine it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import requests
from docker.constants import DEFAULT_MAX_POOL_SIZE
from docker.tls import TLSConfig
from urllib3.exceptions import HTTPError

from nodes.agent.runtimes.docker.faults import EngineUnavailable, engine_unavailable
from nodes.protocol.addresses import ENGINE_CERTIFICATES

NEWEST_API = "1.51"
"""Later versions leave out what is read here: 1.52 fields of events, 1.53 parts of ``/system/df``."""


class EngineClient(docker.APIClient):
    """Client that raises ``EngineUnavailable``, with the address, where no answer comes. ``tls``: the folder with the
    certificates (``ENGINE_CERTIFICATES``) for mutual TLS."""

    def __init__(self, url: str, *, tls: Path | None = None, **options: Any) -> None:
        super().__init__(base_url=url, tls=_mutual(tls) if tls else False, **options)
        self.trust_env = False  # REQUESTS_CA_BUNDLE would count for more than the Engine's own authority
        self._engine_url = url

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            return super().send(request, **options)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise engine_unavailable(self._engine_url, error) from error


def engine_client(
    url: str, *, timeout: int, pool: int = DEFAULT_MAX_POOL_SIZE, tls: Path | None = None
) -> docker.APIClient:
    """A client for the Engine at this address, in a version both know. Raises ``EngineUnavailable``."""
    with closing(EngineClient(url, tls=tls, version=NEWEST_API, timeout=timeout)) as asking:
        version = asking.version(api_version=False)
    if "ApiVersion" not in version:
        raise EngineUnavailable(f"what answers at {url} is no Docker Engine", "correct BERTH_NODE_DOCKER_URL")
    return EngineClient(url, tls=tls, version=api_version(version), timeout=timeout, max_pool_size=pool)


def _mutual(folder: Path) -> TLSConfig:
    authority, certificate, key = (str(folder / name) for name in ENGINE_CERTIFICATES)
    return TLSConfig(client_cert=(certificate, key), ca_cert=authority, verify=True)


def api_version(version: Mapping[str, Any]) -> str:
    """The Engine's newest API version (``GET /version``), but none newer than this code knows; of an Engine that no
    longer supports that one, its oldest, which is the nearest."""
    known = min(str(version["ApiVersion"]), NEWEST_API, key=_numbers)
    return max(known, str(version.get("MinAPIVersion") or known), key=_numbers)


def keeps_in_containerd(client: docker.APIClient) -> bool:
    """Whether images lie in containerd's store (the default of a fresh Engine 29), where each named image has a digest;
    with graph drivers only images that a registry has, or was given, have one."""
    return in_containerd(client.info())


def in_containerd(info: Mapping[str, Any]) -> bool:
    """The same from ``docker info``."""
    status = info.get("DriverStatus") or ()
    return ["driver-type", "io.containerd.snapshotter.v1"] in [list(one) for one in status]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
