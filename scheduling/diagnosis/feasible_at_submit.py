"""Requests that can never run are refused when submitted, saying which number is too large."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.cells.allocator import Allocator
from scheduling.cells.cell_index import CellIndex
from scheduling.cells.request import Choice, JobShape, JobShapes, Unit, apart, needs_of
from scheduling.cells.resources import Demand
from scheduling.model.cluster import Cluster
from scheduling.model.description import Node
from scheduling.model.elastic import whole_gang
from scheduling.model.job import OPPORTUNISTIC, Job, Role
from scheduling.placement.attempt import IdleNodes, PlacementAttempt
from scheduling.placement.bin_packing import find
from scheduling.placement.placer import Placer, placer_of
from scheduling.queue.caps import Limit, limit_exceeded

HIGHEST_PRIORITY = 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that keeps a job from ever running; `role` None is the job itself.

    `field` is "vc", "priority", "roles", "count", "gpus", "cpu_milli", "memory_mb", "sku", "pinned_cell",
    "least", "wanted", "after" or "limit", which then says what `limit` would be passed.
    """

    role: str | None
    field: str
    sentence: str
    limit: Limit | None = None


class JobRefused(ValueError):
    """The job can never run on this cluster; `refusals` says every reason found."""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__("; ".join(refusal.sentence for refusal in refusals))
        self.refusals = refusals


def refusals(cluster: Cluster, job: Job) -> tuple[Refusal, ...]:
    """Why the job could not run even on the idle cluster with everything in service; empty when it could."""
    layout = CellIndex(cluster)
    gang = whole_gang(job)
    found = refusals_on(Allocator(layout).all_in_service(), JobShapes(layout).of(gang), gang)
    return found or extra_refusals(cluster, job)


def extra_refusals(cluster: Cluster, job: Job) -> tuple[Refusal, ...]:
    """What is wrong with what an elastic job wants, whose gang could run."""
    return () if whole_gang(job) is job else tuple(_job_refusals(cluster, job))


def refusals_on(idle: Allocator, shape: JobShape, job: Job) -> tuple[Refusal, ...]:
    """The same, on a allocator without jobs whose nodes are all in service."""
    cluster = idle.layout.cluster
    found = [*_job_refusals(cluster, job)]
    for role in job.roles:
        found.extend(_role_refusals(idle.layout, job, role))
    return tuple(found) or tuple(_share_refusals(idle, shape, job))


def _job_refusals(cluster: Cluster, job: Job) -> Iterator[Refusal]:
    if all(vc.id != job.vc for vc in cluster.virtual_clusters):
        yield Refusal(None, "vc", f"there is no virtual cluster {job.vc}")
    if not OPPORTUNISTIC <= job.priority <= HIGHEST_PRIORITY:
        limits = f"from {OPPORTUNISTIC} to {HIGHEST_PRIORITY}"
        yield Refusal(None, "priority", f"priority {job.priority} is not in the range {limits}")
    if not job.wanted:
        yield Refusal(None, "wanted", "the job asks for no task")
    counts = {role.name: role.count for role in job.roles}
    if len(counts) < len(job.roles) or any(not 0 <= index < counts.get(name, 0) for name, index in job.wanted):
        yield Refusal(None, "wanted", "the job asks for tasks that its roles do not have")
    if len(set(job.wanted)) < len(job.wanted):
        yield Refusal(None, "wanted", "the job asks for a task twice")
    if job.id in job.after:
        yield Refusal(None, "after", "the job waits for itself")


def _role_refusals(layout: CellIndex, job: Job, role: Role) -> Iterator[Refusal]:
    cluster = layout.cluster
    if min(role.gpus, role.cpu_milli, role.memory_mb) < 0 or not role.gpus + role.cpu_milli + role.memory_mb:
        yield Refusal(role.name, "gpus", f"role {role.name} asks for no resources")
        return
    if role.least is not None:
        yield from _elastic_refusals(job, role, role.least)
    if role.pinned_cell is not None and (role.gpus or (job.vc, role.pinned_cell) not in layout.pins):
        yield from _pin_refusals(layout, job, role)
        return
    nodes = [node for node in cluster.nodes if _of_kind(node, role)]
    if role.sku is not None and not nodes:
        yield Refusal(role.name, "sku", f"no node has {role.sku}")
        return
    if not role.gpus and nodes and not any(node.takes_cpu_tasks for node in nodes):
        where = f"no server with {role.sku}" if role.sku else "no server of this cluster"
        yield Refusal(role.name, "gpus", f"role {role.name} asks for no GPUs; {where} takes tasks without GPUs")
        return
    nodes = [node for node in nodes if role.gpus or node.takes_cpu_tasks]
    for field, asked, most in _largest(nodes, role):
        if asked > most:
            yield Refusal(role.name, field, f"role {role.name} asks for {asked} {_UNITS[field]}; a node has {most}")
            return
    if not any(_holds(node, role) for node in nodes):
        yield Refusal(role.name, "cpu_milli", f"no single node has all that a task of role {role.name} asks for")


