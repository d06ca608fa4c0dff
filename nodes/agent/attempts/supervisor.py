"""Supervisor of all attempts on this node: takes lists of orders, keeps one controller per attempt, builds the view for
reports.

Level-triggered: a list replaces the one before, and whatever was missed is found again in the runtime's own listing,
which is read every few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import structlog

from nodes.agent.attempts.attempt import AttemptController
from nodes.agent.attempts.context import POLL_EVERY_S, AttemptContext, NodeServices
from nodes.agent.attempts.journal import Record, attempt_is_safe
from nodes.agent.disk.layer_limit import LayerSize
from nodes.agent.hardware.gpus.base import GpuBackend
from nodes.agent.hardware.machine import Machine
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import RuntimeContainer, RuntimeUnavailable, Status
from nodes.agent.runtimes.engine_watch import EngineWatch
from nodes.agent.storage.background import BackgroundCalls
from nodes.protocol import wordings
from nodes.protocol.envelope import EnvelopeForged
from nodes.protocol.messages import ContainerReport, ContainerSpec, Desired, Exit, Order, decode, spec_digest
from nodes.protocol.states import Cause, ContainerState, Phase, reached

log = structlog.get_logger(__name__)

_CLOSE_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All attempts at one moment. Every state in it was read after ``generation`` had been taken in."""

    generation: int
    answers: int  # the newest report that a list answered, maybe of an earlier boot
    containers: tuple[ContainerReport, ...]
    specs_known: tuple[str, ...]


