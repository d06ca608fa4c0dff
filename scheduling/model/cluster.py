"""The cluster as the engine sees it: cells of hardware in trees, virtual clusters with their quota.

Vocabulary of HiveD (Zhao et al., OSDI '20): a leaf cell is one GPU; a cell type is made of equal cells of a
smaller type; a chain is a set of top cells whose parts can stand in for each other; a virtual cell is one unit
of a virtual cluster's quota, which is bound to a physical cell only while a job runs in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.model.validate import contradictions, shortages


class NodeState(StrEnum):
    """Whether a node takes new tasks; only an open one does."""

    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class CellType:
    """A cell of this type is `child_count` equal cells of type `child`; a `child` that is no cell type is a leaf.

    On each path from a top cell to a leaf at most one type is `node_level`: the cell is one node.
    """

    name: str
    child: str
    child_count: int
    node_level: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """A physical leaf cell: one GPU of a node.

    `index` is the GPU's number on its node, `cell_type` the name of the leaf cell type (the SKU's name).
    """

    id: str
    node: str
    index: int
    cell_type: str
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A server: its CPU (milli-cores), memory (MB) and leaf cells, all of one cell type, in the order of its tree.

    `shape` names the node's cell type; without one the leaves lie directly under the node. `chain` names the
    chain that the node belongs to; without one it is the type of its leaf cells.
    `reserve_cpu_milli` and `reserve_memory_mb` are kept per idle GPU from tasks that have no claim to them
    (tasks without GPUs, and borrowers); None keeps the node's whole share, its amount divided by its GPUs.
    `cpu_tasks` says whether tasks without GPUs may be placed there; None: nobody said, so they may.
    """

    id: str
    cpu_milli: int
    memory_mb: int
    leaves: tuple[Leaf, ...] = ()
    state: NodeState = NodeState.OPEN
    sku: str = ""
    reserve_cpu_milli: int | None = None
    reserve_memory_mb: int | None = None
    shape: str = ""
    chain: str = ""
    cpu_tasks: bool | None = None

    @property
    def takes_cpu_tasks(self) -> bool:
        """Whether tasks without GPUs may be placed there."""
        return self.cpu_tasks is not False

    @property
    def cell_type(self) -> str:
        """Type of the node's leaf cells; empty when it has none."""
        return self.leaves[0].cell_type if self.leaves else ""


@dataclass(frozen=True, slots=True)
class UpperCell:
    """A cell above the nodes (a rack, say): its children are nodes (by id) or other such cells (by address)."""

    address: str
    cell_type: str
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PinnedCell:
    """A physical cell with a name, kept for the one virtual cluster that lists it.

    `at` is the address of an upper cell or the id of a node; of a cell inside a node, `first` is the position
    of its first leaf among the node's leaves.
    """

    id: str
    cell_type: str
    at: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """`count` cells of one type in one chain, guaranteed to a virtual cluster.

    An empty `chain` is the only one that has cells of this type; where there are several it must be named.
    """

    cell_type: str
    count: int
    chain: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a virtual cluster allows its users, beside its quota. GPUs are counted per leaf cell type.

    weight: its share of idle capacity beside others'.
    max_borrow, max_lend: GPUs it may hold on loan, and of its idle ones give on loan; a type that is missing
        is not limited.
    user_factor, user_gpus: what one user's guaranteed jobs may hold: `user_factor` times the quota (as YARN's
        user limit factor), and at most `user_gpus` GPUs of any kind together.
    class_priority, class_gpus: the GPUs that jobs of this priority and above may hold together.
    """

    weight: int = 1
    max_borrow: Mapping[str, int] = field(default_factory=dict)
    max_lend: Mapping[str, int] = field(default_factory=dict)
    user_factor: float | None = None
    user_gpus: int | None = None
    class_priority: int | None = None
    class_gpus: int | None = None


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A team's guaranteed share: quota lines and pinned cells (by id).

    The address of a virtual leaf cell is `<vc>/<cell type>/<number of the quota cell from 0>/<leaf in it from
    0>`; `<vc>/<leaf type>/<number>` where the quota counts leaves, `<chain>:` before the type where the type
    alone would not name the chain, and `<vc>/pinned:<id>/0/<leaf>` for a pinned cell. `host_network`: it may run jobs
    of several tasks; None: nobody said. It places nothing, a configuration carries it.
    """

    id: str
    quota: tuple[QuotaLine, ...] = ()
    pinned: tuple[str, ...] = ()
    rules: Rules = Rules()
    host_network: bool | None = None

    def owned(self, cell_type: str) -> int:
        """Number of cells of this type that the virtual cluster owns."""
        return sum(line.count for line in self.quota if line.cell_type == cell_type)


