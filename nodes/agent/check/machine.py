"""Findings about the server itself: GPUs, Docker, cgroups, address, ports, key."""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from docker.errors import DockerException

from nodes.agent.check.disk_and_storage import disk_findings, storage_findings
from nodes.agent.check.finding import Finding, failed, ok, warning
from nodes.agent.check.listeners import listener_findings
from nodes.agent.config.options import Options
from nodes.agent.hardware.gpus.base import GpusUnavailable
from nodes.agent.hardware.gpus.choice import nvidia_cards
from nodes.agent.hardware.gpus.nvml import NvmlBackend
from nodes.agent.hardware.inventory import job_address
from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.faults import EngineUnavailable
from nodes.agent.runtimes.docker.folders import disk_folder
from nodes.agent.runtimes.docker.gpu_requests import cdi_devices, cdi_names
from nodes.protocol.names import MIG_MODE

ANSWER_S = 10
CDI_CURE = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
TOOLKIT_CURE = f"Install NVIDIA's container toolkit, then: {CDI_CURE}"
MIG_CURE = "Remove its slices (nvidia-smi mig -dci, then -dgi), and switch the mode off: the GPU comes back by itself."
_HOOK, _TOOL = "nvidia-container-runtime-hook", "nvidia-ctk"
UNGUARDED_CURE = "Let the Engine listen at its socket alone, and take that setting away."
ONCE_IT_RUNS = "Once the agent runs: docker compose --profile node exec -T agent python -m nodes check"
_LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Cards:
    """GPUs to be given to containers. ``uuids``: empty where they are not seen from here; ``contained``: this is a
    container, which sees none of the server's commands."""

    uuids: tuple[str, ...] = ()
    contained: bool = False


def machine_findings(options: Options) -> Iterator[Finding]:
    """Findings in the order in which they are best put right."""
    driver, cards = driver_finding(options)
    yield driver
    info: Mapping[str, Any] = {}
    if options.runtime == "docker":
        try:
            info = _engine(options)
        except EngineUnavailable as away:
            yield failed("docker", away.what, f"{away.cure}.")
        except (DockerException, OSError) as error:
            text = f"what answers at {options.docker_url} cannot be used as a Docker Engine ({error})"
            yield failed("docker", text, "Correct BERTH_NODE_DOCKER_URL.")
        else:
            yield from engine_findings(info, cards)
        if options.docker_without_tls:
            yield warning(
                "engine guard", "BERTH_NODE_DOCKER_WITHOUT_TLS is set: jobs may become root here", UNGUARDED_CURE
            )
    else:
        yield warning("docker", "tasks run as plain processes, not isolated", "Set BERTH_NODE_RUNTIME=docker.")
    yield from disk_findings(options, disk_folder(info) if info else "")
    yield _address(options)
    yield _ports(options)
    yield from listener_findings(options)
    yield from storage_findings(options)


def driver_finding(options: Options, *, root: Path = Path("/")) -> tuple[Finding, Cards | None]:
    """The finding, and the GPUs to be given to containers. ``root``: where this container's or server's files lie."""
    if options.gpus.startswith("simulated"):
        return ok("driver", f"not needed: {options.gpus}"), None
    contained = (root / ".dockerenv").exists()
    cure = "Install NVIDIA's driver (nvidia-smi must list the GPUs), or declare simulated ones in BERTH_NODE_GPUS."
    try:
        with closing(NvmlBackend()) as backend:
            gpus = backend.inventory()
    except GpusUnavailable as error:
        if contained and (version := _unseen_driver(root)):
            text = f"{version} by what the kernel says; this container was given no GPUs to look at"
            return warning("driver", text, ONCE_IT_RUNS), Cards(contained=True)
        if options.gpus == "auto" and not nvidia_cards():
            return warning("driver", f"no NVIDIA driver: GPUs are simulated ({error})", cure), None
        return failed("driver", f"no NVIDIA driver: {error}", cure), None
    if not gpus:
        return failed("driver", "the driver lists no GPUs", cure), None
    cards = Cards(tuple(gpu.uuid for gpu in gpus), contained)
    if sick := [gpu for gpu in gpus if not gpu.healthy]:
        text = "; ".join(f"GPU {gpu.index}: {gpu.fault}" for gpu in sick)
        cure = MIG_CURE if all(gpu.fault.startswith(MIG_MODE) for gpu in sick) else "Look at nvidia-smi -q."
        return warning("driver", f"{gpus[0].driver}; not healthy: {text}", cure), cards
    return ok("driver", f"{gpus[0].driver}, {len(gpus)} x {gpus[0].model}"), cards


