"""Random clusters with cells of several levels, streams of jobs for them, and each team's cells as its own cluster."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from scheduling import (
    Borrow,
    CellType,
    Cluster,
    Job,
    Leaf,
    Node,
    NodeState,
    PinnedCell,
    QuotaLine,
    QuotaTooLarge,
    Role,
    UpperCell,
    VirtualCluster,
    all_tasks,
    refusals,
)
from scheduling.cells.cell_index import CellIndex

TEAMS = ("vision", "speech", "nlp")
SHARE_CPU = 4_000
SHARE_MEMORY = 4_096
"""What belongs to a GPU; guaranteed tasks keep within it."""


@dataclass(frozen=True)
class Make:
    """How a chain's nodes are made: the types from the node down to a pair with their number of children, whether
    two nodes make a rack."""

    levels: tuple[tuple[str, int], ...]
    racks: bool = False


MAKES = (
    Make((("node", 4),)),
    Make((("node", 2), ("pair", 2))),
    Make((("node", 2), ("quad", 2), ("pair", 2))),
    Make((("node", 2), ("pair", 2)), racks=True),
    Make((("node", 2),), racks=True),
    Make(()),
)


@dataclass(frozen=True)
class World:
    """A cluster, and jobs with their arrival and how long their tasks last."""

    cluster: Cluster
    arrivals: tuple[tuple[int, Job], ...]
    lasts: dict[str, int]

    def of(self, vc: str) -> tuple[tuple[int, Job], ...]:
        """The guaranteed jobs of a team."""
        return tuple(one for one in self.arrivals if one[1].vc == vc and not one[1].opportunistic)


def leaves(name: str, count: int, sku: str) -> tuple[Leaf, ...]:
    return tuple(Leaf(f"{name}:{index}", name, index, sku) for index in range(count))


def machine(name: str, gpus: int, sku: str, shape: str, chain: str, spare_cpu: int = 0) -> Node:
    """A node whose GPUs each have their share of CPU and memory kept."""
    cpu, memory = SHARE_CPU * gpus + spare_cpu, SHARE_MEMORY * gpus + spare_cpu
    return Node(
        name, cpu, memory, leaves(name, gpus, sku), sku=sku, shape=shape, chain=chain,
        reserve_cpu_milli=SHARE_CPU, reserve_memory_mb=SHARE_MEMORY,
    )  # fmt: skip


@st.composite
def chains(draw: st.DrawFn, sku: str) -> Cluster:
    """A cluster of one chain, without virtual clusters."""
    make = draw(st.sampled_from(MAKES))
    types, width = [], 1
    names = [f"{sku}-{name}" for name, _ in make.levels]
    for place, (_, count) in reversed(list(enumerate(make.levels))):
        child = names[place + 1] if place + 1 < len(names) else sku
        types.append(CellType(names[place], child, count, node_level=place == 0))
        width *= count
    gpus = width if names else draw(st.integers(1, 4))
    count = draw(st.integers(1, 2)) * 2 if make.racks else draw(st.integers(1, 3))
    nodes = [
        machine(f"{sku}{number}", gpus, sku, names[0] if names else "", sku, draw(st.sampled_from([0, 0, 2_000])))
        for number in range(count)
    ]
    upper = []
    if make.racks:
        types.append(CellType(f"{sku}-rack", names[0], 2))
        upper = [
            UpperCell(f"{sku}r{one}", f"{sku}-rack", (f"{sku}{2 * one}", f"{sku}{2 * one + 1}"))
            for one in range(count // 2)
        ]
    return Cluster(tuple(nodes), (), cell_types=tuple(types), upper_cells=tuple(upper))


@st.composite
def clusters(draw: st.DrawFn, pins: bool = True) -> Cluster:
    """One or two chains with quotas of any of their types for two or three teams."""
    parts = [draw(chains(sku)) for sku in draw(st.sampled_from([("A",), ("A",), ("A", "B")]))]
    described = Cluster(
        tuple(node for part in parts for node in part.nodes),
        (),
        cell_types=tuple(one for part in parts for one in part.cell_types),
        upper_cells=tuple(one for part in parts for one in part.upper_cells),
    )
    teams = {name: VirtualCluster(name) for name in TEAMS[: draw(st.integers(1, 3))]}
    described = replace(described, virtual_clusters=tuple(teams.values()))
    if pins and draw(st.sampled_from([False, False, True])):
        described = pinned(described, draw(st.sampled_from(sorted(teams))), draw(st.sampled_from(described.nodes)))
    kinds = sorted({one.name for one in described.cell_types} | {node.cell_type for node in described.nodes})
    for _ in range(draw(st.integers(1, 6))):
        team, kind = draw(st.sampled_from(sorted(teams))), draw(st.sampled_from(kinds))
        described = granted(described, team, kind, draw(st.integers(1, 3)))
    return described


def pinned(described: Cluster, team: str, at: Node) -> Cluster:
    """A whole node (where its make has a name) is the team's pinned cell."""
    if not at.shape:
        return described
    cell = PinnedCell("pin", at.shape, at.id)
    virtual = tuple(replace(vc, pinned=("pin",)) if vc.id == team else vc for vc in described.virtual_clusters)
    return replace(described, pinned_cells=(cell,), virtual_clusters=virtual)


