"""Container options: from a ``ContainerSpec`` to the arguments for Docker. Pure: nothing is asked or done.

What may never be had cannot be said here: no privileged mode, no Docker socket, no ``runtime=nvidia`` (there a variable
would choose the GPUs), no restart policy, no removal by Docker.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docker.types import LogConfig, Mount, Ulimit

from nodes.agent.runtimes.docker.gpu_requests import gpu_requests
from nodes.agent.runtimes.script import LEASE_VARIABLE, script_command, script_environment
from nodes.agent.runtimes.stop_notice import NOTICE_NAME, NOTICE_TARGET, NOTICE_VARIABLE, PEERS_NAME
from nodes.agent.storage.folders import lease_target
from nodes.protocol.messages import ContainerSpec
from nodes.protocol.names import LABEL, PEERS_VARIABLE, container_name

_MB = 1 << 20
_STARTERS = frozenset({"sh", "bash", "dash", "ash", "zsh", "env", "tini", "dumb-init", "docker-init", "catatonit"})
_ENTRYPOINT_SHOWN = 300
_NOT_RUN = (
    "the image's ENTRYPOINT (%s) is not run: the job's commands are, in its place; begin them with it where they need "
    "what it does"
)
_USER_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_INFINIBAND = "/dev/infiniband"
_ROOT_DROPS = ("NET_RAW", "MKNOD")
_ULIMITS = (("stack", 64 * _MB), ("core", 0))
_RAISED_ULIMITS = (("memlock", -1), ("nofile", 1 << 20))
RAISED_LIMITS = frozenset(name for name, _ in _RAISED_ULIMITS)
"""Limits that an Engine without CAP_SYS_RESOURCE cannot set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Facts of the node that shape a container. ``notices`` and ``workspaces``: the folders that hold each attempt's
    notice and code; ``cdi``: the GPUs that the Engine knows by CDI; ``simulated``: the GPUs are declared, so no device
    is requested; ``cpus_of``: CPUs near a GPU, by UUID; ``raises_limits``: the Engine may set limits above its own (not
    where it runs inside a container itself)."""

    cluster: str
    node: str
    notices: str
    workspaces: str = ""
    cdi: frozenset[str] = frozenset()
    simulated: bool = False
    cpus_of: Mapping[str, frozenset[int]] = field(default_factory=dict)
    infiniband: bool = False
    raises_limits: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """Arguments of docker-py's ``create_container`` and, apart, of its ``create_host_config``."""

    container: dict[str, Any]
    host: dict[str, Any]


def container_options(spec: ContainerSpec, spec_hash: str, reference: str, facts: NodeFacts) -> Creation:
    """All arguments for one container; ``reference`` is the resolved image."""
    return Creation(container=_container(spec, spec_hash, reference, facts), host=_host(spec, facts))


def labels(spec: ContainerSpec, spec_hash: str, facts: NodeFacts) -> dict[str, str]:
    """Labels by which a restarted agent finds the container. No secrets: everybody on the server may read them."""
    return {
        LABEL.CLUSTER: facts.cluster,
        LABEL.NODE: facts.node,
        LABEL.JOB: spec.job,
        LABEL.ATTEMPT: spec.attempt,
        LABEL.TASK: f"{spec.role}[{spec.index}]",
        LABEL.GPUS: ",".join(spec.gpus),
        LABEL.SPEC: spec_hash,
    }


def user_name(spec: ContainerSpec) -> str:
    """The user's name inside the container: their own where Linux accepts it and it is nobody else's."""
    good = _USER_NAME.fullmatch(spec.user_name) is not None and spec.user_name != "root"
    return spec.user_name if good else f"user{spec.uid}"


def home_of(spec: ContainerSpec) -> str:
    """HOME under the profile ``user``."""
    return spec.env.get("HOME") or f"/home/{user_name(spec)}"


def environment(spec: ContainerSpec, facts: NodeFacts) -> dict[str, str]:
    """The spec's variables with ours; variables that would choose GPUs are dropped."""
    env = {name: value for name, value in spec.env.items() if not name.startswith("NVIDIA_")}
    if spec.profile == "user":
        env |= {"HOME": home_of(spec), "USER": user_name(spec), "LOGNAME": user_name(spec)}
    if spec.job_dir is not None:
        env["BERTH_JOB_DIR"] = spec.job_dir
    lease = lease_target(spec)
    if lease is not None:
        env[LEASE_VARIABLE] = lease
    if facts.simulated or not spec.gpus:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    env[NOTICE_VARIABLE] = f"{NOTICE_TARGET}/{NOTICE_NAME}"
    if PEERS_VARIABLE in env:
        env[PEERS_VARIABLE] = f"{NOTICE_TARGET}/{PEERS_NAME}"
    env |= {"BERTH_ATTEMPT_ID": spec.attempt, "TINI_KILL_PROCESS_GROUP": "1"}
    return env | script_environment(spec.script)


