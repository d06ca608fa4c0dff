"""Small builders: a cluster in a line, a job in a line, and an event loop that runs jobs to their end."""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from scheduling import (
    Cluster,
    Engine,
    Job,
    Leaf,
    Node,
    NodeState,
    Plan,
    QuotaLine,
    Role,
    Start,
    TaskRef,
    VirtualCluster,
    Wait,
    all_tasks,
)


def node(
    name: str,
    gpus: int = 4,
    sku: str = "A100",
    *,
    cpu: int = 64,
    memory: int = 256,
    state: NodeState = NodeState.OPEN,
    sick: tuple[int, ...] = (),
    keep_cpu: int | None = None,
    keep_memory: int | None = None,
) -> Node:
    """A node; CPU (and what is kept of it per GPU) in cores, memory in GB, `sick` the faulty GPUs."""
    leaves = tuple(Leaf(f"{name}:{index}", name, index, sku, healthy=index not in sick) for index in range(gpus))
    return Node(
        name,
        cpu * 1000,
        memory * 1024,
        leaves,
        state,
        sku if gpus else "cpu",
        None if keep_cpu is None else keep_cpu * 1000,
        None if keep_memory is None else keep_memory * 1024,
    )


def cluster(*nodes: Node, **quotas: int | dict[str, int]) -> Cluster:
    """A cluster; `vision=4` gives the virtual cluster vision 4 A100."""
    virtual = []
    for name, quota in quotas.items():
        lines = {"A100": quota} if isinstance(quota, int) else quota
        virtual.append(VirtualCluster(name, tuple(QuotaLine(sku, count) for sku, count in lines.items())))
    return Cluster(tuple(nodes), tuple(virtual))


def role(
    name: str = "worker", count: int = 1, gpus: int = 1, *, cpu: int = 1, memory: int = 1, sku: str | None = "A100"
) -> Role:
    """A task role; CPU in cores, memory in GB."""
    return Role(name, count, gpus, cpu * 1000, memory * 1024, sku)


def job(
    name: str,
    *roles: Role,
    vc: str = "vision",
    priority: int = 10,
    at: int = 0,
    order: int = 0,
    gang: bool = True,
    avoid: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
    after: tuple[str, ...] = (),
    paused: bool = False,
    user: str = "alice",
) -> Job:
    """A job all of whose tasks wait; one task of 1 GPU when no role is given."""
    roles = roles or (role(),)
    return Job(
        name, vc, user, priority, roles, at, order, all_tasks(roles), gang=gang,
        avoid_nodes=frozenset(avoid), only_nodes=None if only is None else frozenset(only),
        after=after, paused=paused,
    )  # fmt: skip


def engine(described: Cluster, *jobs: Job) -> Engine:
    """An engine with these jobs waiting."""
    made = Engine(described)
    for one in jobs:
        made.submit(one)
    return made


def carry_out(made: Engine, now: int = 0) -> Plan:
    """Plan, and start everything that the plan starts."""
    plan = made.plan(now)
    for start in plan.starts:
        made.start(start)
    return plan


def running(described: Cluster, *jobs: Job) -> Engine:
    """An engine in which these jobs, placed one after the other, all run."""
    made = Engine(described)
    for one in jobs:
        made.submit(one)
        plan = carry_out(made)
        assert [wait.job.id for wait in plan.waits] == []
    return made


def nodes_of(start: Start) -> dict[str, int]:
    """Tasks of a start per node."""
    counts: dict[str, int] = {}
    for placement in start.placements:
        counts[placement.node] = counts.get(placement.node, 0) + 1
    return counts


def start_of(plan: Plan, name: str) -> Start:
    """The first start of a job in a plan."""
    return next(start for start in plan.starts if start.job.id == name)


def wait_of(plan: Plan, name: str) -> Wait:
    """The wait of a job in a plan."""
    return next(wait for wait in plan.waits if wait.job.id == name)


@dataclass
class Run:
    """When each task of each job began and ended, and on how many GPUs of which nodes."""

    began: dict[str, list[int]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    most_at_once: dict[str, int] = field(default_factory=dict)


def run_to_the_end(made: Engine, arrivals: list[tuple[int, Job]], lasts: dict[str, int]) -> Run:
    """Play the arrivals, each task of a job ending `lasts` after its own start, until nothing is left."""
    run = Run()
    events: list[tuple[int, int, int, Job | None, str, tuple[TaskRef, ...]]] = []
    for number, (at, one) in enumerate(arrivals):
        heappush(events, (at, 1, number, one, one.id, ()))
    number = len(arrivals)
    left = {one.id: len(one.wanted) for _, one in arrivals}
    now_running: dict[str, int] = dict.fromkeys(left, 0)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, _, arrival, name, tasks = heappop(events)
            if arrival is not None:
                made.submit(arrival)
                continue
            left[name] -= len(tasks)
            now_running[name] -= len(tasks)
            made.finish(name, tasks if left[name] else None)
            run.ended[name] = now
        for start in carry_out(made, now).starts:
            name, tasks = start.job.id, tuple(placement.task for placement in start.placements)
            run.began.setdefault(name, []).extend([now] * len(tasks))
            run.nodes.setdefault(name, {}).update(nodes_of(start))
            now_running[name] += len(tasks)
            run.most_at_once[name] = max(run.most_at_once.get(name, 0), now_running[name])
            number += 1
            heappush(events, (now + lasts[name], 0, number, None, name, tasks))
    return run
