"""What the controllers of all attempts on this node share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.agent.attempts.journal import Journal, Record
from nodes.agent.clock import Clock
from nodes.agent.config.policy import Policy
from nodes.agent.disk.layer_limit import LayerLimit
from nodes.agent.logs.pipeline import LogPipeline
from nodes.agent.runtimes.base import Runtime
from nodes.agent.storage.background import BackgroundCalls
from nodes.agent.storage.code_cache import CodeCache
from nodes.protocol.messages import ContainerSpec, Mount

POLL_EVERY_S = 5.0
RETRY_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptContext:
    """The node's services, and callbacks into the supervisor."""

    runtime: Runtime
    logs: LogPipeline
    journal: Journal
    code: CodeCache
    policy: Policy
    clock: Clock
    background: BackgroundCalls
    lease_still_s: float
    shells: bool  # whether this node allows any
    layers: LayerLimit
    gpu_release_timeout_s: float  # how long processes may stay on GPUs once their container is gone
    spec: Callable[[str], ContainerSpec | None]  # by its hash
    seal: Callable[[bytes], str]  # encrypts for this node alone
    unseal: Callable[[str], bytes]
    gpu_faults: Callable[[tuple[str, ...]], tuple[str, ...]]  # what is wrong with these GPUs now
    gpu_conflict: Callable[[str, tuple[str, ...]], str | None]  # the live attempt that holds one of these GPUs
    processes_on_gpus: Callable[[Record], tuple[int, ...]]  # host pids of the attempt's container on its GPUs
    disk_full: Callable[[], bool]  # there is no room for anything new
    storage_available: Callable[[str], bool]  # the storage with this root answered of late
    guard_mount: Callable[[Mount], None]  # keeps setuid programs left in the mount from counting
    in_contact: Callable[[], bool]  # the portal cannot have given this node up
    mirrors: Callable[[], Mapping[str, str]]  # of image registries, by host
    changed: Callable[[bool], None]  # wakes the reporter; True when the portal waits for it
    on_removed: Callable[[str], None]  # forgets a removed attempt
