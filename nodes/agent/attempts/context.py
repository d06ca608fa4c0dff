"""What all controllers of a node share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.agent.attempts.journal import Journal, Record
from nodes.agent.clock import Clock
from nodes.agent.config.policy import Policy
from nodes.agent.disk.layer_limit import LayerRule
from nodes.agent.logs.pipeline import LogPipeline
from nodes.agent.runtimes.base import Runtime
from nodes.agent.storage.code_cache import CodeStore
from nodes.agent.storage.file_worker import Errands
from nodes.protocol.messages import ContainerSpec, Mount


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """``spec`` gives a spec by its hash; ``gpu_faults`` tells what is wrong with these GPUs now; ``conflict`` names
    the live attempt that holds one of them; ``left_on_gpus`` gives the processes (host pids) of the attempt's container
    that are on its GPUs, and ``gpus_waited_s`` says how long these are waited for once the container is gone;
    ``seal`` closes what this node alone is to read, ``unseal`` opens what was sealed to it; ``shells``: whether this
    node allows any; ``layers``:
    what a container may write into its own layer; ``full``: whether there is no room for anything new; ``answers``:
    whether the storage with this root did of late; ``guard`` keeps what a task leaves in a mount's storage from
    giving rights; ``in_touch``: whether the portal cannot have given this node up; ``mirrors``: of image registries,
    by host; ``changed`` tells the reporter, with True when the portal waits for it; ``gone`` forgets a removed
    attempt."""

    runtime: Runtime
    logs: LogPipeline
    journal: Journal
    code: CodeStore
    policy: Policy
    clock: Clock
    errands: Errands
    lease_still_s: float
    shells: bool
    spec: Callable[[str], ContainerSpec | None]
    seal: Callable[[bytes], str]
    unseal: Callable[[str], bytes]
    gpu_faults: Callable[[tuple[str, ...]], tuple[str, ...]]
    conflict: Callable[[str, tuple[str, ...]], str | None]
    left_on_gpus: Callable[[Record], tuple[int, ...]]
    gpus_waited_s: float
    layers: LayerRule
    full: Callable[[], bool]
    answers: Callable[[str], bool]
    guard: Callable[[Mount], None]
    in_touch: Callable[[], bool]
    mirrors: Callable[[], Mapping[str, str]]
    changed: Callable[[bool], None]
    gone: Callable[[str], None]
