"""SSH access to running tasks."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.protocol.states import ContainerState
from nodes.protocol.wording import heard
from portal.common.hosts import host_plain
from portal.jobs.models import TaskAttempt


@dataclass(frozen=True, slots=True)
class SshWay:
    """SSH access to a running task whose job asks for it. ``state``: asked (its server is starting), open, none.
    ``host`` is empty if the node has reported none fit for a command."""

    state: str
    host: str
    port: int | None
    user: str
    host_key: str
    message: str
    alias: str

    @property
    def command(self) -> str:
        """The command to type. Ports are reused by other tasks, each with its own host key: so the client must know
        this one by an alias of its own."""
        if self.state != "open" or not self.host:
            return ""
        return f"ssh -p {self.port} -o HostKeyAlias={self.alias} {self.user}@{self.host}"


def ssh_way(run: TaskAttempt) -> SshWay | None:
    """Access to a run with its node; None if not asked for, or not running."""
    if not run.ssh or run.state != ContainerState.RUNNING or run.lost_at is not None:
        return None
    told = {key: str(run.ssh.get(key, "")) for key in ("state", "user", "host_key")}
    told["message"] = heard(str(run.ssh.get("message", "")), run.ssh.get("said"))
    ports = run.ports.get("ssh") or [None]
    return SshWay(host=host_plain(run.node.address), port=ports[0], alias=f"berth-{run.pk.hex[:12]}", **told)