def _elastic_refusals(job: Job, role: Role, least: int) -> Iterator[Refusal]:
    if not 1 <= least <= role.count:
        sentence = f"role {role.name} is to run with at least {least} tasks; that is not in the range 1 to {role.count}"
        yield Refusal(role.name, "least", sentence)
    if not job.gang:
        sentence = f"role {role.name} is to run with at least {least} tasks, but the job is no gang"
        yield Refusal(role.name, "least", sentence)
    if not role.gpus:
        yield Refusal(role.name, "least", f"role {role.name} has no GPUs: it cannot grow into idle ones")


_UNITS = {"gpus": "GPUs on one node", "cpu_milli": "milli-cores of CPU", "memory_mb": "MB of memory"}


def _of_kind(node: Node, role: Role) -> bool:
    if role.sku is None:
        return True
    return role.sku == (node.cell_type if role.gpus else node.sku)


def _holds(node: Node, role: Role) -> bool:
    return len(node.leaves) >= role.gpus and node.cpu_milli >= role.cpu_milli and node.memory_mb >= role.memory_mb


def _largest(nodes: list[Node], role: Role) -> list[tuple[str, int, int]]:
    return [
        ("gpus", role.gpus, max((len(node.leaves) for node in nodes), default=0)),
        ("cpu_milli", role.cpu_milli, max((node.cpu_milli for node in nodes), default=0)),
        ("memory_mb", role.memory_mb, max((node.memory_mb for node in nodes), default=0)),
    ]


def _pin_refusals(layout: CellIndex, job: Job, role: Role) -> Iterator[Refusal]:
    quotas = [layout.quotas[one] for one in layout.pins.get((job.vc, role.pinned_cell or ""), ())]
    if not quotas:
        yield Refusal(role.name, "pinned_cell", f"team {job.vc} has no reserved servers {role.pinned_cell}")
    elif job.opportunistic:
        yield Refusal(role.name, "pinned_cell", "an opportunistic job cannot use reserved servers")
    elif role.sku not in (None, layout.leaf_type[quotas[0].chain]):
        kind = layout.leaf_type[quotas[0].chain]
        sentence = f"role {role.name} asks for {role.sku}; the reserved servers {role.pinned_cell} have {kind}"
        yield Refusal(role.name, "sku", sentence)
    elif role.gpus > quotas[0].shape.width:
        most = quotas[0].shape.width
        sentence = f"role {role.name} asks for {role.gpus} GPUs on one node; the reserved servers have {most}"
        yield Refusal(role.name, "gpus", sentence)


def _share_refusals(idle: Allocator, shape: JobShape, job: Job) -> Iterator[Refusal]:
    """What is too much for the job's share or the nodes together, under every choice of a chain."""
    found: list[Refusal] = []
    for choice in shape.choices:
        refusal = (
            _too_many(idle.layout, job, choice) or _over_limit(idle.layout, job, choice) or _no_room(idle, job, choice)
        )
        if refusal is None:
            return
        found.append(refusal)
    yield from found[:1] or [Refusal(None, "sku", f"team {job.vc} owns no GPUs")]


