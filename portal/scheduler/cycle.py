"""The scheduler and its cycle: read, plan, apply. Events make it fast, this makes it right."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise

from django.conf import settings
from prometheus_client import Counter, Histogram

from portal.common.failpoint import failpoint, failpoint_statements
from portal.common.wake import scheduler_flag_clear
from portal.hardware.services.silence import nodes_lose
from portal.queue.outlook import queue_keep
from portal.scheduler.apply import Applied, apply
from portal.scheduler.collecting import Collector
from portal.scheduler.lease import holder_new, lease_release, lease_take
from portal.scheduler.ports import PortShortages
from portal.scheduler.reconcile import jobs_reconcile
from portal.scheduler.snapshot import Loaded, SnapshotReader
from portal.scheduler.time_limits import TimeLimits
from portal.teams.services.quotas import quota_changes_apply
from scheduling import Engine, Plan, Snapshot
from scheduling.cycle.gc_pause import paused

log = logging.getLogger(__name__)

MANY_WAIT = 1_000
TOLD_EVERY_S = 0.9
"""With this many jobs waiting, reasons and queue positions are computed at most this often (a little less than a tick),
though cycles follow each other faster: they are half of the work, and nobody reads faster. The next tick makes up for
it."""

STEPS = ("reconcile", "load", "restore", "plan", "apply")
DECISIONS = ("started", "preempted", "promoted", "demoted", "skipped")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CYCLE_SECONDS = Histogram("berth_scheduler_cycle_seconds", "Duration of a scheduling cycle", buckets=SECONDS)
STEP_SECONDS = Histogram("berth_scheduler_step_seconds", "Duration of its steps", ["step"], buckets=SECONDS)
DECIDED = Counter("berth_scheduler_decisions_total", "Decisions carried out, or skipped as overtaken", ["what"])
UNTOLD = Counter("berth_scheduler_untold_total", "Cycles that started jobs but failed to work out why others wait")


@dataclass(frozen=True, slots=True)
class Cycle:
    """Outcome of one cycle; durations in ms."""

    applied: Applied
    reconcile_ms: float
    load_ms: float
    restore_ms: float
    plan_ms: float
    apply_ms: float


class Scheduler:
    """Runs scheduling cycles, and owns what is kept from one to the next. Rows are the truth: what is kept saves work,
    and any scheduler may be replaced by a new one at any time."""

    def __init__(self, holder: str = "") -> None:
        self._named = holder
        self.engine: Engine | None = None  # of the last cycle, while none runs
        self.snapshots = SnapshotReader()
        self.time_limits = TimeLimits()
        self.ports = PortShortages()
        self.garbage = Collector()
        self.told_at = -TOLD_EVERY_S  # when reasons were last computed

    @cached_property
    def holder(self) -> str:
        """Of the lease. Chosen at the first cycle: a process that is forked before has a name of its own."""
        return self._named or holder_new()

    def cycle(self, *, now: datetime) -> Cycle | None:
        """Runs one cycle. None while another scheduler holds the lease. Killed at any point, nothing is lost."""
        # 1. One scheduler works at a time; correctness does not depend on it.
        if not lease_take(holder=self.holder, now=now, seconds=settings.LEASE_SECONDS):
            return None
        well = False
        try:
            with paused():
                cycle = self._cycle(now)
            well = cycle.applied.well
            return cycle
        finally:
            lease_release(holder=self.holder, now=now, well=well)

    def _cycle(self, now: datetime) -> Cycle:
        # 2. A change from here on requests another cycle.
        scheduler_flag_clear()
        # 3. Redo what a lost message or a killed process left undone.
        times = [time.perf_counter()]
        nodes_lose(now=now)
        quota_changes_apply(now=now)
        jobs_reconcile(now=now)
        self.time_limits.enforce(now=now)
        failpoint("cycle.reconciled")
        # 4. Read one consistent snapshot, plan with no transaction open, apply decision by decision.
        times.append(time.perf_counter())
        loaded = self.snapshots.load(now=now, ports=self.ports.current(now=now))
        times.append(time.perf_counter())
        engine = self._engine(loaded.snapshot)
        times.append(time.perf_counter())
        engine, plan, told = _planned(engine, loaded, now, self._tells(len(loaded.snapshot.waiting)))
        times.append(time.perf_counter())
        failpoint("cycle.planned")
        with failpoint_statements("apply"):
            applied = apply(plan=plan, loaded=loaded, ports=self.ports, now=now)
        # 5. Queue positions, for the pages.
        if told:
            queue_keep(
                ((loaded.jobs[wait.job.id], wait.place) for wait in plan.waits),
                reserved=[loaded.jobs[job] for job in plan.reservations],
            )
        self.engine = engine
        times.append(time.perf_counter())
        took = [end - begin for begin, end in pairwise(times)]
        _count(applied, took)
        return Cycle(applied, *(seconds * 1000 for seconds in took))

    def _engine(self, snapshot: Snapshot) -> Engine:
        """The last cycle's engine, if that cycle was completed; else a new one."""
        engine, self.engine = self.engine, None
        if engine is None:
            return Engine.restore(snapshot)
        engine.follow(snapshot)
        return engine

    def _tells(self, waiting: int) -> bool:
        """Whether this cycle computes reasons: always while few jobs wait."""
        now = time.monotonic()
        if waiting >= MANY_WAIT and now - self.told_at < TOLD_EVERY_S:
            return False
        self.told_at = now
        return True


def _planned(engine: Engine, loaded: Loaded, now: datetime, told: bool) -> tuple[Engine, Plan, bool]:
    """The plan, the engine that made it, and whether it has reasons for waiting jobs.

    Reasons are for people: if computing one fails, jobs start all the same, by an engine rebuilt from the rows, since
    the state of the other one is unknown.
    """
    at_ms = int(now.timestamp() * 1000)
    if told:
        try:
            return engine, engine.plan(at_ms), True
        except Exception:
            log.exception("Why jobs wait could not be worked out: jobs start, and the reasons shown stay as they were")
            UNTOLD.inc()
            engine = Engine.restore(loaded.snapshot)
    return engine, engine.plan(at_ms, with_reasons=False), False


def _count(applied: Applied, took: Sequence[float]) -> None:
    for step, seconds in zip(STEPS, took, strict=True):
        STEP_SECONDS.labels(step).observe(seconds)
    CYCLE_SECONDS.observe(sum(took))
    for what in DECISIONS:
        DECIDED.labels(what).inc(getattr(applied, what))
