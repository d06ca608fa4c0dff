"""Scan of listeners on the server's loopback or on all its addresses that answer without authentication.

Tasks of a job of several are in the server's network and reach all of these. A listener may be such a task itself, and
is then not asked, where that is known.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from nodes.agent.listeners.exchange import SocketAddress
from nodes.agent.listeners.identify import identify
from nodes.agent.runtimes.ports import Listening, listening
from nodes.protocol.messages import MOST_LISTENERS, Listener
from nodes.protocol.states import ListenerKind

MOST_ASKED = 96
"""Most listeners asked in one scan,"""
AT_ONCE = 8
"""at the same time,"""
LOOK_S = 60.0
"""and none any more after this long."""
USUAL = frozenset(
    {2375, 2376, 2379, 4001, 5432, 6379, 8265, 8500, 8888, 9090, 9100, 9200, 9400, 10250, 10255, 11211, 27017}
)
"""Usual ports of the known kinds: they are asked first, so that nobody keeps a scan from them by listening on many
others. The answer decides, not the port."""

_SOCKET = "socket:["


class Answered(NamedTuple):
    """A listener that was asked, and its kind; None: nothing that answers without authentication."""

    socket: Listening
    kind: ListenerKind | None


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan: who was asked, in a stable order, and how many were left out for time or number."""

    asked: tuple[Answered, ...] = ()
    left: int = 0

    @property
    def found(self) -> tuple[Listener, ...]:
        """Those that answer without authentication; one that listens on IPv4 and IPv6 once."""
        found: dict[tuple[ListenerKind, int], Listener] = {}
        for (address, port, _), kind in self.asked:
            if kind is not None:
                found.setdefault((kind, port), Listener(kind, address, port))
        return tuple(found.values())[:MOST_LISTENERS]


def scan(
    *, of_job: Callable[[int], bool], held: Callable[[int], bool], quiet: Container[Listening] = (),
    ended: Callable[[], bool] = lambda: False,
) -> Scan:  # fmt: skip
    """Asks what listens here. ``of_job``: whether a process belongs to a task; ``held``: whether a task holds a port,
    on which the Engine itself listens where it forwards it; ``quiet``: those that need not be asked again; ``ended``:
    nobody waits for the scan any more."""
    there = [one for one in _open_ones() if not held(one.port) and one not in quiet]
    owners = _owners({one.inode for one in there})
    mine = os.getpid()
    unowned = [one for one in there if not _all(owners.get(one.inode, ()), lambda pid: pid == mine or of_job(pid))]
    chosen, ends_at = unowned[:MOST_ASKED], time.monotonic() + LOOK_S
    with ThreadPoolExecutor(AT_ONCE, "listeners") as pool:
        kinds = list(pool.map(lambda one: (None, False) if ended() else _kind(one, ends_at), chosen))
    asked = tuple(Answered(one, kind) for one, (kind, was) in zip(chosen, kinds, strict=True) if was)
    return Scan(asked, len(unowned) - len(asked))


def _kind(one: Listening, ends_at: float) -> tuple[ListenerKind | None, bool]:
    """The kind, and whether there was time to ask."""
    if time.monotonic() >= ends_at:
        return None, False
    return identify(SocketAddress(_asked_at(one.address), one.port), ends_at), True


def _open_ones() -> list[Listening]:
    """Listeners that tasks with the host network reach although they are closed to others, in the order in which they
    are asked."""
    found = {one for one in listening() if _is_loopback(one.address) or ip_address(one.address).is_unspecified}
    return sorted(found, key=lambda one: (one.port not in USUAL, one.port, one.address, one.inode))


def _is_loopback(address: str) -> bool:
    parsed = ip_address(address)
    inner = getattr(parsed, "ipv4_mapped", None)  # a socket for IPv6 that was bound to an address of IPv4
    return (inner or parsed).is_loopback


def _asked_at(address: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104


def _all(pids: Collection[int], known: Callable[[int], bool]) -> bool:
    """Whether all owners are known; False where there are none to be seen."""
    return bool(pids) and all(map(known, pids))


def _owners(inodes: Collection[int]) -> Mapping[int, set[int]]:
    """Processes that have these sockets open, as far as they can be seen."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            for inode in _sockets(folder / "fd"):
                if inode in inodes:
                    found[inode].add(int(folder.name))
    return found


def _sockets(folder: Path) -> Iterator[int]:
    try:
        names = os.listdir(folder)
    except OSError:  # another user's, or it has ended
        return
    for name in names:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if target.startswith(_SOCKET):
            yield int(target[len(_SOCKET) : -1])
