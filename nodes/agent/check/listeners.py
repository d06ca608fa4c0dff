"""Findings about listeners without authentication, and who reaches them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import closing
from ipaddress import ip_address
from typing import NamedTuple

from docker.errors import DockerException

from nodes.agent.check.finding import Finding, ok, warning
from nodes.agent.config.options import Options
from nodes.agent.listeners.scan import Scan, scan
from nodes.agent.runtimes.cgroups import cgroup_container
from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.faults import EngineUnavailable
from nodes.protocol.messages import Listener
from nodes.protocol.names import LABEL
from nodes.protocol.states import ListenerKind

ANSWER_S = 10
REACHED = "tasks of every job of several tasks here reach it"
REACHED_BY_ALL = "every job here reaches it, and whoever reaches this server"
CURE = "Have it ask for a password, or take the host network away from the virtual clusters whose jobs may run here."
CURE_FOR_ALL = "Have it ask for a password, or listen on the loopback alone."
CURES = {
    ListenerKind.DOCKER: "Let the Engine listen at its socket alone: whoever asks it is root here.",
    ListenerKind.KUBELET: "Switch its anonymous access (--anonymous-auth) and its read-only port off.",
}


class RunningTasks(NamedTuple):
    """Containers of running tasks, and the ports that the Engine forwards to them."""

    containers: frozenset[str]
    ports: frozenset[int]


def listener_findings(options: Options, apart: Container[int] = ()) -> Iterator[Finding]:
    """One for each listener that answers without authentication, except tasks' own, and ports in ``apart``."""
    if not options.listeners_every_s:
        yield ok("listeners", "not asked: BERTH_NODE_LISTENERS_EVERY_S is 0")
        return
    tasks = _tasks(options)
    looked = scan(
        of_job=lambda pid: cgroup_container(pid) in tasks.containers,
        held=lambda port: port in tasks.ports or port in apart,
    )
    yield from map(_finding, looked.found)
    if not looked.found:
        yield ok("listeners", _summary(looked))
    if looked.left:
        yield warning("listeners", _summary(looked), "Ask again, or look with: ss -ltnp")


def _summary(looked: Scan) -> str:
    text = f"of {len(looked.asked)} that were asked {len(looked.found) or 'none'} answer without authentication"
    return f"{text}; {looked.left} were not asked" if looked.left else text


def _finding(one: Listener) -> Finding:
    everybody = ip_address(one.address).is_unspecified
    address = f"[{one.address}]" if ":" in one.address else one.address
    text = f"{one.kind} at {address}:{one.port} answers without authentication: "
    cure = CURES.get(ListenerKind(one.kind)) or (CURE_FOR_ALL if everybody else CURE)
    return warning("listeners", text + (REACHED_BY_ALL if everybody else REACHED), cure)


def _tasks(options: Options) -> RunningTasks:
    """The running tasks; none where the Engine does not answer, which is another finding."""
    if options.runtime != "docker":
        return RunningTasks(frozenset(), frozenset())
    try:
        with closing(engine_client(options.docker_url, timeout=ANSWER_S, tls=options.docker_tls)) as client:
            found = client.containers(filters={"label": [LABEL.ATTEMPT]})
    except (EngineUnavailable, DockerException, OSError):
        found = []
    ports = (port.get("PublicPort") for one in found for port in one.get("Ports") or ())
    return RunningTasks(frozenset(one["Id"] for one in found), frozenset(filter(None, ports)))
