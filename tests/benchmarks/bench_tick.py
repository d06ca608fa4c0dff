"""The scheduler's tick on PostgreSQL, printed beside the goals: `python -m tests.benchmarks.bench_tick [tick|kueue]`.

The whole cycle is timed, from taking the lease to giving it back: reading rows, restoring the engine, planning, writing
rows and sending the nodes their orders. What nodes and users do meanwhile is not. Python's collector of garbage works
between ticks and is told of beside them. Nothing here is asserted.
"""

import os
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from django.utils import timezone

from tests.benchmarks.big_cluster import Shape, Submitter, Wish, database, ended, nodes_make, placed_run, teams_make
from tests.benchmarks.machine import machine_told, process_cpu

if TYPE_CHECKING:
    from portal.scheduler.cycle import Cycle, Scheduler

TICKS = 30
EIGHT_TEAMS = [f"team{number}" for number in range(8)]
SHAPES = [Shape(gpus, tasks) for gpus in (1, 2, 3, 4, 6, 8) for tasks in (1, 2, 4, 8, 16)]
FULL = {8: 800, 4: 200, 2: 392, 1: 208}
"""GPUs of a job -> jobs: 1,600 that fill 8,192 GPUs."""

QUEUES = [f"queue{number:02}" for number in range(30)]
STEP_MS = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of Kueue's jobs: so many in each queue, one each ``every_ms``, which run ``runs_ms``."""

    gpus: int
    count: int
    every_ms: int
    runs_ms: int
    priority: int


KUEUE = (Kind(1, 350, 100, 200, 50), Kind(5, 100, 500, 500, 100), Kind(20, 50, 1200, 1000, 200))


class Times:
    """What each part of the ticks took, in ms."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler
        self.parts: dict[str, list[float]] = defaultdict(list)

    def tick(self) -> "Cycle":
        begin, cpu, behind = perf_counter(), process_time(), self._database_cpu()
        done = self.scheduler.cycle(now=timezone.now())
        assert done is not None
        self.parts["tick"].append((perf_counter() - begin) * 1000)
        self.parts["of which CPU of this process"].append((process_time() - cpu) * 1000)
        self.parts["of which CPU of PostgreSQL's"].append((self._database_cpu() - behind) * 1000)
        for name in ("reconcile", "load", "restore", "plan", "apply"):
            self.parts[name].append(getattr(done, f"{name}_ms"))
        begin = perf_counter()
        self.scheduler.garbage.collect()
        self.parts["garbage, after the tick"].append((perf_counter() - begin) * 1000)
        return done

    @staticmethod
    def _database_cpu() -> float:
        """Of the one process of PostgreSQL that works for this one."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return process_cpu(cursor.fetchone()[0])

    def told(self) -> None:
        for name, times in self.parts.items():
            print(f"    {name:<29} p50 {median(times):6.0f} ms   p99 {quantiles(times, n=100)[98]:6.0f} ms")


def full_cluster(scheduler: "Scheduler", waiting: int) -> None:
    """1,024 nodes x 8 GPUs of 8 teams, all taken by 1,600 jobs, and so many jobs of thirty shapes that wait."""
    rng = random.Random(11)
    submitter = Submitter()
    small = [Shape(gpus) for gpus, count in FULL.items() for _ in range(count)]
    submitter.submit(a_wish(number, shape, 10) for number, shape in enumerate(small))
    times = Times(scheduler)
    started = times.tick().applied.started
    print(f"  {started} jobs started in one tick: {times.parts['tick'][0] / started:.1f} ms each", flush=True)
    placed_run()
    submitter.submit(a_wish(number, rng.choice(SHAPES), rng.choice([0, 5, 10])) for number in range(waiting))


def a_wish(number: int, shape: Shape, priority: int) -> Wish:
    team = EIGHT_TEAMS[number % len(EIGHT_TEAMS)]
    return Wish(team, f"{team}-{number % 5}", priority, shape)


def ticks(scheduler: "Scheduler", words: str, *, end: int) -> None:
    """Ticks of which each finds so many jobs ended since the last, and as many new ones."""
    from portal.jobs.models import Job

    rng, submitter, times = random.Random(5), Submitter(), Times(scheduler)
    started = reasons = 0
    for number in range(TICKS):
        running = sorted(Job.objects.filter(state="running").values_list("pk", flat=True))
        ended(rng.sample(running, end))
        submitter.submit(a_wish(number + one, Shape(rng.choice([1, 2, 4, 8])), 10) for one in range(end))
        done = times.tick().applied
        started, reasons = started + done.started, reasons + done.reasons
        placed_run()
    print(f"  {words} ({started} starts and {reasons} reasons written in {TICKS} ticks)")
    times.told()
    sys.stdout.flush()


