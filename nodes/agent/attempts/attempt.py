"""One task attempt on this node: a thread that closes the difference between what is wanted and what is there.

Every step looks at the order, the record and the runtime anew and does the next thing; any step may be repeated,
and the agent may die between any two. What the order of things is, and why: ``docs/decisions/agent-state.md``.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import structlog

from nodes.agent.attempts.context import World
from nodes.agent.attempts.exit_cause import blames_nobody, exit_of, exit_of_fault, exit_unbegun
from nodes.agent.attempts.journal import Record, Stopping
from nodes.agent.attempts.log_secrets import Hiding, hidden_noted
from nodes.agent.attempts.prepare import Preparing, body_of
from nodes.agent.attempts.stop import GRACE_S, Halting
from nodes.agent.attempts.task_files import TaskFiles
from nodes.agent.disk.layer_limit import Measured
from nodes.agent.log_throttle import LogThrottle
from nodes.agent.runtimes.base import Cancelled, Failed, Found, RuntimeAway, Status
from nodes.agent.runtimes.ssh import FORBIDDEN, SshCare, ssh_note
from nodes.agent.write_error import cannot_write
from nodes.protocol.messages import ContainerReport, ContainerSpec, Exit, Order, Progress, Stop
from nodes.protocol.states import Cause, ContainerState, Phase, StopReason, moves_forward, reached

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 5.0
AWAY_EVERY_S = 1.0
LOG_READ_WITHIN_S = 1.0
_LOG_END_EVERY_S = 0.02
_PHASES = tuple(Phase)
GPUS_DENIED = (
    "its container may not open its GPUs any more, as after systemctl daemon-reload on its server: programs that hold "
    "them go on, new ones fail (Failed to initialize NVML); save what is done, and run it again"
)


class AttemptController:
    """Keeps one attempt. ``give`` and ``report`` are called by others; all else runs in its own thread."""

    def __init__(self, record: Record, world: World) -> None:
        self._record = record
        self._world = world
        self._order: Order | None = None
        self._progress: Progress | None = None
        self._log_complete = False
        self._ended_at: float | None = None
        self._layer: Measured | None = None
        self._unwritten = self._gpus_denied = False
        self._log_trouble = LogThrottle(world.clock.monotonic)
        self._wake = threading.Event()
        self._ssh = SshCare(record.attempt, world.runtime, self._wake.set)
        self._files = TaskFiles(world)
        self._hiding = Hiding(world)
        self._halting = Halting(world, self._save)
        self._preparing = Preparing(world, self._show, self._unwanted, self._code_address)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"keep-{record.attempt}", daemon=True)

    # ------------------------------------------------------------ from other threads

    @property
    def record(self) -> Record:
        return self._record

    @property
    def order(self) -> Order | None:
        return self._order

    def open(self) -> None:
        """Goes on with the attempt's log, then starts the thread: no report shows less than an earlier one."""
        self._hiding.learn(self._record, None)
        if self._record.started_ms is not None:
            self._follow()
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; the container runs on."""
        self._closed = True
        self._wake.set()

    def join(self, timeout: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout)

    def give(self, order: Order) -> None:
        """Takes a new order. A phase never goes back, whatever is late in coming."""
        old = self._order
        self._order = order
        if old is None or order.archived != old.archived:
            self._world.logs.ack(order.attempt, order.archived)
        same = old is not None and (old.phase, old.spec_hash, old.ssh) == (order.phase, order.spec_hash, order.ssh)
        if not same or self._progress_is("spec"):
            self._wake.set()

    def layer(self, taken: Measured) -> None:
        """Bytes that the container has written into its own layer."""
        self._layer = taken
        if taken > self._world.layers.most:
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def report(self, generation: int) -> ContainerReport:
        """The attempt as it stands now."""
        record, status = self._record, self._world.logs.status(self._record.attempt)
        return replace(
            record.report(generation),
            exit=replace(record.exit, log_tail=status.tail) if record.exit else None,
            log_end=status.end,
            log_complete=record.exit is not None and status.complete,
            log_dropped_lines=status.dropped_lines,
            progress=self._progress,
        )

    def holds(self) -> tuple[str, ...]:
        """GPUs that the attempt's container holds now: from its creation until its last process is gone, or is told of
        as nobody's."""
        return self._record.gpus

    # ------------------------------------------------------------ the loop

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
        except RuntimeAway as away:
            self._show(Progress(code="engine", message=away.message))
            return AWAY_EVERY_S
        except Exception:
            log.exception("step failed", attempt=self._record.attempt)
            return AWAY_EVERY_S

    def _step(self) -> float | None:
        """One look and one thing done. Seconds until the next look; None when the attempt is removed."""
        if self._unwritten:
            self._save(self._record)
        self._take_phase()
        self._hiding.learn(self._record, self._spec())
        found = self._world.runtime.find(self._record.attempt)
        self._observe(found)
        record = self._record
        if found is not None and found.status is Status.ENDED and record.exit is None:
            return _LOG_END_EVERY_S
        if record.exit is not None and _is_gone(found):
            self._save(self._halting.freed(record))
            if self._record.gpus:
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
            return LOOK_EVERY_S
        return self._advance(found, self._order)

    def _take_phase(self) -> None:
        """Moves the recorded phase forward to the ordered one, and records a stop before anything is done for it."""
        order, record = self._order, self._record
        if order is None or _PHASES.index(order.phase) <= _PHASES.index(record.phase):
            return
        stopping = record.stopping
        if order.phase in (Phase.STOP, Phase.REMOVE) and stopping is None and record.exit is None:
            stop = order.stop or Stop(reason=StopReason.USER, grace_s=GRACE_S if order.phase is Phase.STOP else 0)
            stopping = Stopping(
                reason=stop.reason,
                message=stop.message,
                grace_s=stop.grace_s,
                asked_ms=self._world.clock.now_ms(),
            )
        self._save(replace(record, phase=order.phase, stopping=stopping))

    # ------------------------------------------------------------ what the runtime shows

    def _observe(self, found: Found | None) -> None:
        """Brings the record up to what the runtime has."""
        record = hidden_noted(self._world, self._record, self._spec())
        if found is None:
            maybe_started = not moves_forward(record.state, ContainerState.STARTING)
            if record.container and record.exit is None and maybe_started:
                self._end(Exit(cause=Cause.VANISHED, message="its container is gone without our doing"), None)
            return
        if not record.container:
            record = replace(record, gpus=found.gpus, digest=record.digest or found.digest)
        isolation = record.isolation or self._world.runtime.isolation
        record = replace(record, container=found.container, isolation=isolation)
        if found.status is not Status.CREATED:
            record = replace(record, started_ms=record.started_ms or found.started_ms)
            self._follow()
        if found.status is Status.RUNNING:
            record = replace(record.forward(ContainerState.RUNNING), boot=self._world.clock.boot())
        self._save(replace(record, checkpoint_ms=self._files.checkpoint_ms(record)))
        if found.status is Status.ENDED and record.exit is None and self._log_is_read():
            self._end(self._exit(found, record), found.ended_ms)

    def _follow(self) -> None:
        """Has the log read on, once it is known what it hides. Where its spool cannot be opened nothing else waits for
        that, and each look tries it."""
        attempt = self._record.attempt
        try:
            if self._hiding.masks is not None:
                self._world.logs.attach(attempt, self._world.runtime.source(attempt), self._hiding.masks)
            self._log_trouble.over()
        except Exception as error:
            why = cannot_write(error, Path("the log's spool")) if isinstance(error, OSError) else repr(error)
            if self._log_trouble.new(why):
                log.error("the log is not read", attempt=attempt, reason=why)

    def _exit(self, found: Found, record: Record) -> Exit:
        """How it ended; a program that failed on a GPU that turned sick meanwhile is not to blame."""
        rebooted = record.boot not in ("", self._world.clock.boot())
        exit = exit_of(found, record.stopping, rebooted=rebooted)
        faults = self._world.gpu_faults(record.gpus) if blames_nobody(exit) else ()
        news = [fault for fault in faults if fault not in record.gpu_faults]
        if news:
            return exit_of_fault(exit, news[0])
        return exit_unbegun(exit, self._world.logs.status(record.attempt).tail)

    def _log_is_read(self) -> bool:
        """Whether an end may be told: the last lines go before it, unless they are too long in coming."""
        status = self._world.logs.status(self._record.attempt)
        return not self._ended_just_now() or (status.complete and status.sent)

    def _ended_just_now(self) -> bool:
        """Whether its end was seen within the time in which its last lines come, as a rule."""
        now = self._world.clock.monotonic()
        self._ended_at = now if self._ended_at is None else self._ended_at
        return 0 <= now - self._ended_at < LOG_READ_WITHIN_S

    def _end(self, exit: Exit, ended_ms: int | None) -> None:
        record = replace(self._record, exit=self._hiding.exit(exit), ended_ms=ended_ms or self._world.clock.now_ms())
        if exit.cause is not Cause.UNKILLABLE:
            record = self._halting.freed(record)
        self._progress = None
        self._save(record.forward(ContainerState.TERMINATED))

    def _after_end(self, found: Found | None) -> float:
        """Waits for the log's end, which the reporter is told at once, and for what is left of it on its GPUs."""
        record = self._record
        if self._halting.kill_again(record, found):
            return LOOK_EVERY_S
        if found is None or found.status is Status.CREATED:
            self._world.logs.finish(record.attempt)
        if not self._world.logs.status(record.attempt).complete:
            return _LOG_END_EVERY_S if self._ended_just_now() else AWAY_EVERY_S
        if not self._log_complete:
            self._log_complete = True
            self._world.changed(True)
        return AWAY_EVERY_S if record.gpus else LOOK_EVERY_S

    # ------------------------------------------------------------ towards running

    def _advance(self, found: Found | None, order: Order) -> float:
        spec = self._world.spec(order.spec_hash)
        if spec is None:
            self._show(Progress(code="spec", message="waiting for the order's details"))
            return LOOK_EVERY_S
        try:
            if found is not None and not self._fits(found, spec, order.spec_hash):
                self._world.runtime.remove(spec.attempt)
                found = None
            if found is None:
                wait = self._prepare(spec, order.spec_hash)
                if wait:
                    return wait
            if self._record.phase is Phase.RUN and not self._unwanted() and not self._start(spec):
                return AWAY_EVERY_S
        except Failed as failed:
            self._end(Exit(cause=failed.cause, message=failed.message), None)
            return 0.0
        except Cancelled:
            return 0.0
        return LOOK_EVERY_S if self._order is order else 0.0

    def _fits(self, found: Found, spec: ContainerSpec, spec_hash: str) -> bool:
        """True when a created container is the one that the spec describes; takes the spec's hash over then."""
        if found.spec_hash != spec_hash:
            same = self._record.body == body_of(spec) and spec.digest in (None, self._record.digest)
            if not same:
                return False
        self._save(self._preparing.noted(spec, spec_hash, self._record).forward(ContainerState.PREPARED))
        return True

    def _prepare(self, spec: ContainerSpec, spec_hash: str) -> float:
        """Seconds to wait first, 0 when the container is there."""
        wait = self._preparing.wait(spec)
        if wait:
            return wait
        self._move(ContainerState.PULLING)
        record = self._preparing.made(spec, spec_hash, self._record)
        if record is None:
            return AWAY_EVERY_S
        self._progress = None
        self._save(record.forward(ContainerState.PREPARED))
        return 0.0

    def _code_address(self) -> str | None:
        sealed = self._order.code if self._order else None
        return self._world.unseal(sealed).decode() if sealed else None

    def _start(self, spec: ContainerSpec) -> bool:
        """Starts the created container; False where it waits for the portal: on a node that was given up and does not
        know, it would run beside the attempt that follows. STARTING is on the disk before, so that nobody takes it for
        never begun."""
        other = self._world.conflict(spec.attempt, spec.gpus)
        if other is not None:
            raise Failed(Cause.DEVICE_FAULT, f"a GPU of this task is still held by {other}")
        self._preparing.check(spec)
        self._preparing.folders(spec)
        # Last, for all before may take its time. And before the order is looked at once more: an answer counts as soon
        # as its orders are given.
        if not self._world.in_touch():
            self._show(Progress(code="portal", message="waits for the portal, which may have given this server up"))
            return False
        if self._unwanted():
            return True
        self._progress = None
        self._save(replace(self._record, gpu_faults=self._world.gpu_faults(spec.gpus)))
        self._move(ContainerState.STARTING)
        self._observe(self._world.runtime.start(spec))
        self._look_after_ssh()
        return True

    def _spec(self) -> ContainerSpec | None:
        return self._world.spec(self._order.spec_hash) if self._order else None

    def _unwanted(self) -> bool:
        order = self._order
        return self._closed or order is None or order.phase in (Phase.STOP, Phase.REMOVE)

    # ------------------------------------------------------------ while it runs, and to its end

    def _while_running(self, found: Found) -> float:
        if found.gpus_denied and not self._gpus_denied:
            self._world.logs.note(self._record.attempt, GPUS_DENIED)
            log.warning("a container may not open its GPUs any more", attempt=self._record.attempt)
        self._gpus_denied = found.gpus_denied
        if self._world.logs.status(self._record.attempt).frozen:
            self._files.lease_touch(self._record)
        self._look_after_ssh()
        if self._layer is not None:
            self._halting.layer(self._record, self._layer)
        return LOOK_EVERY_S

    def _look_after_ssh(self) -> None:
        wanted = self._order.ssh if self._order else None
        if wanted is None or self._record.exit is not None:
            return
        opened = self._record.ssh is not None
        told = self._ssh.look(wanted, opened=opened) if self._world.shells else FORBIDDEN
        if told is not None and not opened:
            told = self._hiding.ssh(told)
            self._world.logs.note(self._record.attempt, ssh_note(wanted.port, told))
            self._save(replace(self._record, ssh=told))

    def _stop(self, found: Found | None) -> float:
        told = self._halting.stop(self._record, found)
        if isinstance(told, Exit):
            self._end(told, None)
            return 0.0
        return told

    def _remove(self) -> None:
        attempt = self._record.attempt
        self._world.runtime.remove(attempt)
        self._world.logs.remove(attempt)
        self._save(replace(self._record, removed_ms=self._world.clock.now_ms()))
        self._world.gone(attempt)

    # ------------------------------------------------------------ the record

    def _move(self, state: ContainerState) -> None:
        self._save(self._record.forward(state))

    def _save(self, record: Record) -> None:
        if record == self._record and not self._unwritten:
            return
        self._write(record)
        old, self._record = self._record, record
        if record != old:
            self._world.changed(record.state is not old.state and record.is_awaited)

    def _write(self, record: Record) -> None:
        """On a full disk what runs is looked after, stopped and told all the same, in memory: a signal sent twice by a
        restarted agent is better than none. What is yet to be started waits, and so does a tombstone."""
        try:
            self._world.journal.write(record)
            self._unwritten = False
        except OSError as error:
            begun = record.stopping is not None or reached(record.state, ContainerState.RUNNING)
            if not begun or record.removed_ms is not None:
                raise
            if not self._unwritten:
                why = cannot_write(error, Path(f"the record of {record.attempt}"))
                log.warning("a record is kept in memory alone", attempt=record.attempt, reason=why)
            self._unwritten = True

    def _show(self, progress: Progress) -> None:
        progress = self._hiding.progress(progress)
        if progress != self._progress:
            self._progress = progress
            self._world.changed(False)

    def _progress_is(self, code: str) -> bool:
        return self._progress is not None and self._progress.code == code


def _is_gone(found: Found | None) -> bool:
    """Whether nothing of it runs, as far as the runtime knows."""
    return found is None or found.status is not Status.RUNNING