def granted(described: Cluster, team: str, kind: str, count: int) -> Cluster:
    """The team owns so many cells more, if they can be cut out of what is left."""
    virtual = []
    for vc in described.virtual_clusters:
        if vc.id == team:
            lines = {line.cell_type: line.count for line in vc.quota}
            lines[kind] = lines.get(kind, 0) + count
            vc = replace(vc, quota=tuple(QuotaLine(name, lines[name]) for name in lines))
        virtual.append(vc)
    try:
        return replace(described, virtual_clusters=tuple(virtual))
    except QuotaTooLarge:
        return described


def alone(described: Cluster, team: str) -> Cluster:
    """The team's cells as hardware of its own: each quota cell a machine or a rack of that size."""
    layout = CellIndex(described)
    nodes: list[Node] = []
    upper: list[UpperCell] = []
    pins: list[PinnedCell] = []
    vc = next(one for one in described.virtual_clusters if one.id == team)
    for quota in layout.quotas:
        if quota.vc != team:
            continue
        sku = layout.leaf_type[quota.chain]
        if quota.loose:
            nodes.extend(machine(f"q{quota.number}n{one}", 1, sku, "", quota.chain) for one in range(quota.leaves))
            continue
        name = f"q{quota.number}"
        width = quota.shape.width
        made = [machine(f"{name}n{one}", width, sku, quota.shape.names[-1], quota.chain) for one in range(quota.count)]
        nodes.extend(made)
        at = made[0].id
        if quota.count > 1:
            at = name
            upper.append(UpperCell(name, quota.cell_type, tuple(one.id for one in made)))
        if quota.pinned:
            pins.append(PinnedCell(quota.pinned, quota.cell_type, at))
    return Cluster(
        tuple(nodes), (vc,), cell_types=described.cell_types, upper_cells=tuple(upper), pinned_cells=tuple(pins),
        policy=described.policy,
    )  # fmt: skip


def gang_alone(job: Job) -> Job:
    """An elastic job as if it had no extra tasks."""
    roles = tuple(replace(one, count=one.least or one.count, least=None) for one in job.roles)
    return job._replace(roles=roles, wanted=all_tasks(roles))


@dataclass(frozen=True)
class Mix:
    """What sort of jobs a stream is made of."""

    priorities: tuple[int, ...] = (0, 0, 5, 10, -1)
    borrow: tuple[Borrow, ...] = (Borrow.NEVER,)
    lazy: tuple[bool, ...] = (False,)
    preemptible: tuple[bool, ...] = (True, True, True, False)
    cpu_only: bool = True
    most: int = 12
    elastic: tuple[bool, ...] = (False, False, True)
    shares: tuple[float, ...] = (1,)
    """How much of what belongs to its GPUs a task wants at most, of CPU and of memory."""