def virtual_cell(vc: str, cell_type: str, number: int) -> str:
    """Address of one virtual leaf cell."""
    return f"{vc}/{cell_type}/{number}"


class Order(StrEnum):
    """Who comes first among equal priorities of a virtual cluster."""

    FAIR = "fair"
    SUBMISSION = "submission"


class FirstToPay(StrEnum):
    """Who loses what it has on loan first: the virtual cluster with the largest share, or whoever loses least work."""

    SHARE = "share"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class Policy:
    """How the cluster as a whole is scheduled; the defaults are what the portal runs.

    order: among users of a virtual cluster by decayed use, or by submission alone.
    half_life_ms: after which use counts half.
    backfill: later jobs may start beside a reservation that they cannot delay.
    lending: idle cells are lent and taken back.
    promotion: who runs on loan keeps its turn, and moves into its quota where it is when that is free.
    first_to_pay: whom cells on loan are taken back from first.
    unsaved_cap_ms: work without a checkpoint counts for at most this long when victims are chosen.
    """

    order: Order = Order.FAIR
    half_life_ms: int = 7 * 24 * 3_600_000
    backfill: bool = True
    lending: bool = True
    promotion: bool = True
    first_to_pay: FirstToPay = FirstToPay.SHARE
    unsaved_cap_ms: int = 4 * 3_600_000


class ClusterError(ValueError):
    """The description of a cluster contradicts itself; `subject` is the id it is about."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class QuotaTooLarge(ClusterError):
    """The quotas ask for more cells of a level (`cell_type`) than there are: `needed` of `available`."""

    def __init__(self, cell_type: str, needed: int, available: int, chain: str = "") -> None:
        where = f"{chain}: {cell_type}" if chain not in ("", cell_type) else cell_type
        super().__init__(where, f"the quotas need {needed} cells, {available} are there")
        self.chain = chain
        self.cell_type = cell_type
        self.needed = needed
        self.available = available


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes and virtual clusters; made only when every quota can be carved out of the physical cells.

    Cells count whether or not they are in service: an outage makes jobs wait, it revokes no quota. Where
    hardware that quotas were made for is gone, `quotas_may_exceed` reads the cluster as it is: jobs without
    GPUs to run on wait.
    Raises ClusterError for what `contradictions` finds (double ids, mixed nodes, cells that do not match their
    type, a pinned cell of two virtual clusters), QuotaTooLarge for quotas that cannot be carved out.
    """

    nodes: tuple[Node, ...]
    virtual_clusters: tuple[VirtualCluster, ...]
    quotas_may_exceed: bool = False
    cell_types: tuple[CellType, ...] = ()
    upper_cells: tuple[UpperCell, ...] = ()
    pinned_cells: tuple[PinnedCell, ...] = ()
    policy: Policy = Policy()
    leaf_types: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for subject, problem in contradictions(self):
            raise ClusterError(subject, problem)
        leaves = (leaf for node in self.nodes for leaf in node.leaves)
        object.__setattr__(self, "leaf_types", {leaf.id: leaf.cell_type for leaf in leaves})
        if not self.quotas_may_exceed:
            for short in shortages(self):
                raise QuotaTooLarge(short.cell_type, short.needed, short.available, short.chain)
