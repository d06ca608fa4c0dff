"""Listening sockets of this node, and which of its ports are free."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nodes.agent.runtimes.base import AttemptFailed
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec
from nodes.protocol.states import Cause

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
MOST_TOLD = 256


class Listening(NamedTuple):
    """A TCP socket that waits for connections; ``inode`` names it among the files of its processes."""

    address: str
    port: int
    inode: int


def ports_listening(first: int, last: int) -> tuple[int, ...]:
    """Ports of this range on which something listens here, ascending; at most ``MOST_TOLD``."""
    return tuple(islice(sorted({port for _, port, _ in listening() if first <= port <= last}), MOST_TOLD))


def listening() -> Iterator[Listening]:
    """All listening TCP sockets in this process' network."""
    for table in TABLES:
        for line in table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else ():
            _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
            if state == LISTENS:
                address, _, port = local.rpartition(":")
                yield Listening(_address(address), int(port, 16), int(inode))


def _address(words: str) -> str:
    """Decodes the kernel's notation: words of four bytes, each in the machine's own order."""
    packed = (int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return str(ip_address(b"".join(packed)))


def ports_check(spec: ContainerSpec) -> None:
    """Raises ``AttemptFailed`` with ``Cause.PORT_TAKEN`` when somebody listens on one of the spec's ports."""
    taken = [port for ports in spec.ports.values() for port in ports if not _is_free(port)]
    if taken:
        raise AttemptFailed(Cause.PORT_TAKEN, wordings.PORT_TAKEN(port=taken[0]))


def _is_free(port: int) -> bool:
    """Whether the port is free by IPv4 and by IPv6: a listener on either would be taken for the task."""
    return all(_binds(family, port) for family in (socket.AF_INET, socket.AF_INET6))


def _binds(family: socket.AddressFamily, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # there is none here
    return True
