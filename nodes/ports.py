"""Whether a task's host ports are free on this node."""

from __future__ import annotations

import socket

from nodes.protocol import Cause, ContainerSpec
from nodes.runtimes.base import Failed


def ports_check(spec: ContainerSpec) -> None:
    """Raises ``Failed`` with ``Cause.PORT_TAKEN`` when somebody listens on one of the spec's ports."""
    taken = [port for ports in spec.ports.values() for port in ports if not _is_free(port)]
    if taken:
        raise Failed(Cause.PORT_TAKEN, f"host port {taken[0]} is in use on this node")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True