def tick() -> None:
    with database():
        from portal.scheduler.cycle import Scheduler

        scheduler = Scheduler()
        teams_make(EIGHT_TEAMS, users=5)
        nodes_make(1024, 8, EIGHT_TEAMS)
        print("one tick with 10,000 waiting and 1,600 running jobs on 8,192 GPUs, PostgreSQL; goal p99 < 300 ms")
        full_cluster(scheduler, 10_000)
        first = Times(scheduler)
        first.tick()
        print(f"  the first, which reads every job anew: {first.parts['tick'][0]:.0f} ms", flush=True)
        ticks(scheduler, "nothing has changed", end=0)
        ticks(scheduler, "4 jobs ended, 4 came", end=4)


class KueueRun:
    """Kueue's baseline in its own time: jobs come and run as long as there, a tick each 200 ms of it."""

    def __init__(self, part: int) -> None:
        from portal.scheduler.cycle import Scheduler

        self.submitter, self.times = Submitter(), Times(Scheduler())
        self.ends: dict[int, int] = {}  # job -> when it ends
        self.admitted = self.preempted = self.step = 0
        self.coming = sorted(
            (number * kind.every_ms, place, kind)
            for place, kind in enumerate(KUEUE)
            for number in range(kind.count // part)
        )
        self.jobs = len(self.coming) * len(QUEUES)

    def run(self) -> None:
        while self.admitted - self.preempted < self.jobs or self.ends:
            now = self.step * STEP_MS
            self._come(now)
            over = [job for job, end in self.ends.items() if end <= now]
            ended(over)
            for job in over:
                del self.ends[job]
            self.admitted += self.times.tick().applied.started
            self._leave(now)
            placed_run()
            self.step += 1

    def _come(self, now: int) -> None:
        come = [kind for at, _, kind in self.coming if at <= now]
        del self.coming[: len(come)]
        self.submitter.submit(
            Wish(queue, f"{queue}-0", kind.priority, Shape(kind.gpus, borrow="auto"))
            for kind in come
            for queue in QUEUES
        )

    def _leave(self, now: int) -> None:
        """Who was preempted waits again; who was started has its end before it."""
        from portal.jobs.models import Job, JobAttempt

        victims = list(JobAttempt.objects.filter(state="ending").values_list("job", flat=True))
        ended(victims, again=True)
        self.preempted += len(victims)
        for job in victims:
            self.ends.pop(job, None)
        runs = {kind.priority: kind.runs_ms for kind in KUEUE}
        for job, priority in Job.objects.filter(state="starting").values_list("id", "priority"):
            self.ends[job] = now + runs[priority]


def kueue(part: int) -> None:
    with database():
        teams_make(QUEUES, users=1)
        nodes_make(30, 20, QUEUES)
        made = KueueRun(part)
        made.run()
        names = ("tick", "of which CPU of this process", "of which CPU of PostgreSQL's")
        seconds, own, behind = (sum(made.times.parts[name]) / 1000 for name in names)
        print(f"{made.jobs:,} jobs, 5 groups x 6 queues, borrowing and preemption, through PostgreSQL")
        print(f"  ours      {made.admitted / seconds:,.0f} admissions/s, as Kueue counts those after a preemption too")
        print(f"            ({made.step} ticks, {made.preempted} preempted, {seconds:.1f} s in the scheduler)")
        print(f"            CPU of one core for each: {1000 * own / made.admitted:.2f} ms of its process, "
              f"{1000 * behind / made.admitted:.2f} ms of PostgreSQL's")  # fmt: skip
        unit = machine_told()
        print(f"            {made.admitted / (own + behind) * unit:,.0f} admitted in the CPU time of these additions")
        made.times.told()
        print("  reference Kueue: 42.7 admissions/s through its API server; goal > 300/s")


def main(arguments: Sequence[str]) -> None:
    """Each case in a process of its own, since Django is set up once; ``kueue 10`` is a tenth of its jobs."""
    if not arguments:
        for case in ("tick", "kueue"):
            os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "tests.benchmarks.bench_tick", case])
        return
    machine_told()
    if arguments[0] == "tick":
        tick()
    else:
        kueue(int(arguments[1]) if len(arguments) > 1 else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
