"""Small builders: a cluster in a line, a job in a line."""

from dataclasses import replace

from scheduling import (
    Borrow,
    Claim,
    Cluster,
    Engine,
    Job,
    Leaf,
    Node,
    NodeState,
    Plan,
    QuotaLine,
    Role,
    Rules,
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
    shape: str = "",
    chain: str = "",
    cpu_tasks: bool | None = None,
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
        shape,
        chain,
        cpu_tasks,
    )


def cluster(*nodes: Node, **quotas: int | dict[str, int]) -> Cluster:
    """A cluster; `vision=4` gives the virtual cluster vision 4 A100."""
    virtual = []
    for name, quota in quotas.items():
        lines = {"A100": quota} if isinstance(quota, int) else quota
        virtual.append(VirtualCluster(name, tuple(QuotaLine(sku, count) for sku, count in lines.items())))
    return Cluster(tuple(nodes), tuple(virtual))


def with_rules(described: Cluster, **rules: Rules) -> Cluster:
    """The same cluster where these virtual clusters have rules."""
    virtual = tuple(replace(vc, rules=rules.get(vc.id, vc.rules)) for vc in described.virtual_clusters)
    return replace(described, virtual_clusters=virtual)


def role(
    name: str = "worker",
    count: int = 1,
    gpus: int = 1,
    *,
    cpu: int = 1,
    memory: int = 1,
    sku: str | None = "A100",
    least: int | None = None,
) -> Role:
    """A task role; CPU in cores, memory in GB."""
    return Role(name, count, gpus, cpu * 1000, memory * 1024, sku, least=least)


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
    borrow: Borrow = Borrow.NEVER,
    limit: int | None = None,
    min_run: int = 0,
    grace: int = 0,
    lazy: bool = False,
    preemptible: bool = True,
) -> Job:
    """A job all of whose tasks wait; one task of 1 GPU when no role is given."""
    roles = roles or (role(),)
    return Job(
        name, vc, user, priority, roles, at, order, all_tasks(roles), gang=gang,
        avoid_nodes=frozenset(avoid), only_nodes=None if only is None else frozenset(only),
        after=after, paused=paused, borrow=borrow, time_limit_ms=limit, min_run_ms=min_run, grace_ms=grace,
        lazy_preemption=lazy, preemptible=preemptible,
    )  # fmt: skip


def engine(described: Cluster, *jobs: Job) -> Engine:
    """An engine with these jobs waiting."""
    made = Engine(described)
    for one in jobs:
        made.submit(one)
    return made


def a_claim(leaf: str, claimant: str = "claimant", victim: str | None = None) -> Claim:
    """A claim for the first task of a job of the team vision."""
    return Claim(leaf, claimant, victim, "vision/A100/0", TaskRef("worker", 0))


def carry_out(made: Engine, now: int = 0) -> Plan:
    """Plan, and do everything that the plan says; victims are gone at once and wait again."""
    plan = made.plan(now)
    made.carry_out(plan)
    gone: dict[str, set[TaskRef]] = {}
    for preemption in plan.preemptions:
        for victim in preemption.victims:
            gone.setdefault(victim.job, set()).update(victim.tasks)
    for name, tasks in sorted(gone.items()):
        give_back(made, name, tuple(sorted(tasks)))
    return plan


def give_back(made: Engine, name: str, tasks: tuple[TaskRef, ...]) -> None:
    """Running tasks of a job lose their places and wait again where they stood before; two may have taken the same."""
    state = made.snapshot()
    running = next((one for one in state.running if one.job.id == name), None)
    there = {task.placement.task for task in running.tasks} if running else set()
    tasks = tuple(task for task in tasks if task in there)
    if running is None or not tasks:
        return
    job = running.job
    waiting = next((one.wanted for one in state.waiting if one.id == name), ())
    made.finish(name, tasks)
    made.submit(job._replace(wanted=tuple(sorted({*waiting, *tasks}))))


def running(described: Cluster, *jobs: Job) -> Engine:
    """An engine in which these jobs, placed one after the other, all run."""
    made = Engine(described)
    for one in jobs:
        made.submit(one)
        plan = carry_out(made)
        assert [wait.job.id for wait in plan.waits] == []
    return made


def park(made: Engine, name: str) -> Job:
    """The job leaves its GPUs, keeps its claim on them and its container there."""
    known = next(one for one in made.snapshot().running if one.job.id == name)
    tasks = tuple(task.placement for task in known.tasks)
    parked = known.job.wanting(tuple(one.task for one in tasks))._replace(paused=True)
    made.finish(name, [one.task for one in tasks])
    made.submit(parked)
    for one in tasks:
        for use in one.leaves:
            made.claim(Claim(use.leaf, name, None, use.virtual_cell or "", one.task, parked=True))
    return parked


def resume(made: Engine, parked: Job) -> None:
    """Its person is back."""
    made.submit(parked._replace(paused=False))


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


def victims_of(plan: Plan) -> list[str]:
    """Names of the jobs of which something ends by the plan, once for each preemption."""
    return sorted(victim.job for one in plan.preemptions for victim in one.victims)