def _too_many(layout: CellIndex, job: Job, choice: Choice) -> Refusal | None:
    for pool in (choice.units[0] if job.gang else choice.units[-1]).pools:
        count = 1 if not job.gang else None
        needed = sum(part.gpus * (count or part.count) for part in pool.parts)
        kind = pool.parts[0].cell_type
        if job.opportunistic:
            most = sum(layout.cluster.leaf_types[leaf] == kind for leaf in layout.leaf_at)
            owner = "the cluster has"
        else:
            most = layout.owned.get((job.vc, pool.chain), 0)
            owner = f"team {job.vc} owns"
        if needed > most:
            where = "" if pool.chain == kind or job.opportunistic else f" in {pool.chain}"
            return Refusal(None, "gpus", f"the job needs {needed} {kind} at once; {owner} {most}{where}")
    return None


def _over_limit(layout: CellIndex, job: Job, choice: Choice) -> Refusal | None:
    """What starts together against the limits of the virtual cluster's rules, with nothing held."""
    for one in apart((choice,), job.gang) if not job.opportunistic else ():
        limit = limit_exceeded(layout, job, needs_of(one, job.gang), {}, 0)
        if limit is not None:
            asked = f"the job needs {limit.needed} {limit.kind or 'GPUs'} at once"
            return Refusal(None, "limit", f"{asked}; {_limit_words(job.vc, limit)}", limit)
    return None


def _limit_words(vc: str, limit: Limit) -> str:
    if limit.lowest is not None:
        return f"jobs of priority {limit.lowest} and higher may hold {limit.most} in team {vc} together"
    part = "" if limit.factor is None else f", {limit.factor:g} of its quota"
    return f"one user of team {vc} may hold {limit.most}{part}"


def _no_room(idle: Allocator, job: Job, choice: Choice) -> Refusal | None:
    """The tasks against the empty cells and nodes: what would not start there, nobody's end would let start."""
    placer = placer_of(idle, idle)
    for unit in map(Unit.alone, choice.units):
        if not job.opportunistic and placer.assign(job, unit) is None:
            cells = ", ".join(sorted({_cells(idle.layout, job.vc, pool.name) for pool in unit.pools}))
            return Refusal(None, "roles", f"{_listed(unit.parts)} do not fit the cells of team {job.vc} ({cells})")
        if not _starts(placer, job, Choice(choice.chains, (unit,))):
            return _misfit(placer, job, unit)
    return None


def _starts(placer: Placer, job: Job, alone: Choice) -> bool:
    """Whether these tasks would start now.

    Those of a guaranteed job on GPUs, and what a gang has beside them, as the engine starts them: what is kept for idle
    GPUs counts, for it would be kept from this job whenever its own GPUs are free. Opportunistic jobs and tasks without
    GPUs live on what others leave, and may have it when GPUs are busy.
    """
    (unit,) = alone.units
    if job.opportunistic or not unit.pools:
        return find(_idle(placer, job), tuple(replace(part, modest=False) for part in unit.parts)) is not None
    return placer.guaranteed(job, alone, may_preempt=False) is not None


def _misfit(placer: Placer, job: Job, unit: Unit) -> Refusal:
    """Why these tasks do not start on idle nodes: without what is kept for idle GPUs they would, or not even then."""
    tasks, greedy = _listed(unit.parts), tuple(replace(part, modest=False) for part in unit.parts)
    if find(_idle(placer, job), unit.parts) is None and find(_idle(placer, job), greedy) is not None:
        sentence = f"{tasks} do not fit the nodes beside the CPU and memory that these keep for idle GPUs"
    else:
        sentence = f"{tasks} do not fit the nodes, even when all are idle"
    return Refusal(None, "roles", sentence)


def _idle(placer: Placer, job: Job) -> IdleNodes:
    return IdleNodes(PlacementAttempt(placer.idle, job, placer.allowed(job), placer.costs, evict=False), -1)


def _cells(layout: CellIndex, vc: str, pool: str) -> str:
    """The quota of a virtual cluster in one chain (or a pinned cell), in words."""
    counts: dict[str, int] = {}
    for number in layout.quotas_of.get((vc, pool), layout.pins.get((vc, pool), [])):
        quota = layout.quotas[number]
        counts[quota.cell_type] = counts.get(quota.cell_type, 0) + (quota.leaves if quota.loose else 1)
    return ", ".join(f"{count} x {kind}" for kind, count in counts.items()) or "none"


def _listed(parts: tuple[Demand, ...]) -> str:
    kinds = [f"{part.count} x {part.gpus} {part.cell_type or 'GPUs'}".strip() for part in parts]
    return "tasks of " + ", ".join(kinds)
