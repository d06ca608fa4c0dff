"""The engine's speed, printed beside the reference figures: `python -m tests.benchmarks.bench_engine`.

A job's time is `decide` plus `start` with the engine warm. Times are of the processor, so that what else runs on the
machine matters little. Nothing here is asserted.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from statistics import mean, quantiles
from time import process_time
from typing import TypeVar

from scheduling import (
    COMPILED,
    Borrow,
    CellType,
    Cluster,
    Engine,
    Job,
    Leaf,
    Node,
    Order,
    Policy,
    QuotaLine,
    Role,
    Snapshot,
    Start,
    VirtualCluster,
    all_tasks,
)

T = TypeVar("T")
Figure = tuple[float, str]
"""What was measured, in seconds, and all that is told of it."""
TIMES = 5
TEAMS = [f"team{number}" for number in range(8)]


LEVELS = (
    CellType("A100-pair", "A100", 2),
    CellType("A100-quad", "A100-pair", 2),
    CellType("A100-node8", "A100-quad", 2, node_level=True),
)


def machines(count: int, teams: list[str] = TEAMS) -> Cluster:
    """Equal nodes of 8 GPUs in pairs and quads, shared out among the teams as whole nodes."""
    nodes = tuple(
        Node(
            f"gpu{number:04}", 96_000, 1_048_576,
            tuple(Leaf(f"gpu{number:04}:{index}", f"gpu{number:04}", index, "A100") for index in range(8)),
            sku="A100", shape="A100-node8",
        )
        for number in range(count)
    )  # fmt: skip
    shares = [count // len(teams) + (number < count % len(teams)) for number in range(len(teams))]
    owners = tuple(
        VirtualCluster(team, (QuotaLine("A100-node8", share),)) for team, share in zip(teams, shares, strict=True)
    )
    return Cluster(nodes, owners, cell_types=LEVELS)


def a_job(
    number: int, gpus: int, *, tasks: int = 1, priority: int = 10, team: str = "", borrow: Borrow = Borrow.NEVER
) -> Job:
    """A gang of equal tasks; every fourth job has a little more CPU, so that shapes differ."""
    roles = (Role("worker", tasks, gpus, 1000 * gpus + 500 * (number % 4), 4096 * gpus, "A100"),)
    team = team or TEAMS[number % len(TEAMS)]
    return Job(f"j{number:05}", team, "alice", priority, roles, number, number, all_tasks(roles), borrow=borrow)


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """The answer and the seconds it took."""
    begin = process_time()
    answer = action()
    return answer, process_time() - begin


def place_to_ninety_percent(nodes: int) -> Figure:
    """1, 2, 4 and 8 GPU jobs, one after the other, until nine tenths of the GPUs are taken."""
    described, build_cluster = timed(lambda: machines(nodes))
    engine, build = timed(lambda: Engine(described))
    rng = random.Random(7)
    taken, number, waits, times = 0, 0, 0, []
    while taken < nodes * 8 * 9 // 10:
        number += 1
        one = a_job(number, rng.choice([1, 2, 4, 8]))
        begin = process_time()
        answer = engine.decide(one, number)
        if isinstance(answer, Start):
            engine.start(answer)
        times.append(process_time() - begin)
        waits += not isinstance(answer, Start)
        taken += one.roles[0].gpus if isinstance(answer, Start) else 0
    p99 = quantiles(times, n=100)[98]
    return mean(times), (
        f"{mean(times) * 1e3:.3f} ms mean, {p99 * 1e3:.3f} ms p99 a job ({len(times)} jobs, {waits} waits); "
        f"build {build_cluster + build:.2f} s"
    )


def full_state(nodes: int, waiting: int, running: int = 120) -> Snapshot:
    """Every GPU taken by 8-GPU jobs of the priority `running`; waiting jobs of thirty shapes and five priorities."""
    engine = Engine(machines(nodes))
    for number in range(nodes):
        start = engine.decide(a_job(number, 8, priority=running), 0)
        assert isinstance(start, Start)
        engine.start(start)
    rng = random.Random(11)
    shapes = [(gpus, tasks) for gpus in (1, 2, 3, 4, 6, 8) for tasks in (1, 2, 4, 8, 16)]
    queue = []
    for number in range(waiting):
        gpus, tasks = rng.choice(shapes)
        queue.append(a_job(10_000 + number, gpus, tasks=tasks, priority=rng.choice([0, 10, 50, 100, 120])))
    return replace(engine.snapshot(), waiting=tuple(queue))


def full_pass(state: Snapshot) -> Figure:
    """A pass with a reason for everybody, right after a restore (as in a tick) and again."""
    engine, restore = timed(lambda: Engine.restore(state))
    plan, cold = timed(lambda: engine.plan(0))
    _, warm = timed(lambda: engine.plan(0))
    _, untold = timed(lambda: engine.advance(0))
    return warm, (
        f"{warm * 1e3:.0f} ms ({cold * 1e3:.0f} ms the first, {untold * 1e3:.0f} ms without reasons; "
        f"restore {restore * 1e3:.0f} ms; {len(plan.answers)} answers, {len(plan.waits)} waits)"
    )


def one_free_node(nodes: int, waiting: int) -> Figure:
    """The same with one job ended: the heads of the queues look for room."""
    state = full_state(nodes, waiting)
    gone = state.running[nodes // 2]
    engine = Engine.restore(replace(state, running=tuple(one for one in state.running if one != gone)))
    plan, first = timed(lambda: engine.plan(0))
    return first, f"{first * 1e3:.0f} ms ({len(plan.starts)} starts, {len(plan.waits)} waits)"


def fragmented(nodes: int) -> Figure:
    """Two GPUs idle on every node, and a gang of sixteen 4-GPU tasks: refused by what is free, not by quota."""
    engine = Engine(machines(nodes))
    for number in range(nodes):
        start = engine.decide(a_job(number, 6), 0)
        assert isinstance(start, Start)
        engine.start(start)
    _, took = timed(lambda: engine.decide(a_job(nodes, 4, tasks=16), 0))
    return took, f"{took * 1e3:.1f} ms for the answer and its reason"


def settled(engine: Engine, now: int) -> tuple[int, int]:
    """Plans carried out, victims gone at once, until nothing moves: starts and preemptions."""
    starts = preemptions = 0
    while True:
        plan = engine.advance(now)
        starts += len(plan.starts)
        preemptions += len(plan.preemptions)
        for name in {victim.job for preemption in plan.preemptions for victim in preemption.victims}:
            engine.finish(name)
        if not plan.answers:
            return starts, preemptions


def reclaim() -> Figure:
    """4,000 opportunistic 1-GPU jobs run everywhere; 4,000 guaranteed ones want their quota."""
    engine = Engine(machines(500))
    for number in range(4000):
        engine.submit(a_job(number, 1, priority=-1))
    settled(engine, 0)
    for number in range(4000):
        engine.submit(a_job(10_000 + number, 1))
    (starts, preemptions), took = timed(lambda: settled(engine, 1000))
    return took, f"{took:.2f} s until all run ({starts} starts, {preemptions} preemptions)"


def elastic(nodes: int, jobs: int) -> Figure:
    """Elastic jobs of 2 to 8 one-GPU tasks grow until nothing idles; then opportunistic jobs want their GPUs."""
    engine, roles = Engine(machines(nodes)), (Role("worker", 8, 1, 1000, 4096, "A100", least=2),)
    for number in range(jobs):
        team = TEAMS[number % len(TEAMS)]
        engine.submit(Job(f"j{number:05}", team, "alice", 10, roles, number, number, all_tasks(roles)))
    engine.advance(0)
    grown, growth = timed(lambda: engine.advance(1))
    _, quiet = timed(lambda: engine.advance(2))
    for number in range(100):
        engine.submit(a_job(20_000 + number, 1 + number % 8, tasks=1 + number % 4, priority=-1))
    shrunk, took = timed(lambda: engine.advance(3))
    tasks = sum(len(one.placements) for one in grown.starts)
    return took, (
        f"{growth * 1e3:.0f} ms ({tasks} tasks of {len(grown.starts)} jobs), "
        f"{quiet * 1e3:.1f} ms when nothing changes, {took * 1e3:.0f} ms when {len(shrunk.preemptions)} of 100 "
        "opportunistic jobs get GPUs of extra tasks"
    )


@dataclass(frozen=True)
class Class:
    """Kueue's classes of jobs: how many each queue gets, one every so many ms, of what size and length."""

    count: int
    every_ms: int
    runs_ms: int
    gpus: int
    priority: int


