"""The engine's speed, printed beside the reference figures: `python -m tests.benchmarks.bench_engine`.

A job's time is `decide` plus `start` with the engine warm. Nothing here is asserted.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from statistics import mean, quantiles
from time import perf_counter
from typing import TypeVar

from scheduling import (
    Cluster,
    Engine,
    Job,
    Leaf,
    Node,
    QuotaLine,
    Role,
    Snapshot,
    Start,
    VirtualCluster,
    all_tasks,
)

T = TypeVar("T")
TEAMS = [f"team{number}" for number in range(8)]


def machines(count: int, gpus: int = 8) -> Cluster:
    """Equal nodes, shared out among eight teams."""
    nodes = tuple(
        Node(
            f"gpu{number:04}", 96_000, 1_048_576,
            tuple(Leaf(f"gpu{number:04}:{index}", f"gpu{number:04}", index, "A100") for index in range(gpus)),
            sku="A100",
        )
        for number in range(count)
    )  # fmt: skip
    quota = QuotaLine("A100", count * gpus // len(TEAMS))
    return Cluster(nodes, tuple(VirtualCluster(team, (quota,)) for team in TEAMS))


def a_job(number: int, gpus: int, *, tasks: int = 1, priority: int = 10) -> Job:
    """A gang of equal tasks; every fourth job has a little more CPU, so that shapes differ."""
    roles = (Role("worker", tasks, gpus, 1000 * gpus + 500 * (number % 4), 4096 * gpus, "A100"),)
    team = TEAMS[number % len(TEAMS)]
    return Job(f"j{number:05}", team, "alice", priority, roles, number, number, all_tasks(roles))


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """The answer and the seconds it took."""
    begin = perf_counter()
    answer = action()
    return answer, perf_counter() - begin


def place_to_ninety_percent(nodes: int) -> str:
    """1, 2, 4 and 8 GPU jobs, one after the other, until nine tenths of the GPUs are taken."""
    described, build_cluster = timed(lambda: machines(nodes))
    engine, build = timed(lambda: Engine(described))
    rng = random.Random(7)
    taken, number, waits, times = 0, 0, 0, []
    while taken < nodes * 8 * 9 // 10:
        number += 1
        one = a_job(number, rng.choice([1, 2, 4, 8]))
        begin = perf_counter()
        answer = engine.decide(one, number)
        if isinstance(answer, Start):
            engine.start(answer)
        times.append(perf_counter() - begin)
        waits += not isinstance(answer, Start)
        taken += one.roles[0].gpus if isinstance(answer, Start) else 0
    p99 = quantiles(times, n=100)[98]
    return (
        f"{mean(times) * 1e3:.3f} ms mean, {p99 * 1e3:.3f} ms p99 a job ({len(times)} jobs, {waits} waits); "
        f"build {build_cluster + build:.2f} s"
    )


def full_state(nodes: int, waiting: int) -> Snapshot:
    """Every GPU taken by 8-GPU jobs; waiting jobs of thirty shapes and five priorities."""
    engine = Engine(machines(nodes))
    for number in range(nodes):
        start = engine.decide(a_job(number, 8), 0)
        assert isinstance(start, Start)
        engine.start(start)
    rng = random.Random(11)
    shapes = [(gpus, tasks) for gpus in (1, 2, 3, 4, 6, 8) for tasks in (1, 2, 4, 8, 16)]
    queue = []
    for number in range(waiting):
        gpus, tasks = rng.choice(shapes)
        queue.append(a_job(10_000 + number, gpus, tasks=tasks, priority=rng.choice([0, 10, 50, 100, 120])))
    return replace(engine.snapshot(), waiting=tuple(queue))


def full_pass(nodes: int, waiting: int) -> str:
    """A pass that starts nothing and has a reason for everybody."""
    state = full_state(nodes, waiting)
    engine, restore = timed(lambda: Engine.restore(state))
    plan, cold = timed(lambda: engine.plan(0))
    _, warm = timed(lambda: engine.plan(0))
    return (
        f"{warm * 1e3:.0f} ms ({cold * 1e3:.0f} ms the first after a restore; restore {restore * 1e3:.0f} ms; "
        f"{len(plan.waits)} waits)"
    )


def one_free_node(nodes: int, waiting: int) -> str:
    """The same with one job ended: the heads of the queues look for room."""
    state = full_state(nodes, waiting)
    gone = state.running[nodes // 2]
    engine = Engine.restore(replace(state, running=tuple(one for one in state.running if one != gone)))
    plan, first = timed(lambda: engine.plan(0))
    return f"{first * 1e3:.0f} ms ({len(plan.starts)} starts, {len(plan.waits)} waits)"


def fragmented(nodes: int) -> str:
    """Two GPUs idle on every node, and a gang of sixteen 4-GPU tasks: refused by what is free, not by quota."""
    engine = Engine(machines(nodes))
    for number in range(nodes):
        start = engine.decide(a_job(number, 6), 0)
        assert isinstance(start, Start)
        engine.start(start)
    _, took = timed(lambda: engine.decide(a_job(nodes, 4, tasks=16), 0))
    return f"{took * 1e3:.1f} ms for the answer and its reason"


def main() -> None:
    """Print the table."""
    hived = "HiveD's Go code with cell levels: {}; goal {}"
    print("place 1-8 GPU jobs to 90 % of 1,024 x 8 GPUs, 8 teams")
    print("  ours     ", place_to_ninety_percent(1024))
    print("  reference", hived.format("0.41 ms mean, 1.4 ms p99, build 1.2 s", "0.10 ms mean, build < 0.3 s"))
    print("place 1-8 GPU jobs to 90 % of 2,048 x 8 GPUs, 8 teams")
    print("  ours     ", place_to_ninety_percent(2048))
    print("  reference", hived.format("0.66 ms mean, build 7.9 s", "0.12 ms mean, build < 0.7 s"))
    print("a pass with 10,000 waiting jobs on a full 8,192-GPU cluster")
    print("  ours     ", full_pass(1024, 10_000))
    print("  goal      < 50 ms")
    print("the same with one node free")
    print("  ours     ", one_free_node(1024, 10_000))
    print("a gang that no hole of 1,024 nodes holds")
    print("  ours     ", fragmented(1024))


if __name__ == "__main__":
    main()