def entrypoint_told(entrypoint: Sequence[str]) -> str:
    """The log's note on an image's ENTRYPOINT, which is not run; empty for a shell or an init alone."""
    own = [word for word in entrypoint if not word.startswith("-") and posixpath.basename(word) not in _STARTERS]
    return _NOT_RUN % " ".join(entrypoint)[:_ENTRYPOINT_SHOWN] if own else ""


def _container(spec: ContainerSpec, spec_hash: str, reference: str, facts: NodeFacts) -> dict[str, Any]:
    bridged = spec.network == "bridge"
    return {
        "image": reference,
        "name": container_name(spec.attempt),
        "entrypoint": script_command(),
        "command": [],
        "user": f"{spec.uid}:{spec.gid}" if spec.profile == "user" else "0:0",
        "environment": environment(spec, facts),
        "labels": labels(spec, spec_hash, facts),
        "working_dir": spec.workdir,
        "stop_signal": "SIGTERM",
        "hostname": _hostname(spec) if bridged else None,
        "ports": [(port, "tcp") for port in _ports(spec)] if bridged else None,
    }


def _hostname(spec: ContainerSpec) -> str:
    """The task's name as a host's: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", f"{spec.role}-{spec.index}").strip("-")[-63:]


def _host(spec: ContainerSpec, facts: NodeFacts) -> dict[str, Any]:
    limits = spec.limits
    return {
        "runtime": "runc",
        "init": True,
        "privileged": False,
        "restart_policy": {"Name": "no"},
        "auto_remove": False,
        "nano_cpus": limits.cpu_milli * 1_000_000,
        "mem_limit": limits.memory_mb * _MB,
        "memswap_limit": limits.memory_mb * _MB,
        "pids_limit": limits.pids,
        "shm_size": limits.shm_mb * _MB,
        "cpuset_cpus": _cpuset(spec, facts),
        "oom_score_adj": 500,
        "ulimits": _ulimits(facts),
        "ipc_mode": "private",
        "cgroupns": "private",
        "security_opt": ["no-new-privileges:true"],
        "network_mode": spec.network,
        "port_bindings": {port: port for port in _ports(spec)} if spec.network == "bridge" else None,
        "mounts": _mounts(spec, facts),
        "device_requests": gpu_requests(() if facts.simulated else spec.gpus, facts.cdi),
        "devices": [f"{_INFINIBAND}:{_INFINIBAND}:rwm"] if limits.infiniband and facts.infiniband else None,
        "log_config": LogConfig(type="json-file", config={"max-size": "256m", "max-file": "4", "mode": "blocking"}),
        **_rights(spec),
    }


def _rights(spec: ContainerSpec) -> dict[str, Any]:
    """Capabilities and groups of the two profiles."""
    if spec.profile == "user":
        return {"cap_drop": ["ALL"], "group_add": [str(group) for group in spec.groups]}
    return {"cap_drop": list(_ROOT_DROPS), "cap_add": ["IPC_LOCK"] if spec.limits.infiniband else None}


def _ulimits(facts: NodeFacts) -> list[Ulimit]:
    """Locked memory for RDMA, many open files, no core dumps, and a deep stack."""
    wanted = (*_ULIMITS, *(_RAISED_ULIMITS if facts.raises_limits else ()))
    return [Ulimit(name=name, soft=value, hard=value) for name, value in wanted]


def _mounts(spec: ContainerSpec, facts: NodeFacts) -> list[Mount]:
    code = [_mount(f"{facts.workspaces}/{spec.attempt}", spec.workdir, False)] if spec.code else []
    storages = (_mount(mount.source, mount.target, mount.read_only) for mount in spec.mounts)
    return [*code, *storages, _mount(f"{facts.notices}/{spec.attempt}", NOTICE_TARGET, True)]


def _mount(source: str, target: str, read_only: bool) -> Mount:
    return Mount(target=target, source=source, type="bind", read_only=read_only, propagation="rprivate")


def _cpuset(spec: ContainerSpec, facts: NodeFacts) -> str | None:
    """The CPUs near all the task's GPUs, when the node knows them and they are enough."""
    near: set[int] = set()
    for uuid in spec.gpus:
        if uuid not in facts.cpus_of:
            return None
        near |= facts.cpus_of[uuid]
    enough = len(near) * 1000 >= spec.limits.cpu_milli
    return cpu_list(near) if near and enough else None


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs in Linux's list form: ``0-3,8``."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _ports(spec: ContainerSpec) -> list[int]:
    return [port for ports in spec.ports.values() for port in ports]
