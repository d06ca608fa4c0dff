"""Links to ports that running tasks declared, on their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nodes.protocol.states import ContainerState
from portal.common.hosts import host_plain
from portal.job_file.model import JobSpec
from portal.jobs.container import MASTER_PORT_LABEL, PAI_PORTS
from portal.jobs.models import Job, TaskAttempt

LISTED = 40


@dataclass(frozen=True, slots=True)
class PortLink:
    """A declared port of a running task. ``address`` is empty if the node reported none fit for a link."""

    task: str
    label: str
    port: int
    address: str


OWN = {MASTER_PORT_LABEL, *PAI_PORTS}
"""Labels of ports that every job is given; usually nothing listens there."""


def ports_shown(*, job: Job, runs: Iterable[tuple[str, TaskAttempt]]) -> list[PortLink]:
    """Ports that the job's file declares, of those of ``runs`` (task name, attempt) that run now, at most ``LISTED``;
    needs nodes loaded."""
    declared = {label for role in JobSpec.from_json(job.spec).roles for label in role.resources.ports}
    links = [
        PortLink(name, str(label), port, _address(run.node.address, port))
        for name, run in runs
        if run.state == ContainerState.RUNNING and isinstance(run.ports, dict)
        for label, ports in sorted(run.ports.items())
        if label not in OWN or label in declared
        for port in ports
        if type(port) is int and 0 < port < 65536
    ]
    return links[:LISTED]


def _address(host: str, port: int) -> str:
    """``http://10.0.0.7:20001``"""
    plain = host_plain(host)
    if not plain:
        return ""
    return f"http://[{plain}]:{port}" if ":" in plain else f"http://{plain}:{port}"
