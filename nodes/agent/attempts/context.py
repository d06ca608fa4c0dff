"""What the controllers of all attempts on this node share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.agent.attempts.journal import Journal, Record
from nodes.agent.clock import Clock
from nodes.agent.config.policy import Policy
from nodes.agent.contact import Contact
from nodes.agent.disk.layer_limit import LayerLimit
from nodes.agent.hardware.gpus.base import GpuUse
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.logs.pipeline import LogPipeline
from nodes.agent.runtimes.base import Runtime
from nodes.agent.storage.background import BackgroundCalls
from nodes.agent.storage.code_cache import CodeCache
from nodes.protocol.envelope import NodeKey, PortalKey
from nodes.protocol.messages import ContainerSpec, Mount

POLL_EVERY_S = 5.0
RETRY_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class NodeServices:
    """What the agent's other parts offer to attempts."""

    key: NodeKey
    runtime: Runtime
    logs: LogPipeline
    journal: Journal
    code: CodeCache
    policy: Policy
    clock: Clock
    contact: Contact
    lease_still_s: float
    shells: bool  # whether this node allows any
    layers: LayerLimit
    suspension: Suspension
    gpu_release_timeout_s: float  # how long processes may stay on GPUs once their container is gone
    disk_full: Callable[[], bool]  # there is no room for anything new
    storage_available: Callable[[str], bool]  # the storage with this root answered of late
    guard_mount: Callable[[Mount], None]  # keeps setuid programs left in the mount from counting
    changed: Callable[[bool], None]  # wakes the reporter; True when the portal waits for it

    def seal(self, data: bytes) -> str:
        """Encrypts for this node alone."""
        return PortalKey.seal_for(self.key.public, data)


@dataclass(frozen=True, kw_only=True)
class AttemptContext(NodeServices):
    """The node's services, and what the supervisor knows of all attempts."""

    background: BackgroundCalls
    spec: Callable[[str], ContainerSpec | None]  # by its hash
    gpu_faults: Callable[[tuple[str, ...]], tuple[str, ...]]  # what is wrong with these GPUs now
    gpu_conflict: Callable[[str, tuple[str, ...]], str | None]  # the live attempt that holds one of these GPUs
    gpu_use: Callable[[str], GpuUse | None]
    claims: threading.Lock  # held while a GPU or memory for parking is found free, until that is recorded
    park_room_mb: Callable[[str], int]  # memory of the server that is left for parking this attempt
    processes_on_gpus: Callable[[Record], tuple[int, ...]]  # host pids of the attempt's container on its GPUs
    mirrors: Callable[[], Mapping[str, str]]  # of image registries, by host
    on_removed: Callable[[str], None]  # forgets a removed attempt