KUEUE = (Class(350, 100, 200, 1, 50), Class(100, 500, 500, 5, 100), Class(50, 1200, 1000, 20, 200))


def cohorts() -> Cluster:
    """5 groups of 6 queues of 20 GPUs each; what a group's queues leave idle is lent inside the group."""
    nodes, owners = [], []
    for group in range(5):
        sku = f"SKU{group}"
        for number in range(6):
            name = f"n{group}{number}"
            leaves = tuple(Leaf(f"{name}:{index}", name, index, sku) for index in range(20))
            nodes.append(Node(name, 96_000, 1_048_576, leaves, sku=sku))
            owners.append(VirtualCluster(f"queue{group}{number}", (QuotaLine(sku, 20),)))
    return Cluster(tuple(nodes), tuple(owners), policy=Policy(order=Order.SUBMISSION, backfill=False))


class Kueue:
    """Kueue's baseline played in its own time: jobs come, run, are preempted and wait again, until all are done."""

    def __init__(self) -> None:
        self.engine = Engine(cohorts())
        self.admitted = self.preempted = self.borrowed = 0
        self._runs: dict[str, int] = {}
        self._events: list[tuple[int, int, int, str]] = []
        self._jobs: dict[str, Job] = {}
        self._since: dict[str, int] = {}
        for vc in self.engine.snapshot().cluster.virtual_clusters:
            for kind in KUEUE:
                for number in range(kind.count):
                    self._add(vc, kind, number * kind.every_ms)

    def _add(self, vc: VirtualCluster, kind: Class, at: int) -> None:
        number = len(self._jobs)
        roles = (Role("worker", 1, kind.gpus, 1000 * kind.gpus, 1024 * kind.gpus, vc.quota[0].cell_type),)
        name = f"k{number:05}"
        self._jobs[name] = Job(
            name, vc.id, "alice", kind.priority, roles, at, number, all_tasks(roles), borrow=Borrow.AUTO
        )
        self._runs[name] = kind.runs_ms
        heappush(self._events, (at, 1, 0, name))

    def run(self) -> None:
        """All of it: of one moment first the ends, then the submissions, then passes until nothing moves."""
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, comes, since, name = heappop(self._events)
                if comes:
                    self.engine.submit(self._jobs[name])
                elif self._since.get(name) == since:
                    del self._since[name]
                    self.engine.finish(name)
            while self._pass(now):
                pass

    def _pass(self, now: int) -> bool:
        plan = self.engine.advance(now)
        for start in plan.starts:
            name = start.job.id
            self.admitted += 1
            self.borrowed += start.placements[0].leaves[0].virtual_cell is None
            self._since[name] = self.admitted
            heappush(self._events, (now + self._runs[name], 0, self.admitted, name))
        for name in {victim.job for preemption in plan.preemptions for victim in preemption.victims}:
            self.preempted += 1
            del self._since[name]
            self.engine.finish(name)
            self.engine.submit(self._jobs[name])
        return bool(plan.answers)