ISOLATED = Mix()
ANY = Mix(borrow=(Borrow.NEVER, Borrow.AUTO), lazy=(False, True))
GREEDY = replace(ANY, shares=(0.5, 1, 1, 1.5, 2))


@st.composite
def worlds(draw: st.DrawFn, mix: Mix = ANY, described: st.SearchStrategy[Cluster] | None = None) -> World:
    """A cluster and a stream of jobs that it takes."""
    cluster = draw(clusters() if described is None else described)
    arrivals, lasts = [], {}
    for number in range(draw(st.integers(1, mix.most))):
        job = draw(jobs(cluster, mix))._replace(id=f"j{number:02}", order_id=number)
        if refusals(cluster, job):
            continue
        arrivals.append((job.submitted_ms, job))
        lasts[job.id] = draw(st.integers(1, job.time_limit_ms or 20))
    return World(cluster, tuple(arrivals), lasts)


@st.composite
def jobs(draw: st.DrawFn, cluster: Cluster, mix: Mix) -> Job:
    """A job of one or two roles. Tasks on GPUs fit one cell; where a team owns single GPUs they take one each."""
    vc = draw(st.sampled_from(cluster.virtual_clusters))
    skus = sorted({node.cell_type for node in cluster.nodes})
    priority = draw(st.sampled_from(mix.priorities))
    without = mix.cpu_only and draw(st.sampled_from([False] * 9 + [True]))
    gang, roles = draw(st.sampled_from([True, True, False])), []
    elastic = gang and not without and draw(st.sampled_from(mix.elastic))
    for name in draw(st.sampled_from([("worker",), ("worker",), ("worker", "other")])):
        sku = draw(st.sampled_from([*skus, *skus, None]))
        singles = any(vc.owned(one) for one in ((sku,) if sku else skus)) and priority >= 0
        gpus = 0 if without else 1 if singles else draw(st.sampled_from([1, 1, 2, 2, 3, 4, 8]))
        pin = vc.pinned[0] if vc.pinned and gpus and priority >= 0 and draw(st.booleans()) else None
        cpu = int(draw(st.sampled_from([0, 1_000, SHARE_CPU])) * max(1, gpus) * draw(st.sampled_from(mix.shares)))
        memory = 512 if len(mix.shares) == 1 else int(SHARE_MEMORY * max(1, gpus) * draw(st.sampled_from(mix.shares)))
        count = draw(st.sampled_from([1, 1, 2, 3]))
        more = draw(st.sampled_from([0, 1, 3])) if elastic else None
        least = None if more is None else count
        count += more or 0
        roles.append(Role(name, count, gpus, cpu or 500, memory, sku if gpus else None, pinned_cell=pin, least=least))
    every = tuple(roles)
    return Job(
        "unnamed", vc.id, draw(st.sampled_from(["alice", "bob"])), priority, every, draw(st.integers(0, 25)), 0,
        all_tasks(every), gang=gang,
        time_limit_ms=draw(st.none() | st.integers(1, 25)),
        min_run_ms=draw(st.sampled_from([0, 0, 5])), lazy_preemption=draw(st.sampled_from(mix.lazy)),
        preemptible=draw(st.sampled_from(mix.preemptible)),
        borrow=draw(st.sampled_from(mix.borrow)) if priority >= 0 else Borrow.NEVER,
    )  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> Cluster:
    """A cluster some nodes and GPUs of which cannot be used."""
    described = draw(clusters())
    nodes = []
    for node in described.nodes:
        state = draw(st.sampled_from([NodeState.OPEN] * 4 + [*NodeState]))
        sick = draw(st.sampled_from([frozenset[int](), frozenset[int](), frozenset({0}), frozenset({1})]))
        leaves = tuple(replace(leaf, healthy=leaf.index not in sick) for leaf in node.leaves)
        nodes.append(replace(node, state=state, leaves=leaves))
    return replace(described, nodes=tuple(nodes))