class Supervisor:
    """Runs one thread of its own and one per attempt; ``take`` and ``view`` may be called from any."""

    def __init__(
        self,
        *,
        cluster: str,
        node: str,
        gpus: GpuBackend,
        machine: Machine,
        services: NodeServices,
    ) -> None:
        self._cluster, self._node, self._gpus, self._machine = cluster, node, gpus, machine
        self._key, self._runtime, self._journal = services.key, services.runtime, services.journal
        self._clock, self._contact, self._changed = services.clock, services.contact, services.changed
        self._background, self._engine = BackgroundCalls(), EngineWatch(services.clock)
        self._lock = threading.RLock()
        self._controllers: dict[str, AttemptController] = {}
        self._removed: dict[str, Record] = {}
        self._specs: dict[str, ContainerSpec] = {}
        self._generation = self._answers = 0
        self._mirrors: Mapping[str, str] = {}
        self._ready = False
        self._waiting: Desired | None = None
        self._throttle = LogThrottle(services.clock.monotonic)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._context = AttemptContext(
            **vars(services),
            background=self._background,
            spec=self._specs.get,
            gpu_faults=self._gpu_faults,
            gpu_conflict=self._gpu_conflict,
            gpu_use=self._gpus.use,
            claims=threading.Lock(),
            park_room_mb=self._park_room_mb,
            processes_on_gpus=self._processes_on_gpus,
            mirrors=lambda: self._mirrors,
            on_removed=self._on_removed,
        )

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends all threads. Every container runs on."""
        self._closed.set()
        with self._lock:
            controllers = list(self._controllers.values())
        for controller in controllers:
            controller.close()
        deadline = self._clock.monotonic() + _CLOSE_WITHIN_S
        for controller in controllers:
            controller.join(max(0.0, deadline - self._clock.monotonic()))
        self._background.close()

    def take(self, desired: Desired) -> None:
        """Takes a list of orders, unless a newer one was seen. Returns at once."""
        if (desired.cluster, desired.node) != (self._cluster, self._node):
            log.warning("a list for another node", cluster=desired.cluster, node=desired.node)
            return
        with self._lock:
            if not self._ready:
                if self._waiting is None or desired.generation >= self._waiting.generation:
                    self._waiting = desired
                return
            if desired.generation < self._generation:
                return
            absent, self._removed = self._removed, {}
            for order in desired.orders:
                self._take_order(order)
            news = self._removed.keys() - absent.keys()
            self._generation = desired.generation
            self._mirrors = desired.mirrors
            self._answers = desired.answers or self._answers
            # After its orders were given: who then finds the portal in touch finds what it wants now.
            self._contact.answered(desired.answers, lost_after_s=desired.node_lost_after_s)
        self._changed_if_new(desired)
        if news:
            self._changed(True)

    def view(self) -> View:
        with self._lock:
            generation, answers = self._generation, self._answers
            controllers, absent = list(self._controllers.values()), list(self._removed.values())
            specs = tuple(sorted(self._specs))
        there = (controller.report(generation) for controller in controllers)
        return View(
            generation=generation,
            answers=answers,
            containers=(*there, *(_report_removed(record, generation) for record in absent)),
            specs_known=specs,
        )

    def images(self) -> set[str]:
        """Names and digests of the images that live orders name."""
        with self._lock:
            controllers, specs = list(self._controllers.values()), list(self._specs.values())
        digests = {controller.record.digest for controller in controllers if controller.record.exit is None}
        pinned = {f"{spec.image}@{spec.digest}" for spec in specs if spec.digest}
        return {spec.image for spec in specs} | pinned | {digest for digest in digests if digest}

    def ports(self) -> set[int]:
        """Host ports that the node's tasks hold."""
        with self._lock:
            return {port for spec in self._specs.values() for ports in spec.ports.values() for port in ports}

    def engine_away(self) -> str:
        """Why the runtime has carried out nothing for a while; empty otherwise, also of an agent just started."""
        return self._engine.away()

    def park_mb(self) -> int:
        """Memory for parked tasks in all: what the limits of the node's tasks leave of the server's."""
        with self._lock:
            promised = sum(spec.limits.memory_mb for spec in self._specs.values())
        return self._context.suspension.room_mb(promised)

    def layer_graces(self) -> dict[str, int]:
        """When the grace period of each task warned of its layer ends, unix ms."""
        with self._lock:
            warned = {attempt: controller.record.layer_warned_ms for attempt, controller in self._controllers.items()}
        grace_ms = int(self._context.layers.grace_s * 1000)
        return {attempt: at_ms + grace_ms for attempt, at_ms in warned.items() if at_ms is not None}

    def layers(self, taken: Mapping[str, LayerSize]) -> None:
        """Passes each controller the size of its container's own layer."""
        with self._lock:
            controllers = {attempt: self._controllers.get(attempt) for attempt in taken}
        for attempt, controller in controllers.items():
            if controller is not None:
                controller.layer(taken[attempt])

    def wake(self, attempt: str) -> None:
        """Makes one controller look at once."""
        with self._lock:
            controller = self._controllers.get(attempt)
        if controller is not None:
            controller.wake()

    # ------------------------------------------------------------ orders

    def _take_order(self, order: Order) -> None:
        if not attempt_is_safe(order.attempt):
            log.warning("an order with an impossible id")
            return
        controller = self._controllers.get(order.attempt)
        if controller is None:
            record = self._journal.read(order.attempt)
            finished = record if record is not None and record.removed_ms is not None else None
            if record is None and order.phase in (Phase.PREPARE, Phase.RUN) and self._may_have_run(order):
                finished = self._lost_record(order)
            if finished is not None:
                if order.phase is not Phase.REMOVE:
                    self._removed[order.attempt] = finished
                return
            self._load_spec(order)
            fresh = Record(attempt=order.attempt, spec_hash=order.spec_hash, phase=Phase.PREPARE)
            self._start_controller(record or fresh, order)
            return
        self._load_spec(order)
        controller.give(order)

    def _may_have_run(self, order: Order) -> bool:
        """Whether an attempt without a readable record may have run: the portal has seen it begin, or its record cannot
        be read."""
        return order.begun or self._journal.has(order.attempt)

    def _lost_record(self, order: Order) -> Record:
        """The record of an attempt that once ran here and of which neither journal nor runtime knows: the server was
        set up anew, its disk lost the record, or the portal was restored to an earlier state."""
        return Record(
            attempt=order.attempt,
            spec_hash=order.spec_hash,
            phase=order.phase,
            state=ContainerState.TERMINATED,
            ended_ms=self._clock.now_ms(),
            exit=Exit(cause=Cause.VANISHED, message=wordings.UNKNOWN_HERE()),
        )

    def _load_spec(self, order: Order) -> None:
        """Opens a sealed spec and keeps it in memory, never elsewhere."""
        if order.spec is None or order.spec_hash in self._specs:
            return
        try:
            encoded = self._key.unseal(order.spec)
            spec = decode(encoded, ContainerSpec)
        except (EnvelopeForged, msgspec.MsgspecError) as error:
            log.warning("an order's details cannot be read", attempt=order.attempt, error=type(error).__name__)
            return
        if spec_digest(encoded) != order.spec_hash or spec.attempt != order.attempt:
            log.warning("an order's details are not those it names", attempt=order.attempt)
            return
        self._specs[order.spec_hash] = self._machine.held_to(spec)

    def _changed_if_new(self, desired: Desired) -> None:
        """Answers a list that was sent early soon, so that the portal knows it arrived."""
        if desired.answers == 0:
            self._changed(False)

    # ------------------------------------------------------------ controllers

    def _start_controller(self, record: Record, order: Order | None = None) -> None:
        """Starts a controller; the order is set before its first look, which then does the first step."""
        controller = AttemptController(record, self._context)
        if order is not None:
            controller.give(order)
        controller.open()
        self._controllers[record.attempt] = controller

    def _on_removed(self, attempt: str) -> None:
        with self._lock:
            self._controllers.pop(attempt, None)
            wanted = {k.order.spec_hash for k in self._controllers.values() if k.order is not None}
            for spec_hash in self._specs.keys() - wanted:
                del self._specs[spec_hash]
        self._changed(False)

    def _gpu_conflict(self, attempt: str, gpus: tuple[str, ...]) -> str | None:
        """Another attempt that holds one of the GPUs; of two prepared for the same, the first keeps it."""
        with self._lock:
            others = [k for k in self._controllers.values() if k.record.attempt != attempt]
        live = (k for k in others if reached(k.record.state, ContainerState.STARTING))
        return next((k.record.attempt for k in live if set(k.record.gpus_held) & set(gpus)), None)

    def _park_room_mb(self, attempt: str) -> int:
        with self._lock:
            others = [k.record.parking for k in self._controllers.values() if k.record.attempt != attempt]
        return self.park_mb() - sum(parking.parked_mb for parking in others)

    def _gpu_faults(self, gpus: tuple[str, ...]) -> tuple[str, ...]:
        if not gpus:
            return ()
        return tuple(
            f"GPU {one.index}: {one.fault}" for one in self._gpus.inventory() if one.fault and one.uuid in gpus
        )

    def _processes_on_gpus(self, record: Record) -> tuple[int, ...]:
        pids = {pid for uuid in record.gpus for pid in self._gpus.holders(uuid)}
        return tuple(sorted(pid for pid in pids if self._runtime.belongs(pid, record.container)))

    # ------------------------------------------------------------ the loop

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._reconcile()
            except RuntimeUnavailable as away:
                if self._throttle.new(str(away)):
                    log.warning("the runtime does not answer", error=str(away))
            except Exception:
                log.exception("pass failed")
            self._closed.wait(POLL_EVERY_S if self._ready else 1.0)

    def _reconcile(self) -> None:
        """Compares the runtime's listing with the controllers; the first time, restores what an earlier agent left."""
        with self._engine.asked():
            found = self._runtime.found()
        if self._throttle.over():
            log.info("the runtime answers again")
        with self._lock:
            if not self._ready:
                self._restore()
            for container in found.values():
                if container.attempt not in self._controllers and attempt_is_safe(container.attempt):
                    self._adopt(container)
            live = [k for k in self._controllers.values() if k.record.exit is None]
            first, self._ready = not self._ready, True
            waiting, self._waiting = self._waiting, None
        if first:
            self._runtime.watch(self.wake)
            self._sweep_logs()
        if waiting is not None:
            self.take(waiting)
        for controller in live:
            controller.wake()
        self._journal.forget_old(self._clock.now_ms())

    def _sweep_logs(self) -> None:
        with self._lock:
            known = set(self._controllers)
        removed = {record.attempt for record in self._journal.records() if record.removed_ms is not None}
        self._context.logs.sweep(known=known, removed=removed)

    def _restore(self) -> None:
        """Starts controllers for all records. Failures are raised once all others are started; the next pass
        retries."""
        failures: list[Exception] = []
        for record in self._journal.records():
            if record.removed_ms is None and record.attempt not in self._controllers:
                try:
                    self._start_controller(record)
                except Exception as error:
                    failures.append(error)
        if failures:
            raise ExceptionGroup("some attempts cannot be kept", failures)

    def _adopt(self, container: RuntimeContainer) -> None:
        """Adopts a container without a record: it keeps running and is reported."""
        buried = self._journal.read(container.attempt)
        if buried is not None and buried.removed_ms is not None:
            self._start_controller(replace(buried, removed_ms=None))
            return
        phase = Phase.PREPARE if container.status is Status.CREATED else Phase.RUN
        state = ContainerState.PREPARED if container.status is Status.CREATED else ContainerState.STARTING
        record = Record(attempt=container.attempt, spec_hash=container.spec_hash, phase=phase, state=state)
        log.info("took up a container without a record", attempt=container.attempt)
        self._start_controller(record)


def _report_removed(record: Record, generation: int) -> ContainerReport:
    """Of an attempt that the portal wants and that is over here and removed: how it ended, and that no more comes."""
    report = record.report(generation)
    return replace(report, state=ContainerState.TERMINATED, gpus=(), ssh=None, log_complete=True)
