"""One task attempt on this node: a thread that brings what is there to what is ordered.

Each step reads order, record and runtime anew and does the next thing. Any step may be repeated, and the agent may
die between any two; ``docs/decisions/agent-state.md`` has the order of steps and why.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import structlog

from nodes.agent.attempts.attempt_state import AttemptState
from nodes.agent.attempts.context import POLL_EVERY_S, RETRY_EVERY_S, AttemptContext
from nodes.agent.attempts.exit_cause import blames_nobody, exit_of, exit_of_fault, exit_unbegun
from nodes.agent.attempts.journal import Record, Stopping
from nodes.agent.attempts.log_drain import DRAIN_POLL_S, LogDrain
from nodes.agent.attempts.park_record import Step
from nodes.agent.attempts.parking import ParkingSteps
from nodes.agent.attempts.prepare import Preparation
from nodes.agent.attempts.secrets import with_secrets
from nodes.agent.attempts.stop import GRACE_S, Termination
from nodes.agent.attempts.task_files import TaskFiles
from nodes.agent.disk.layer_limit import LayerSize
from nodes.agent.runtimes.base import AttemptFailed, Cancelled, RuntimeContainer, RuntimeUnavailable, Status
from nodes.agent.runtimes.ssh import FORBIDDEN, SshSetup, ssh_note
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerReport, ContainerSpec, Exit, Order, Progress, Stop
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason, moves_forward

log = structlog.get_logger(__name__)

_PHASES = tuple(Phase)
GPUS_DENIED = (
    "its container may not open its GPUs any more, as after systemctl daemon-reload on its server: programs that hold "
    "them go on, new ones fail (Failed to initialize NVML); save what is done, and run it again"
)


class AttemptController:
    """Drives one attempt from its order to its removal, in a thread of its own. Others call its public methods."""

    def __init__(self, record: Record, context: AttemptContext) -> None:
        self._context = context
        self._state = AttemptState(record, context)
        self._order: Order | None = None
        self._layer: LayerSize | None = None
        self._peers: tuple[str, ...] = ()  # as written last
        self._gpus_denied = self._closed = False
        self._wake = threading.Event()
        self._ssh = SshSetup(record.attempt, context.runtime, self._wake.set)
        self._files = TaskFiles(context)
        self._log = LogDrain(record.attempt, context)
        self._termination = Termination(context, self._state.save)
        self._parking = ParkingSteps(context, self._state.save, self._wake.set)
        self._preparation = Preparation(context, self._state, self._is_cancelled, self._code_address)
        self._thread = threading.Thread(target=self._run, name=f"keep-{record.attempt}", daemon=True)

    @property
    def record(self) -> Record:
        return self._state.record

    @property
    def order(self) -> Order | None:
        return self._order

    def open(self) -> None:
        """Reads the attempt's log on, then starts the thread: no report shows less than an earlier one."""
        self._state.secrets.load(self.record, None)
        if self.record.started_ms is not None:
            self._log.attach(self._state.secrets.masks, self.record.steps)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; the container runs on."""
        self._closed = True
        self._wake.set()

    def join(self, timeout: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout)

    def give(self, order: Order) -> None:
        """Takes a new order. A phase never goes back, however late an order comes."""
        old = self._order
        self._order = order
        if old is None or order.archived != old.archived:
            self._context.logs.ack(order.attempt, order.archived)
        same = old is not None and _wants(old) == _wants(order)
        progress = self._state.progress
        if not same or (progress is not None and progress.code == "spec"):
            self._wake.set()

    def layer(self, taken: LayerSize) -> None:
        """Takes the number of bytes that the container has written into its own layer."""
        self._layer = taken
        if taken > self._context.layers.most:
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def report(self, generation: int) -> ContainerReport:
        return self._state.report(generation)

    def _run(self) -> None:
        delay: float | None = 0.0
        while delay is not None and not self._closed:
            self._wake.wait(delay)
            self._wake.clear()
            if not self._closed:
                delay = self._guarded_step()

    def _guarded_step(self) -> float | None:
        try:
            return self._step()
        except RuntimeUnavailable as unavailable:
            self._state.show(Progress(code="engine", message=str(unavailable)))
            return RETRY_EVERY_S
        except Exception:
            log.exception("step failed", attempt=self.record.attempt)
            return RETRY_EVERY_S

    def _step(self) -> float | None:
        """One look and one action. Seconds until the next look; None when the attempt is removed."""
        self._state.retry_write()
        self._take_phase()
        if self._order is not None:
            self._parking.take(self.record, self._order)
        self._state.secrets.load(self.record, self._spec())
        found = self._context.runtime.find(self.record.attempt)
        self._observe(found)
        record = self.record
        if found is not None and found.status is Status.ENDED and record.exit is None:
            return DRAIN_POLL_S
        if record.exit is not None and (found is None or found.status is not Status.RUNNING):
            self._state.save(self._termination.release_gpus(record))
            if self.record.gpus:
                return self._after_end(found)
        if record.phase is Phase.REMOVE and (record.exit is not None or found is None):
            self._remove()
            return None
        if record.exit is not None:
            return self._after_end(found)
        if record.stopping is not None:
            return self._stop(found)
        if found is not None and found.status is Status.RUNNING:
            return self._while_running(found)
        if self._order is None or record.phase in (Phase.STOP, Phase.REMOVE):
            return POLL_EVERY_S
        return self._advance(found, self._order)

    def _take_phase(self) -> None:
        """Moves the recorded phase forward to the ordered one, and records a stop before acting on it."""
        order, record = self._order, self.record
        if order is None or _PHASES.index(order.phase) <= _PHASES.index(record.phase):
            return
        stopping = record.stopping
        if order.phase in (Phase.STOP, Phase.REMOVE) and stopping is None and record.exit is None:
            stop = order.stop or Stop(reason=StopReason.USER, grace_s=GRACE_S if order.phase is Phase.STOP else 0)
            stopping = Stopping(
                reason=stop.reason,
                message=stop.message,
                grace_s=stop.grace_s,
                asked_ms=self._context.clock.now_ms(),
            )
        self._state.save(replace(record, phase=order.phase, stopping=stopping))

    # ------------------------------------------------------------ from the runtime to the record

    def _observe(self, found: RuntimeContainer | None) -> None:
        """Brings the record up to date with the runtime."""
        record = with_secrets(self._context, self.record, self._spec())
        if found is None:
            maybe_started = not moves_forward(record.state, ContainerState.STARTING)
            if record.container and record.exit is None and maybe_started:
                self._end(Exit(cause=Cause.VANISHED, message=wordings.CONTAINER_GONE()), None)
            return
        if not record.container:
            record = replace(record, gpus=found.gpus, digest=record.digest or found.digest)
        isolation = record.isolation or self._context.runtime.isolation
        record = replace(record, container=found.container, isolation=isolation)
        if found.status is not Status.CREATED:
            record = replace(record, started_ms=record.started_ms or found.started_ms)
            self._log.attach(self._state.secrets.masks, record.steps)
        if found.status is Status.RUNNING:
            record = replace(record.forward(ContainerState.RUNNING), boot=self._context.clock.boot())
        self._state.steps = self._files.steps(record)
        self._state.save(replace(record, checkpoint_ms=self._files.checkpoint_ms(record)))
        if found.status is Status.ENDED and record.exit is None and self._log.is_drained():
            self._end(self._exit(found, record), found.ended_ms)

    def _exit(self, found: RuntimeContainer, record: Record) -> Exit:
        """The exit with its cause; a program that failed on a GPU that turned sick meanwhile is not to blame."""
        rebooted = record.boot not in ("", self._context.clock.boot())
        exit = exit_of(found, record.stopping, rebooted=rebooted)
        faults = self._context.gpu_faults(record.gpus) if blames_nobody(exit) else ()
        news = [fault for fault in faults if fault not in record.gpu_faults]
        if news:
            return exit_of_fault(exit, news[0])
        if record.parking.step is not Step.HELD and (blames_nobody(exit) or exit.cause is Cause.OOM):
            return exit_of_fault(exit, wordings.PARK_BROKE())
        return exit_unbegun(exit, self._context.logs.status(record.attempt).tail)

    def _end(self, exit: Exit, ended_ms: int | None) -> None:
        exit, ended_ms = self._state.secrets.exit(exit), ended_ms or self._context.clock.now_ms()
        parking = replace(self.record.parking, step=Step.HELD)
        record = replace(self.record, exit=exit, ended_ms=ended_ms, parking=parking)
        if exit.cause is not Cause.UNKILLABLE:
            record = self._termination.release_gpus(record)
        self._state.progress = None
        self._state.save(record.forward(ContainerState.TERMINATED))

    def _after_end(self, found: RuntimeContainer | None) -> float:
        """Waits for the log's last line, and for processes that are left on its GPUs."""
        if self._termination.kill_survivor(self.record, found):
            return POLL_EVERY_S
        wait = self._log.finish(never_ran=found is None or found.status is Status.CREATED)
        if wait is not None:
            return wait
        return RETRY_EVERY_S if self.record.gpus else POLL_EVERY_S

    # ------------------------------------------------------------ towards running

    def _advance(self, found: RuntimeContainer | None, order: Order) -> float:
        spec = self._context.spec(order.spec_hash)
        if spec is None:
            self._state.show(Progress(code="spec", message="waiting for the order's details"))
            return POLL_EVERY_S
        try:
            if found is not None and not self._preparation.fits(found, spec, order.spec_hash):
                self._context.runtime.remove(spec.attempt)
                found = None
            if found is None:
                wait = self._preparation.prepare(spec, order.spec_hash)
                if wait:
                    return wait
            if self.record.phase is Phase.RUN and not self._is_cancelled() and not self._start(spec):
                return RETRY_EVERY_S
        except AttemptFailed as failed:
            self._end(Exit(cause=failed.cause, message=failed.message), None)
            return 0.0
        except Cancelled:
            return 0.0
        return POLL_EVERY_S if self._order is order else 0.0

    def _code_address(self) -> str | None:
        sealed = self._order.code if self._order else None
        return self._context.key.unseal(sealed).decode() if sealed else None

    def _start(self, spec: ContainerSpec) -> bool:
        """Starts the created container. False while the portal is out of contact: a node that was given up and does
        not know it would run the attempt beside the one that follows. STARTING is on disk before, so that nobody
        takes the attempt for never begun."""
        self._preparation.check(spec)
        self._preparation.folders(spec)
        # Last, for all before may take its time. And before the order is looked at once more: an answer counts as soon
        # as its orders are given.
        if not self._context.contact.holds():
            waits = "waits for the portal, which may have given this server up"
            self._state.show(Progress(code="portal", message=waits))
            return False
        if self._is_cancelled():
            return True
        self._state.progress = None
        self._state.save(replace(self.record, gpu_faults=self._context.gpu_faults(spec.gpus)))
        with self._context.claims:
            other = self._context.gpu_conflict(spec.attempt, spec.gpus)
            if other is not None:
                raise AttemptFailed(Cause.DEVICE_FAULT, wordings.GPU_HELD(other=other))
            self._state.move(ContainerState.STARTING)
        self._update_peers()
        self._observe(self._context.runtime.start(spec))
        self._update_ssh()
        return True

    def _spec(self) -> ContainerSpec | None:
        return self._context.spec(self._order.spec_hash) if self._order else None

    def _is_cancelled(self) -> bool:
        order = self._order
        return self._closed or order is None or order.phase in (Phase.STOP, Phase.REMOVE)

    # ------------------------------------------------------------ while it runs, and to its end

    def _while_running(self, found: RuntimeContainer) -> float:
        if found.gpus_denied and not self._gpus_denied:
            self._context.logs.note(self.record.attempt, GPUS_DENIED)
            log.warning("a container may not open its GPUs any more", attempt=self.record.attempt)
        self._gpus_denied = found.gpus_denied
        if found.paused or self._context.logs.status(self.record.attempt).frozen:
            self._files.lease_touch(self.record)
        self._update_peers()
        if not found.paused:
            self._update_ssh()
        if self._layer is not None:
            self._termination.layer(self.record, self._layer)
        wait = self._parking.look(self.record, found)
        return POLL_EVERY_S if wait is None else wait

    def _update_peers(self) -> None:
        """Tells a task of an elastic role which others there are now."""
        peers = self._order.peers if self._order else ()
        if peers and peers != self._peers:
            self._context.runtime.write_peers(self.record.attempt, "".join(f"{one}\n" for one in peers))
            self._peers = peers

    def _update_ssh(self) -> None:
        wanted = self._order.ssh if self._order else None
        if wanted is None or self.record.exit is not None:
            return
        opened = self.record.ssh is not None
        server = self._ssh.look(wanted, opened=opened) if self._context.shells else FORBIDDEN
        if server is not None and not opened:
            server = self._state.secrets.ssh(server)
            self._context.logs.note(self.record.attempt, ssh_note(wanted.port, server))
            self._state.save(replace(self.record, ssh=server))

    def _stop(self, found: RuntimeContainer | None) -> float:
        if found is not None and found.status is Status.RUNNING:
            wait = self._parking.look(self.record, found)
            if wait is not None:
                return wait
            if self._termination.kills_next(self.record) and self._parking.before_kill(self.record, found):
                return 0.0
        result = self._termination.stop(self.record, found)
        if isinstance(result, Exit):
            self._end(result, None)
            return 0.0
        return result

    def _remove(self) -> None:
        attempt = self.record.attempt
        self._context.runtime.remove(attempt)
        self._context.logs.remove(attempt)
        self._state.save(replace(self.record, removed_ms=self._context.clock.now_ms()))
        self._context.on_removed(attempt)


def _wants(order: Order) -> tuple[object, ...]:
    """What of an order is acted on at once."""
    return order.phase, order.spec_hash, order.ssh, order.turn, order.peers
