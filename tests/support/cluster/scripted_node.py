"""A node as the portal sees one: a key, signed reports, and the lists it is sent. No container behind it: what its
containers do is what a test says. Real messages through the portal's real door."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from nodes.protocol.envelope import Envelope, NodeKey, envelope_seal
from nodes.protocol.messages import (
    ContainerReport,
    ContainerSpec,
    Desired,
    Exit,
    GpuInfo,
    Inventory,
    Order,
    Report,
    decode,
    encode,
)
from nodes.protocol.parking import GpuState, GpuWish
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason
from portal.hardware.models import Node
from portal.hardware.services.nodes import node_add
from portal.joining.services.acceptance import node_accept
from portal.node_orders.services.desired import desired_build
from portal.scheduler.reports import report_take

DIGEST = "sha256:" + "ab" * 32
PARKED_MB = 20_000
"""Of GPU memory that each of its tasks has, and moves to the server's when it is parked."""


class ScriptedNode:
    """``containers``: what the node would report, by task attempt id; ``told``: what it said last, and of
    which list. ``accept``: what its first report says is accepted."""

    def __init__(
        self, name: str, *, gpus: int = 4, model: str = "NVIDIA A100", cpus: int = 32, root: str = "", key: str = "",
        accept: bool = True,
    ) -> None:  # fmt: skip
        self.name, self.key = name, NodeKey.load(key) if key else NodeKey.generate()
        self.containers: dict[str, ContainerReport] = {}
        self.boot, self.seq, self.generation = int(time.time() * 1000), 0, 0
        self.told: tuple[int, dict[str, ContainerReport]] = (0, {})
        self.inventory = Inventory(
            hostname=name, cpu_milli=cpus * 1000, memory_mb=cpus * 4096, simulated=True, address="127.0.0.1",
            interface="lo", runtime="docker", storages=(root,) if root else (),
            gpus=tuple(
                GpuInfo(uuid=f"GPU-{name}-{index}", index=index, model=model, memory_mb=80000) for index in range(gpus)
            ),
        )  # fmt: skip
        node_add(name=name, public_key=self.key.public, now=timezone.now(), accept=accept, cpu_tasks=accept)

    @property
    def row(self) -> Node:
        return Node.objects.get(name=self.name)

    def desired(self) -> Desired:
        """The list the portal has for this node now, as the node reads it."""
        desired = desired_build(node=self.row)
        self.generation = max(self.generation, desired.generation)
        return desired

    def spec(self, order: Order) -> ContainerSpec:
        assert order.spec is not None
        return decode(self.key.unseal(order.spec), ContainerSpec)

    def report_text(self, **changes: object) -> str:
        """The next signed report."""
        self.seq += 1
        self.told = self.generation, dict(self.containers)
        report = Report(
            cluster=settings.CLUSTER_NAME, node=self.name, boot=self.boot, seq=self.seq, generation=self.generation,
            sent_ms=int(time.time() * 1000), inventory=self.inventory, containers=tuple(self.containers.values()),
        )  # fmt: skip
        return self.sign(replace(report, **changes))  # type: ignore[arg-type]

    def sign(self, report: Report, *, sender: str | None = None) -> str:
        envelope = Envelope(
            sender=sender or self.name, to="portal", kind="report", expires_ms=report.sent_ms + 30_000,
            body=encode(report).decode(),
        )  # fmt: skip
        return envelope_seal(self.key, envelope)

    def report(self, *, now: datetime | None = None) -> bool:
        """Send what it has."""
        return report_take(text=self.report_text(), now=now or timezone.now())

    def accept(self) -> None:
        """An administrator accepts what it claims now, and it reports again."""
        node_accept(node=self.row, claims=None, actor="root", now=timezone.now())
        assert self.report()

    def obey(self, *, now: datetime | None = None) -> bool:
        """Carry the list out: what shall be prepared is prepared, what shall run runs, stops and removals are done, but
        of what is left on its GPUs. True when that changed anything; what would only say the same again is not
        sent."""
        before = self._states()
        for order in self.desired().orders:
            self.carry_out(order)
        if now or self.told != (self.generation, self.containers):
            self.report(now=now)
        return self._states() != before

    def _states(self) -> dict[str, tuple[ContainerState, GpuState]]:
        return {attempt: (container.state, container.gpu) for attempt, container in self.containers.items()}

    def carry_out(self, order: Order) -> None:
        if order.phase is Phase.PREPARE:
            self.set(order, ContainerState.PREPARED, digest=DIGEST)
        elif order.phase is Phase.RUN:
            parks = order.gpu is GpuWish.PARK
            gpu, mb = (GpuState.PARKED, PARKED_MB) if parks else (GpuState.HELD, 0)
            self.set(order, ContainerState.RUNNING, digest=DIGEST, turn=order.turn, gpu=gpu, parked_mb=mb)
        elif order.phase is Phase.STOP:
            reason = order.stop.reason if order.stop else StopReason.USER
            self.end(order, Exit(cause=Cause.STOPPED, code=143, stop_reason=reason))
        elif not self._left_on_gpus(order.attempt):
            self.containers.pop(order.attempt, None)

    def _left_on_gpus(self, attempt: str) -> bool:
        container = self.containers.get(attempt)
        return container is not None and container.state is ContainerState.TERMINATED and bool(container.gpus)

    def set(self, order: Order, state: ContainerState, **more: object) -> None:
        before, now_ms = self.containers.get(order.attempt), int(time.time() * 1000)
        if before and before.state is state:
            now_ms = before.started_ms or now_ms
        report = ContainerReport(
            attempt=order.attempt, state=state, spec_hash=order.spec_hash, generation=self.generation,
            started_ms=now_ms if state in {ContainerState.RUNNING, ContainerState.TERMINATED} else None,
        )  # fmt: skip
        self.containers[order.attempt] = replace(report, **more)  # type: ignore[arg-type]

    def end(self, order: Order, exit_: Exit) -> None:
        before = self.containers.get(order.attempt)
        ran = before is not None and before.started_ms is not None
        self.set(
            order, ContainerState.TERMINATED, exit=exit_, ended_ms=int(time.time() * 1000), log_complete=True,
            started_ms=before.started_ms if before and ran else None,
        )  # fmt: skip

    def finish(self, code: int = 0) -> None:
        """Every running container's program ends with this status."""
        for order in self.desired().orders:
            if order.phase is Phase.RUN:
                self.end(order, Exit(cause=Cause.EXITED, code=code))
        self.report()
