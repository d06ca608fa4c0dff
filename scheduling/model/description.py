"""The parts of a cluster as plain data: nodes with their GPUs, cell types, cells above the nodes, virtual clusters with
their quota.

Vocabulary of HiveD (Zhao et al., OSDI '20): a leaf cell is one GPU; a cell type is made of equal cells of a
smaller type; a chain is a set of top cells whose parts can stand in for each other; a virtual cell is one unit
of a virtual cluster's quota, which is bound to a physical cell only while a job runs in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Description:
    """A cluster as somebody describes it, sound or not."""

    nodes: tuple[Node, ...]
    virtual_clusters: tuple[VirtualCluster, ...]
    cell_types: tuple[CellType, ...] = ()
    upper_cells: tuple[UpperCell, ...] = ()
    pinned_cells: tuple[PinnedCell, ...] = ()