def kueue() -> Figure:
    """Every admission counts, those after a preemption as well, as Kueue counts them."""
    played = Kueue()
    _, took = timed(played.run)
    return took, (
        f"{played.admitted / took:,.0f} admissions/s ({played.admitted} admitted, {played.borrowed} of them on loan, "
        f"{played.preempted} preempted, {took:.1f} s)"
    )


HIVED = "HiveD's Go code with cell levels: {}; goal {}"

ROWS: tuple[tuple[str, Callable[[], Figure], str], ...] = (
    (
        "place 1-8 GPU jobs to 90 % of 1,024 x 8 GPUs, 8 teams",
        partial(place_to_ninety_percent, 1024),
        HIVED.format("0.41 ms mean, 1.4 ms p99, build 1.2 s", "0.10 ms mean, build < 0.3 s"),
    ),
    (
        "place 1-8 GPU jobs to 90 % of 2,048 x 8 GPUs, 8 teams",
        partial(place_to_ninety_percent, 2048),
        HIVED.format("0.66 ms mean, build 7.9 s", "0.12 ms mean, build < 0.7 s"),
    ),
    (
        "reclaim: 4,000 running opportunistic 1-GPU jobs, 4,000 pending guaranteed, 500 nodes x 8",
        reclaim,
        "KAI-Scheduler reports 165.6 s; goal < 1 s",
    ),
    (
        "a pass with 10,000 waiting jobs of 30 shapes and 5 priorities on a full 8,192-GPU cluster",
        lambda: full_pass(full_state(1024, 10_000)),
        "none; goal < 50 ms",
    ),
    (
        "the same where all that runs is of low priority: the pass preempts everybody",
        lambda: full_pass(full_state(1024, 10_000, running=10)),
        "none",
    ),
    ("the same with one node free", lambda: one_free_node(1024, 10_000), "none"),
    ("a gang that no hole of 1,024 nodes holds", lambda: fragmented(1024), "none"),
    ("1,000 elastic jobs grow on 4,096 GPUs", lambda: elastic(512, 1000), "none"),
    (
        "Kueue's baseline: 15,000 jobs, 5 groups x 6 queues, borrowing and preemption",
        kueue,
        "Kueue: 42.7 admissions/s through its API server; goal > 2,000/s in the engine",
    ),
)


def main() -> None:
    """Print the rows whose numbers (from 1) are asked for; without any, all."""
    wanted = {int(one) for one in sys.argv[1:]}
    print(f"Each row: the fastest of {TIMES}; what else the machine does only makes it slower.")
    print("The engine runs", "compiled." if COMPILED else "as Python (make engine compiles it).")
    for number, (title, measure, reference) in enumerate(ROWS, start=1):
        if not wanted or number in wanted:
            print(f"{number}. {title}")
            figures = sorted(measure() for _ in range(TIMES))
            slower = figures[-1][0] / figures[0][0]
            print("   ours     ", figures[0][1], f"[the slowest of {TIMES}: x {slower:.1f}]", flush=True)
            print("   reference", reference)


if __name__ == "__main__":
    main()
