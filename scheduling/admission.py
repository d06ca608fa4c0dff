"""Requests that can never run are refused when submitted, saying which number is too large."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.cells import Cluster, Node
from scheduling.jobs import OPPORTUNISTIC, Job, Role
from scheduling.ledger import Layout, Ledger
from scheduling.ordering import candidates
from scheduling.placement import find
from scheduling.resources import Demand, demands, gpus_by_type

HIGHEST_PRIORITY = 1000


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that keeps a job from ever running; `role` None is the job itself.

    `field` is "vc", "priority", "roles", "count", "gpus", "cpu_milli", "memory_mb", "sku", "pinned_cell",
    "wanted" or "after".
    """

    role: str | None
    field: str
    sentence: str


class JobRefused(ValueError):
    """The job can never run on this cluster; `refusals` says every reason found."""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__("; ".join(refusal.sentence for refusal in refusals))
        self.refusals = refusals


def refusals(cluster: Cluster, job: Job) -> tuple[Refusal, ...]:
    """Why the job could not run even on the idle cluster with everything in service; empty when it could."""
    return refusals_on(Ledger(Layout(cluster)).all_in_service(), job)


def refusals_on(idle: Ledger, job: Job) -> tuple[Refusal, ...]:
    """The same, on a ledger without jobs whose nodes are all in service."""
    cluster = idle.layout.cluster
    found = [*_job_refusals(cluster, job)]
    for role in job.roles:
        found.extend(_role_refusals(cluster, role))
    return tuple(found) or tuple(_share_refusals(idle, job))


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


def _role_refusals(cluster: Cluster, role: Role) -> Iterator[Refusal]:
    if min(role.gpus, role.cpu_milli, role.memory_mb) < 0 or not role.gpus + role.cpu_milli + role.memory_mb:
        yield Refusal(role.name, "gpus", f"role {role.name} asks for no resources")
        return
    if role.pinned_cell is not None:
        yield Refusal(role.name, "pinned_cell", f"no team has a pinned cell {role.pinned_cell}")
    nodes = [node for node in cluster.nodes if _of_kind(node, role)]
    if role.sku is not None and not nodes:
        yield Refusal(role.name, "sku", f"no node has {role.sku}")
        return
    for field, asked, most in _largest(nodes, role):
        if asked > most:
            yield Refusal(role.name, field, f"role {role.name} asks for {asked} {_UNITS[field]}; a node has {most}")
            return
    if not any(_holds(node, role) for node in nodes):
        yield Refusal(role.name, "cpu_milli", f"no single node has all that a task of role {role.name} asks for")


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


def _share_refusals(idle: Ledger, job: Job) -> Iterator[Refusal]:
    """What is too much for the job's share or the nodes together, under every SKU that it may use."""
    found: list[Refusal] = []
    for sku in candidates(idle.layout.cluster, job):
        refusal = _too_many(idle.layout.cluster, job, sku) or _no_room(idle, job, sku)
        if refusal is None:
            return
        found.append(refusal)
    yield from found or [Refusal(None, "sku", f"team {job.vc} owns no GPUs")]


def _no_room(idle: Ledger, job: Job, sku: str) -> Refusal | None:
    """The tasks against the empty nodes; what is kept for idle GPUs is left out, for GPUs may be busy."""
    parts = tuple(replace(part, modest=False) for part in demands(job, sku))
    together = [parts] if job.gang else [(part.part(part.tasks[:1]),) for part in parts]
    allowed = idle.layout.all_nodes() if job.only_nodes is None else idle.layout.mask_of(job.only_nodes)
    for one in together:
        if find(idle, one, allowed) is None:
            return Refusal(None, "roles", f"{_listed(one)} do not fit the nodes, even when all are idle")
    return None


def _listed(parts: tuple[Demand, ...]) -> str:
    kinds = [f"{part.count} x {part.gpus} {part.cell_type or 'GPUs'}".strip() for part in parts]
    return "tasks of " + ", ".join(kinds)


def _too_many(cluster: Cluster, job: Job, sku: str) -> Refusal | None:
    parts = demands(job, sku)
    needed = gpus_by_type(parts) if job.gang else {part.cell_type: part.gpus for part in reversed(parts) if part.gpus}
    for cell_type, gpus in needed.items():
        if job.opportunistic:
            most = sum(kind == cell_type for kind in cluster.leaf_types.values())
            owner = "the cluster has"
        else:
            most = sum(vc.owned(cell_type) for vc in cluster.virtual_clusters if vc.id == job.vc)
            owner = f"team {job.vc} owns"
        if gpus > most:
            return Refusal(None, "gpus", f"the job needs {gpus} {cell_type} at once; {owner} {most}")
    return None
