"""Random small worlds for the property tests, and an oracle that knows nothing of the engine's ways."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from scheduling import Cluster, Code, Job, Node, NodeState, Plan, QuotaLine, Role, Snapshot, VirtualCluster
from tests.unit.scheduling.builders import job, node

SKUS = ("A100", "H100")
VCS = ("vision", "speech")
PLENTY = 1 << 40


@st.composite
def clusters(draw: st.DrawFn, healthy: bool = False) -> Cluster:
    """One to four nodes of up to 4 GPUs, of two SKUs or none, with quotas that fit them."""
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        gpus = draw(st.sampled_from([4, 3, 2, 0]))
        sick = () if healthy else draw(st.sampled_from([(), (), (), (1,)]))
        state = NodeState.OPEN if healthy else draw(st.sampled_from([NodeState.OPEN] * 6 + [*NodeState]))
        sku, cpu = draw(st.sampled_from(["A100", *SKUS])), draw(st.integers(4, 16))
        nodes.append(
            node(f"n{number}", gpus, sku, cpu=cpu, memory=16, state=state, sick=sick, keep_cpu=1, keep_memory=0)
        )
    left = {sku: sum(len(one.leaves) for one in nodes if one.cell_type == sku) for sku in SKUS}
    virtual = []
    for vc in VCS:
        lines = []
        for sku in SKUS:
            count = draw(st.integers(left[sku] // 2, left[sku]))
            left[sku] -= count
            lines.append(QuotaLine(sku, count))
        virtual.append(VirtualCluster(vc, tuple(lines)))
    return Cluster(tuple(nodes), tuple(virtual))


ROLES = st.builds(
    Role,
    st.just("worker"),
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 0]),
    st.sampled_from([1000, 2000, 4000]),
    st.sampled_from([1024, 4096]),
    st.sampled_from(["A100", *SKUS, None]),
)


@st.composite
def jobs(draw: st.DrawFn, lowest: int = -1) -> Job:
    """A job of one or two roles."""
    first, second = draw(ROLES), draw(st.none() | st.none() | ROLES)
    roles = [first] if second is None else [first, replace(second, name="other")]
    roles = [replace(one, sku=None) if not one.gpus else one for one in roles]
    gang = draw(st.booleans())
    if gang and all(one.gpus for one in roles) and draw(st.sampled_from([False, False, True])):
        roles = [replace(one, count=one.count + 2, least=one.count) for one in roles]
    return job(
        "unnamed", *roles, vc=draw(st.sampled_from(VCS)), priority=draw(st.sampled_from([1, 0, 2, lowest])),
        at=draw(st.integers(0, 3)), gang=gang,
    )  # fmt: skip


def wanting_a_start(waiting: Iterable[Job]) -> set[str]:
    """Those that wait with more than extra tasks."""
    return {one.id for one in waiting if not all(map(one.is_extra, one.wanted))}


def named(drawn: list[Job]) -> list[Job]:
    """The jobs with ids and order ids of their own."""
    return [one._replace(id=f"j{number:02}", order_id=number) for number, one in enumerate(drawn)]


def ordered(one: Job) -> tuple[int, int, int, str]:
    """The order as the documents state it."""
    return (-one.priority, one.submitted_ms, one.order_id, one.id)


def skus_of(described: Cluster, one: Job) -> set[str]:
    """SKUs in whose order a job stands: those that its waiting tasks may take. Of a job that is no gang others may run
    already, and hold up nobody."""
    found: set[str] = set()
    for role in [one.role(name) for name in sorted({task.role for task in one.wanted})]:
        if role.gpus and role.sku is not None:
            found.add(role.sku)
        elif role.gpus and one.opportunistic:
            found |= {leaf.cell_type for each in described.nodes for leaf in each.leaves}
        elif role.gpus:
            found |= {sku for vc in described.virtual_clusters if vc.id == one.vc for sku in SKUS if vc.owned(sku)}
    return found


def passed(described: Cluster, plan: Plan) -> list[tuple[str, str]]:
    """Starts of guaranteed jobs before an earlier one of their team that waits for GPUs of a SKU that they take; those
    apart that wait for victims to leave."""
    types = {one.id: one.cell_type for one in described.nodes}
    waits = [one.job for one in plan.waits if one.reason.code is not Code.PREEMPTING and not one.job.opportunistic]
    found = []
    for start in plan.starts:
        used = {types[one.node] for one in start.placements if one.leaves}
        for wait in waits if not start.job.opportunistic else ():
            if wait.vc == start.job.vc and used & skus_of(described, wait) and ordered(start.job) > ordered(wait):
                found.append((start.job.id, wait.id))
    return found


def with_plenty(state: Snapshot) -> Snapshot:
    """The same state on nodes whose CPU and memory are no matter."""
    nodes = tuple(replace(one, cpu_milli=PLENTY, memory_mb=PLENTY) for one in state.cluster.nodes)
    return replace(state, cluster=replace(state.cluster, nodes=nodes))


def all_in_service(state: Snapshot) -> Snapshot:
    """The same state with every node open and every GPU healthy."""
    nodes = tuple(_repaired(one) for one in state.cluster.nodes)
    return replace(state, cluster=replace(state.cluster, nodes=nodes))


def _repaired(one: Node) -> Node:
    leaves = tuple(replace(leaf, healthy=True) for leaf in one.leaves)
    return replace(one, state=NodeState.OPEN, leaves=leaves)


def holds(state: Snapshot) -> dict[str, list[str]]:
    """Who holds each GPU."""
    found: dict[str, list[str]] = {}
    for running in state.running:
        for task in running.tasks:
            for use in task.placement.leaves:
                found.setdefault(use.leaf, []).append(running.job.id)
    return found


def held(state: Snapshot, vc: str, sku: str) -> int:
    """Virtual cells of one quota that are in use."""
    prefix = f"{vc}/{sku}/"
    return sum(
        (use.virtual_cell or "").startswith(prefix)
        for running in state.running
        for task in running.tasks
        for use in task.placement.leaves
    )


def free_on(state: Snapshot) -> dict[str, int]:
    """Free GPUs in service on each open node."""
    taken = holds(state)
    return {
        one.id: sum(leaf.healthy and leaf.id not in taken for leaf in one.leaves)
        for one in state.cluster.nodes
        if one.state == NodeState.OPEN
    }


def fits_somehow(state: Snapshot, sizes: list[tuple[int, str]]) -> bool:
    """Whether tasks of (GPUs, SKU) fit the free GPUs, by trying every way."""
    free = free_on(state)
    kinds = {one.id: one.cell_type for one in state.cluster.nodes}
    for places in product(free, repeat=len(sizes)):
        left = dict(free)
        for (gpus, sku), place in zip(sizes, places, strict=True):
            left[place] -= gpus if not gpus or kinds[place] == sku else PLENTY
        if min(left.values(), default=0) >= 0:
            return True
    return False
