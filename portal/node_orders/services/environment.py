"""Variables of every task: OpenPAI's ``PAI_*``, torch's and torchrun's, and our own ``BERTH_*``.

Ranks count tasks over roles in file order. A job's tasks know each other by their nodes' job addresses and the ports
held for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from nodes.protocol.names import PEERS_VARIABLE
from portal.job_file.model import JobSpec
from portal.job_file.rules import pai_role
from portal.jobs.container import MASTER_PORT_LABEL

USUAL_MASTER_PORT = 29500
LONGEST = 96 * 1024
"""Bytes of one variable listing tasks: Linux takes 128 kB with the name."""
MOST_EACH = 512 * 1024
"""Bytes of all variables about single tasks: Linux takes 2 MB of variables in total, the script's included."""
LEFT_OUT = "BERTH_LEFT_OUT"
"""Names the variables left out, with which no program could be started."""
_EACH = ("PAI_HOST_IP_*", "PAI_PORT_LIST_*", "PAI_*_PORT")


@dataclass(frozen=True, slots=True)
class Peer:
    """A task of the attempt as its siblings see it. ``ports``: label -> ports held for it on its node."""

    role: str
    index: int
    rank: int
    address: str
    ports: Mapping[str, Sequence[int]]
    gpus: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Inputs of the variables. ``me`` is one of ``peers``, which are in rank order; of extra tasks only those that run
    now are among them."""

    spec: JobSpec
    user: str
    run: int
    attempt: int
    me: Peer
    peers: Sequence[Peer]
    interface: str
    gpu_indices: Sequence[int]
    job_dir: str
    workdir: str
    grace_s: int


def environment(facts: Facts, shared: Mapping[str, str]) -> dict[str, str]:
    """All variables, unordered; ``shared``: those its siblings get as well. The user's own come from the script, and
    win there: a Python program's output is unbuffered in the log unless they say otherwise."""
    return {
        "PYTHONUNBUFFERED": "1",
        **shared,
        **_pai_job(facts),
        **_pai_compatibility(facts),
        **_torch(facts),
        **_berth(facts),
    }


def shared_variables(peers: Sequence[Peer]) -> dict[str, str]:
    """Variables that name each task, the same for a whole attempt: built anew for each of thousands of tasks they would
    take most of the time.

    They are left out if tasks are so many that Linux would start nothing; ``LEFT_OUT`` says which.
    """
    lists, each = _pai_lists(peers), _pai_each(peers)
    long = [name for name, value in lists.items() if len(value) > LONGEST]
    env = {name: value for name, value in lists.items() if name not in long}
    if sum(len(name) + len(value) for name, value in each.items()) > MOST_EACH:
        long += _EACH
    else:
        env |= each
    return env | ({LEFT_OUT: " ".join(long)} if long else {})


def pai_job_name(name: str, run: int) -> str:
    """A run's name in OpenPAI's clients. OpenPAI has one run per name; later ones carry their number."""
    return name if run == 1 else f"{name}-{run}"


def _numbers(ports: Sequence[int]) -> str:
    return ",".join(str(port) for port in ports)


def _pai_job(facts: Facts) -> dict[str, str]:
    spec = facts.spec
    env = {
        "PAI_JOB_NAME": spec.name,
        "PAI_FRAMEWORK_NAME": f"{facts.user}~{pai_job_name(spec.name, facts.run)}",
        "PAI_USER_NAME": facts.user,
        "PAI_VIRTUAL_CLUSTER": spec.vc,
        "PAI_TASK_ROLE_COUNT": str(len(spec.roles)),
        "PAI_TASK_ROLE_LIST": ",".join(role.name for role in spec.roles),
        "PAI_CURRENT_TASK_ROLE_NAME": facts.me.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(facts.me.index),
        "PAI_WORK_DIR": facts.workdir,
    }
    for role in spec.roles:
        need = role.resources
        env[f"PAI_TASK_ROLE_TASK_COUNT_{role.name}"] = str(sum(peer.role == role.name for peer in facts.peers))
        env[f"PAI_RESOURCE_{role.name}"] = f"{need.gpu},{need.cpu},{need.memory_mb},{need.shm_mb or 0}"
        env[f"PAI_MIN_FAILED_TASK_COUNT_{role.name}"] = str(role.completion.min_failed)
        env[f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}"] = str(role.completion.min_succeeded)
    return env


def _pai_lists(peers: Sequence[Peer]) -> dict[str, str]:
    hosts: dict[str, list[str]] = {}
    for peer in peers:
        http = peer.ports.get("http", ())
        hosts.setdefault(pai_role(peer.role), []).append(f"{peer.address}:{http[0]}" if http else peer.address)
    instances = ",".join(f"{pai_role(peer.role)}:{peer.index}" for peer in peers)
    named = {f"PAI_TASK_ROLE_{role}_HOST_LIST": ",".join(names) for role, names in hosts.items()}
    return {"PAI_TASK_ROLE_INSTANCES": instances} | named


def _pai_each(peers: Sequence[Peer]) -> dict[str, str]:
    env: dict[str, str] = {}
    for peer in peers:
        name = pai_role(peer.role)
        env[f"PAI_HOST_IP_{name}_{peer.index}"] = peer.address
        for label, ports in peer.ports.items():
            env[f"PAI_PORT_LIST_{name}_{peer.index}_{label}"] = _numbers(ports)
            env[f"PAI_{name}_{peer.index}_{label}_PORT"] = _numbers(ports)
    return env