def _unseen_driver(root: Path) -> str:
    """Version of the driver that the kernel has loaded; empty: there is none."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\s(\d+(\.\d+)+)\s", text)
    return found[1] if found else ""


def _engine(options: Options) -> Mapping[str, Any]:
    with closing(engine_client(options.docker_url, timeout=ANSWER_S, tls=options.docker_tls)) as client:
        info: Mapping[str, Any] = client.info()
    return info


def engine_findings(info: Mapping[str, Any], cards: Cards | None) -> Iterator[Finding]:
    """Findings from ``docker info``, and whether this Engine can give these GPUs to containers."""
    yield ok("docker", f"{info.get('ServerVersion', '?')}")
    if cards:
        yield _toolkit(info, cards)
        yield _cdi(info, cards)
        yield from _reload(info, cards)
    yield from _engine_settings(info)


def _toolkit(info: Mapping[str, Any], cards: Cards) -> Finding:
    """Whether a container gets its GPUs, by the way in which it will ask for them."""
    if _by_cdi(info, cards):
        return ok("toolkit", "there: Docker gives the GPUs by CDI")
    if "nvidia" in (info.get("Runtimes") or {}) or shutil.which(_HOOK) is not None:
        return ok("toolkit", "there")
    if cards.contained and cards.uuids:
        return ok("toolkit", "there: Docker gave this container its GPUs")
    if cards.contained:
        text = (
            "no sign of NVIDIA's container toolkit: Docker knows no GPUs, and the server's commands are not seen here"
        )
        return warning("toolkit", text, f"Where it is missing: {TOOLKIT_CURE}")
    if shutil.which(_TOOL) is not None:
        text = f"NVIDIA's container toolkit is there without {_HOOK}, and Docker does not know the GPUs by CDI"
        return failed("toolkit", text, f"Run: {CDI_CURE}")
    return failed("toolkit", "NVIDIA's container toolkit is missing", TOOLKIT_CURE)


def _cdi(info: Mapping[str, Any], cards: Cards) -> Finding:
    devices = cdi_devices(info)
    if _by_cdi(info, cards):
        return ok("cdi", f"{len(devices)} devices")
    if devices:
        text = "Docker knows CDI devices, and not each GPU by its UUID: GPUs are given by the older way"
        return warning("cdi", text, f"Run: {CDI_CURE} --device-name-strategy=uuid")
    return warning("cdi", "Docker knows no CDI devices: GPUs are given by the older way", TOOLKIT_CURE)


def _reload(info: Mapping[str, Any], cards: Cards) -> Iterator[Finding]:
    """systemd does not know devices that NVIDIA's hook adds to a running container, and resets its own rules."""
    if not _by_cdi(info, cards) and info.get("CgroupDriver") == "systemd":
        text = "systemctl daemon-reload, which installing packages does, too, takes the GPUs from running containers"
        yield warning("daemon-reload", text, f"Give them by CDI: {CDI_CURE}; until then, drain the server before it.")


def _by_cdi(info: Mapping[str, Any], cards: Cards) -> bool:
    """Whether containers ask by CDI; GPUs not seen from here are taken to be those that the Engine knows."""
    devices = cdi_devices(info)
    return bool(cdi_names(cards.uuids, devices) if cards.uuids else devices)


def _engine_settings(info: Mapping[str, Any]) -> Iterator[Finding]:
    version = str(info.get("CgroupVersion", "?"))
    text = f"version {version}, driver {info.get('CgroupDriver', '?')}"
    if version == "2":
        yield ok("cgroup", text)
    else:
        yield warning("cgroup", text, "Start the kernel with systemd.unified_cgroup_hierarchy=1 for version 2.")
    if info.get("LiveRestoreEnabled"):
        yield ok("live-restore", "on: containers outlive Docker's restart")
    else:
        cure = 'Put {"live-restore": true} into /etc/docker/daemon.json, then: systemctl reload docker'
        yield warning("live-restore", "off: a restart of Docker ends every task", cure)


def _address(options: Options) -> Finding:
    address, interface = job_address(options.address, options.interface)
    own = {one.address for all_of in psutil.net_if_addrs().values() for one in all_of}
    if address not in own:
        return failed("address", f"{address} is no address of this server", "Correct BERTH_NODE_ADDRESS.")
    if address.startswith("127."):
        cure = "Set BERTH_NODE_ADDRESS to one that the other servers reach."
        return warning("address", f"{address} on {interface}: tasks on other servers cannot reach it", cure)
    return ok("address", f"{address} on {interface}")


def _ports(options: Options) -> Finding:
    first, last = options.port_range
    text = f"{first}-{last}"
    taken = sorted(
        {one.laddr.port for one in psutil.net_connections("tcp") if one.laddr and one.status == psutil.CONN_LISTEN}
    )
    inside = [port for port in taken if first <= port <= last]
    low, high = (int(word) for word in _LOCAL_PORTS.read_text().split())
    if inside:
        named = ", ".join(map(str, inside[:5]))
        return warning("ports", f"{text}; in use: {named}", "End what listens there, or move BERTH_NODE_PORT_RANGE.")
    if first <= high and low <= last:
        cure = f"Move BERTH_NODE_PORT_RANGE out of {low}-{high}, from which the kernel takes ports for connections."
        return warning("ports", f"{text} overlaps the kernel's own", cure)
    return ok("ports", text)


def key_finding(options: Options) -> Finding:
    """Whether only its owner can read the server's key."""
    path = options.key_path
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return failed("key", f"{path}: {error.strerror}", "Run berth-node join URL TOKEN, or berth-node key.")
    if mode & 0o077:
        return failed("key", f"{path} can be read by others (mode {mode:04o})", f"Run: chmod 600 {path}")
    return ok("key", str(path))
