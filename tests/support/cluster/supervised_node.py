"""A supervisor as tests have it: over many lives of an agent, with a runtime in memory and a clock to be put on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodes.agent.attempts.context import NodeServices
from nodes.agent.attempts.journal import Journal
from nodes.agent.attempts.supervisor import Supervisor
from nodes.agent.clock import SystemClock
from nodes.agent.config.policy import Policy
from nodes.agent.contact import Contact
from nodes.agent.disk.layer_limit import LayerLimit
from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.gpus.choice import backend_from
from nodes.agent.hardware.gpus.simulated import SimulatedBackend
from nodes.agent.hardware.gpus.suspension import Suspension
from nodes.agent.hardware.machine import Machine
from nodes.agent.logs.pipeline import LogPipeline
from nodes.agent.storage.code_cache import CodeCache
from nodes.protocol.envelope import NodeKey, PortalKey
from nodes.protocol.messages import (
    ContainerReport,
    ContainerSpec,
    Desired,
    GpuInfo,
    Mount,
    Order,
    Stop,
    encode,
    spec_digest,
)
from nodes.protocol.states import ContainerState, Phase, StopReason
from tests.support.cluster.memory_runtime import MemoryRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.run.waiting import wait_until

KEY = NodeKey.generate()
GPUS_WAITED_S = 45
NO_REDIS = "redis://127.0.0.1:1/0"
NOW = Stop(reason=StopReason.USER, grace_s=0)
SPECS = [spec_of("true", attempt=f"a-{number}") for number in range(3)]


@dataclass
class ShiftedClock(SystemClock):
    """The machine's clock, which a test may put forward; and how often the machine was started."""

    ahead_s: float = 0.0
    starts: int = 1

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s

    def boot(self) -> str:
        return f"boot {self.starts}"


@dataclass
class Node:
    """The state folder and the runtime of one node; each `life` is one start of its agent."""

    folder: Path
    runtime: MemoryRuntime = field(default_factory=MemoryRuntime)
    clock: ShiftedClock = field(default_factory=ShiftedClock)
    policy: Policy = field(default_factory=Policy)
    layers: LayerLimit = field(default_factory=lambda: LayerLimit(1 << 30, 600))
    full: bool = False
    redis_url: str = NO_REDIS
    away: set[str] = field(default_factory=set)
    guard: Callable[[Mount], None] = lambda mount: None
    journal: Callable[[Path], Journal] = Journal
    gpus: GpuBackend = field(default_factory=lambda: backend_from("simulated:4xA100-80GB", node="gpu01", held=dict))
    allowed_mb: int | None = None
    contact: Contact = field(init=False)
    suspension: Suspension = field(init=False)

    @contextmanager
    def life(self) -> Iterator[Supervisor]:
        """One life of the agent, whose first report is under way."""
        self.contact = Contact(self.clock)
        self.contact.sent(1)
        self.suspension = Suspension(self.gpus, self.runtime, self.allowed_mb)
        logs = LogPipeline(folder=self.folder / "logs", node="gpu01", key=KEY, redis_url=self.redis_url)
        supervisor = Supervisor(
            cluster="berth",
            node="gpu01",
            gpus=self.gpus,
            machine=Machine(),
            services=NodeServices(
                key=KEY,
                runtime=self.runtime,
                logs=logs,
                journal=self.journal(self.folder / "attempts"),
                code=CodeCache(self.folder / "code", 1 << 30),
                policy=self.policy,
                clock=self.clock,
                contact=self.contact,
                suspension=self.suspension,
                lease_still_s=0,
                gpu_release_timeout_s=GPUS_WAITED_S,
                shells=True,
                layers=self.layers,
                disk_full=lambda: self.full,
                storage_available=lambda root: root not in self.away,
                guard_mount=self.guard,
                changed=lambda at_once: None,
            ),
        )
        supervisor.open()
        try:
            yield supervisor
        finally:
            supervisor.close()
            logs.close()


class SickBackend(SimulatedBackend):
    """Declared GPUs of which the first says what is wrong with it."""

    fault = ""

    def inventory(self) -> tuple[GpuInfo, ...]:
        first, *others = super().inventory()
        return (replace(first, fault=self.fault, healthy=not self.fault), *others)


def order(spec: ContainerSpec, phase: Phase, stop: Stop | None = NOW) -> Order:
    sealed = PortalKey.seal_for(KEY.public, encode(spec))
    return Order(
        attempt=spec.attempt,
        phase=phase,
        spec_hash=spec_digest(encode(spec)),
        since=1,
        spec=sealed,
        stop=stop,
        archived=0,
    )


def desired(generation: int, *orders: Order, answers: int = 1) -> Desired:
    """A list of orders, if not told otherwise in answer to the first report of the agent's life."""
    return Desired(cluster="berth", node="gpu01", generation=generation, orders=orders, answers=answers)


def shown(supervisor: Supervisor, attempt: str) -> ContainerReport | None:
    return next((c for c in supervisor.view().containers if c.attempt == attempt), None)


def wait_for(supervisor: Supervisor, spec: ContainerSpec, what: Callable[[ContainerReport], object]) -> ContainerReport:
    def answer() -> ContainerReport | None:
        report = shown(supervisor, spec.attempt)
        return report if report is not None and what(report) else None

    return wait_until(answer, spec.attempt, every_s=0.005)


def soon(supervisor: Supervisor, spec: ContainerSpec, what: Callable[[ContainerReport], object]) -> ContainerReport:
    """Waits for what the next looks will show, and has them made."""

    def answer() -> ContainerReport | None:
        supervisor.wake(spec.attempt)
        report = shown(supervisor, spec.attempt)
        return report if report is not None and what(report) else None

    return wait_until(answer, spec.attempt, every_s=0.05)


def in_state(state: ContainerState) -> Callable[[ContainerReport], bool]:
    return lambda report: report.state is state
