"""How running tasks are reached by SSH."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from nodes.protocol import ContainerState
from portal.jobs.models import TaskAttempt

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class SshWay:
    """A running task whose job asks for SSH. ``state``: asked (its server is being started), open, none. ``host`` is
    empty where the node has told nothing that may stand in a command."""

    state: str
    host: str
    port: int | None
    user: str
    host_key: str
    message: str
    alias: str

    @property
    def command(self) -> str:
        """What to type. Ports are used again by other tasks, each with a host key of its own: so the client must know
        this one by a name of its own."""
        if self.state != "open" or not self.host:
            return ""
        return f"ssh -p {self.port} -o HostKeyAlias={self.alias} {self.user}@{self.host}"


def ssh_way(run: TaskAttempt) -> SshWay | None:
    """Of a run with its node; None where it is not asked for, or nothing runs."""
    if not run.ssh or run.state != ContainerState.RUNNING or run.lost_at is not None:
        return None
    told = {key: str(run.ssh.get(key, "")) for key in ("state", "user", "host_key", "message")}
    ports = run.ports.get("ssh") or [None]
    return SshWay(host=host_plain(run.node.address), port=ports[0], alias=f"berth-{run.pk.hex[:12]}", **told)


def host_plain(host: str) -> str:
    """The host, where it is a name or an address and nothing else; what a node says of itself never becomes a scheme,
    a user, a path or a word of a command."""
    try:
        return str(ip_address("" if "%" in host else host))
    except ValueError:
        return host if HOST.fullmatch(host) else ""