def _pai_compatibility(facts: Facts) -> dict[str, str]:
    me, spec = facts.me, facts.spec
    everything = "".join(f"{label}:{_numbers(ports)};" for label, ports in me.ports.items())
    http, ssh = (_numbers(me.ports.get(label, ())[:1]) for label in ("http", "ssh"))
    indices = ",".join(str(index) for index in facts.gpu_indices) or "none"
    env = {
        "PAI_USERNAME": facts.user,
        "PAI_TASKS_NUM": str(len(facts.peers)),
        "PAI_JOB_TASK_COUNT": str(len(facts.peers)),
        "PAI_TASK_ROLES_NUM": str(len(spec.roles)),
        "PAI_JOB_TASK_ROLE_COUNT": str(len(spec.roles)),
        "PAI_JOB_TASK_ROLE_LIST": ",".join(role.name for role in spec.roles),
        "PAI_TASK_INDEX": str(me.index),
        "PAI_DEFAULT_FS_URI": "",
        "PAI_CURRENT_CONTAINER_IP": me.address,
        "PAI_CURRENT_CONTAINER_PORT": http,
        "PAI_CONTAINER_HOST_IP": me.address,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_SSH_PORT": ssh,
        "PAI_CONTAINER_HOST_PORT_LIST": everything,
        "HIVED_VISIBLE_DEVICES": indices,
    }
    return env | {f"PAI_CONTAINER_HOST_{label}_PORT_LIST": _numbers(ports) for label, ports in me.ports.items()}


def _torch(facts: Facts) -> dict[str, str]:
    among = {"NCCL_SOCKET_IFNAME": facts.interface, "GLOO_SOCKET_IFNAME": facts.interface} if facts.interface else {}
    if facts.spec.elastic:
        return _elastic(facts) | among
    local = max(facts.me.gpus, 1)
    before = sum(max(peer.gpus, 1) for peer in facts.peers[: facts.me.rank])
    shape = {"NNODES": str(len(facts.peers)), "NODE_RANK": str(facts.me.rank), "NPROC_PER_NODE": str(local)}
    master = _master(facts.peers)
    env = shape | master
    # Alone, torchrun uses 127.0.0.1 and, in newer versions, a free port: it reads PET_* only, and gets no PET_MASTER_*.
    env |= {f"PET_{name}": value for name, value in (env if len(facts.peers) > 1 else shape).items()}
    env |= {"WORLD_SIZE": str(sum(max(peer.gpus, 1) for peer in facts.peers)), "RANK": str(before)}
    return env | among if len(facts.peers) > 1 else env


RENDEZVOUS = "last_call_timeout=5,keep_alive_interval=2,keep_alive_max_attempt=3"
"""Of torchrun: who is there 5 s after there were enough takes part; who is silent for 6 s is gone."""


def _elastic(facts: Facts) -> dict[str, str]:
    """What makes a bare ``torchrun`` elastic: it meets at its role's task 0, for as long as that runs. Nothing says how
    many tasks there are and which one this is: that changes while the job runs."""
    local = {"NPROC_PER_NODE": str(max(facts.me.gpus, 1))}
    local |= {f"PET_{name}": value for name, value in local.items()}
    role = facts.spec.role(facts.me.role)
    if role.elastic is None:
        return local
    local[PEERS_VARIABLE] = ""
    first = next(peer for peer in facts.peers if (peer.role, peer.index) == (role.name, 0))
    return local | {
        "PET_NNODES": f"{role.least}:{role.instances}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{first.address}:{first.ports[MASTER_PORT_LABEL][0]}",
        "PET_RDZV_ID": str(facts.attempt),
        "PET_RDZV_CONF": f"{RENDEZVOUS},is_host={int(facts.me is first)}",
        "PET_LOCAL_ADDR": _spelled(facts.me.address, facts.me.index),
        "PET_MAX_RESTARTS": "1000",  # each task that leaves uses one up
        "PET_MONITOR_INTERVAL": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # it would go with the process that is rank 0 now
    }


def _spelled(address: str, index: int) -> str:
    """The IPv4 address in a spelling of its own for each task below 4,096, which the C library reads like all others.

    torchrun knows its peers by address and process id. Tasks of one node share the address, and in containers the
    program's process id is often the same: they would be one to each other, and train apart.
    """
    try:
        octets = IPv4Address(address).packed
    except AddressValueError:
        return address
    zeros = [index >> (3 * place) & 7 for place in (3, 2, 1, 0)]
    return ".".join(
        f"0x{'0' * (count - 1)}{one:x}" if count else str(one) for one, count in zip(octets, zeros, strict=True)
    )


def _master(peers: Sequence[Peer]) -> dict[str, str]:
    """Rendezvous of all tasks' processes. A single task has a network of its own, in which its node's address leads
    nowhere, and no port is held for it."""
    address = "127.0.0.1" if len(peers) == 1 else peers[0].address
    port = peers[0].ports.get(MASTER_PORT_LABEL, (USUAL_MASTER_PORT,))[0]
    return {"MASTER_ADDR": address, "MASTER_PORT": str(port)}


def _berth(facts: Facts) -> dict[str, str]:
    return {
        "BERTH_JOB": f"{facts.user}/{facts.spec.name}#{facts.run}",
        "BERTH_JOB_ATTEMPT": str(facts.attempt),
        "BERTH_JOB_DIR": facts.job_dir,
        "BERTH_TASK_ROLE": facts.me.role,
        "BERTH_TASK_INDEX": str(facts.me.index),
        "BERTH_TASK_RANK": str(facts.me.rank),
        "BERTH_GPUS": str(facts.me.gpus),
        "BERTH_GRACE_SECONDS": str(facts.grace_s),
        "BERTH_VIRTUAL_CLUSTER": facts.spec.vc,
    }
