"""Connections to the local Docker Engine, and this node's containers on it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.client import EngineClient, engine_client
from nodes.agent.runtimes.docker.faults import engine_errors, engine_failures
from nodes.agent.runtimes.docker.socket import engine_age_s
from nodes.protocol.names import LABEL, container_name

CALL_TIMEOUT_S = 60
_POOL = 64


class Engine:
    """One Engine as one node uses it. Methods raise ``RuntimeUnavailable`` where it does not answer. ``tls``: the
    folder with its certificates, where it asks for them."""

    def __init__(self, url: str, tls: Path | None, *, cluster: str, node: str) -> None:
        self._url, self._tls = url, tls
        self.cluster, self.node = cluster, node
        self.labels = [f"{LABEL.CLUSTER}={cluster}", f"{LABEL.NODE}={node}"]
        self._lock = threading.Lock()
        self._client: docker.APIClient | None = None

    def client(self) -> docker.APIClient:
        """The client for short calls, made at the first one."""
        with self._lock:
            if self._client is None:
                with engine_failures():
                    self._client = engine_client(self._url, timeout=CALL_TIMEOUT_S, pool=_POOL, tls=self._tls)
            return self._client

    def connect(self, timeout: float | None) -> docker.APIClient:
        """A client of its own for a call that may block."""
        version = self.client().api_version
        return EngineClient(self._url, tls=self._tls, version=version, timeout=timeout)

    def age_s(self) -> float | None:
        """Seconds that the Engine has run; None where its process cannot be seen."""
        return engine_age_s(self._url)

    def inspect(self, attempt: str) -> dict[str, Any] | None:
        """The container of the attempt, if it is this cluster's and this node's."""
        with engine_failures():
            try:
                details: dict[str, Any] = self.client().inspect_container(container_name(attempt))
            except NotFound:
                return None
        own = details["Config"]["Labels"] or {}
        return details if self.owns(own) else None

    def owns(self, labels: dict[str, str]) -> bool:
        """Whether a container with these labels is this cluster's and this node's."""
        return (labels.get(LABEL.CLUSTER), labels.get(LABEL.NODE)) == (self.cluster, self.node)

    def remove(self, attempt: str) -> None:
        """Removes the attempt's container, running or not."""
        with engine_errors():
            try:
                self.client().remove_container(container_name(attempt), v=True, force=True)
            except APIError as error:
                if error.status_code != 404:
                    message = f"the Engine cannot remove the container: {error.explanation}"
                    raise RuntimeUnavailable(message) from error
