"""Growth of elastic jobs: extra tasks start on GPUs that are idle when everybody else has been served."""

from collections.abc import Iterator

from scheduling.cycle.cycle_state import Cycle, CycleState
from scheduling.cycle.within_caps import may_borrow
from scheduling.diagnosis import reasons as explain
from scheduling.model.elastic import extra_job, extra_name, gang_size, whole_name
from scheduling.model.job import Job, TaskRef
from scheduling.model.plan import Start
from scheduling.model.snapshot import Running
from scheduling.queue.dominant_share import turns
from scheduling.queue.queue import OrderKey, submission

_Failed = set[tuple[object, ...]]
"""Tasks that found no place: their virtual cluster, what they need, and which nodes they may use."""


def grow(cycle: Cycle) -> None:
    """Lets elastic jobs start as many extra tasks as fit, each job all of them at once: every change of size costs it
    some time. The virtual cluster with the smallest weighted share on loan is next; there the higher priority, then the
    job with the smaller part of its GPUs, then the earlier submission."""
    state = cycle.state
    if not state.elastic.growing or not any(any(holes[1:]) for holes in state.placer.allocator.holes.values()):
        return
    failed = _Failed()
    queues: dict[str, list[tuple[int, float, OrderKey, Job]]] = {}
    for name, job in state.elastic.growing.items():
        gang = state.running.get(name)
        if gang is not None and _may_grow(state, job, gang, cycle.now):
            held = len(gang.tasks) + len(state.elastic.extras.get(name, ()))
            part = held / sum(role.count for role in job.roles)
            queues.setdefault(job.vc, []).append((-job.priority, part, submission(job), job))
    ordered = {vc: iter(sorted(queues[vc], key=lambda one: one[:3])) for vc in sorted(queues)}
    for _, (*_, job) in turns(state.loans.shares, ordered):
        for start in _starts(cycle, job, failed):
            cycle.start(start)


def _may_grow(state: CycleState, job: Job, gang: Running, now: int) -> bool:
    """Whether all of its gang runs, not only since this cycle, nothing of it is leaving, and it is time."""
    if job.grow_from_ms is not None and now < job.grow_from_ms or job.id in state.waiting:
        return False
    if len(gang.tasks) < gang_size(job) or explain.is_ineligible(job._replace(after=()), state.placer.allocator.layout):
        return False
    extras = (state.running[one] for one in state.elastic.extras.get(job.id, {}).values())
    return not any(task.leaving for one in (gang, *extras) for task in one.tasks)


def _starts(cycle: Cycle, job: Job, failed: _Failed) -> Iterator[Start]:
    """A start for each task that finds a place beside those before it."""
    state = cycle.state
    for task in job.wanted:
        kind = _kind(state, job, task)
        if kind is None or extra_name(job.id, task) in state.running:
            continue
        extra = extra_job(job, task, kind)
        (role,) = extra.roles
        needs = (job.vc, role.gpus, role.cpu_milli, role.memory_mb, kind, job.only_nodes, job.avoid_nodes)
        start = _place(state, extra) if needs not in failed else None
        if start is not None:
            yield start
        else:
            failed.add(needs)


def _kind(state: CycleState, job: Job, task: TaskRef) -> str | None:
    """The kind of GPU that the tasks of its role in the gang have; None: they are on no node of the cluster."""
    layout = state.placer.allocator.layout
    nodes = (one.placement.node for one in state.running[job.id].tasks if one.placement.role == task.role)
    return next((layout.nodes[layout.position[node]].cell_type for node in nodes if node in layout.position), None)


def _place(state: CycleState, extra: Job) -> Start | None:
    """A place for the task, on the nodes of its gang if there is one."""
    nodes = frozenset(one.placement.node for one in state.running[whole_name(extra.id)].tasks)
    near = extra._replace(warm_nodes=nodes)
    for choice in state.shapes.of(near).choices:
        if state.placer.roomy(choice, near.gang) and may_borrow(state, near, choice):
            start = state.placer.borrowed(near, choice)
            if start is not None:
                return start._replace(job=extra)
    return None
