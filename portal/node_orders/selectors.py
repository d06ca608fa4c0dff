"""How running tasks are reached by SSH."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.protocol.states import ContainerState
from portal.common.hosts import host_plain
from portal.jobs.models import TaskAttempt


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
