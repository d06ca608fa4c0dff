"""The cluster as the engine sees it: leaf cells on nodes, virtual clusters with their quota.

Vocabulary of HiveD (Zhao et al., OSDI '20): a leaf cell is one GPU; a virtual cell is one unit of a
virtual cluster's quota, which is bound to a physical cell only while a job runs in it.
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
    """A server: its CPU (milli-cores), memory (MB) and leaf cells, all of one cell type.

    `reserve_cpu_milli` and `reserve_memory_mb` are kept per idle GPU from tasks that have no claim to them
    (tasks without GPUs, and borrowers); None keeps the node's whole share, its amount divided by its GPUs.
    """

    id: str
    cpu_milli: int
    memory_mb: int
    leaves: tuple[Leaf, ...] = ()
    state: NodeState = NodeState.OPEN
    sku: str = ""
    reserve_cpu_milli: int | None = None
    reserve_memory_mb: int | None = None

    @property
    def cell_type(self) -> str:
        """Type of the node's leaf cells; empty when it has none."""
        return self.leaves[0].cell_type if self.leaves else ""


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """`count` cells of one type, guaranteed to a virtual cluster."""

    cell_type: str
    count: int


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A team's guaranteed share; its virtual cells have the addresses `<vc>/<cell type>/<number from 0>`."""

    id: str
    quota: tuple[QuotaLine, ...] = ()

    def owned(self, cell_type: str) -> int:
        """Number of cells of this type that the virtual cluster owns."""
        return sum(line.count for line in self.quota if line.cell_type == cell_type)


def virtual_cell(vc: str, cell_type: str, number: int) -> str:
    """Address of one virtual leaf cell."""
    return f"{vc}/{cell_type}/{number}"


class ClusterError(ValueError):
    """The description of a cluster contradicts itself; `subject` is the id it is about."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class QuotaTooLarge(ClusterError):
    """The quotas ask for more cells of a level (`cell_type`) than there are: `needed` of `available`."""

    def __init__(self, cell_type: str, needed: int, available: int) -> None:
        super().__init__(cell_type, f"the quotas need {needed} cells, {available} are there")
        self.cell_type = cell_type
        self.needed = needed
        self.available = available


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes and virtual clusters; made only when every quota can be carved out of the physical cells.

    Cells count whether or not they are in service: an outage makes jobs wait, it revokes no quota. Where
    hardware that quotas were made for is gone, `quotas_may_exceed` reads the cluster as it is: jobs without
    GPUs to run on wait.
    Raises ClusterError for double ids and mixed nodes, QuotaTooLarge for quotas beyond the hardware.
    """

    nodes: tuple[Node, ...]
    virtual_clusters: tuple[VirtualCluster, ...]
    quotas_may_exceed: bool = False
    leaf_types: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_unique([node.id for node in self.nodes], "two nodes have this id")
        _check_unique([vc.id for vc in self.virtual_clusters], "two virtual clusters have this id")
        leaves = [leaf for node in self.nodes for leaf in node.leaves]
        _check_unique([leaf.id for leaf in leaves], "two leaf cells have this id")
        for node in self.nodes:
            _check_node(node)
        for vc in self.virtual_clusters:
            _check_unique([line.cell_type for line in vc.quota], f"two quota lines of {vc.id} name this type")
            if any(line.count < 0 or "/" in line.cell_type for line in vc.quota):
                raise ClusterError(vc.id, "a quota line has a negative count or a slash in its cell type")
        object.__setattr__(self, "leaf_types", {leaf.id: leaf.cell_type for leaf in leaves})
        if not self.quotas_may_exceed:
            self._check_quotas()

    def _check_quotas(self) -> None:
        available: dict[str, int] = {}
        needed: dict[str, int] = {}
        for cell_type in self.leaf_types.values():
            available[cell_type] = available.get(cell_type, 0) + 1
        for vc in self.virtual_clusters:
            for line in vc.quota:
                needed[line.cell_type] = needed.get(line.cell_type, 0) + line.count
        for cell_type in sorted(needed):
            if needed[cell_type] > available.get(cell_type, 0):
                raise QuotaTooLarge(cell_type, needed[cell_type], available.get(cell_type, 0))


def _check_unique(ids: list[str], problem: str) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise ClusterError(one, problem)
        seen.add(one)


def _check_node(node: Node) -> None:
    if any(leaf.node != node.id for leaf in node.leaves):
        raise ClusterError(node.id, "has a leaf cell that names another node")
    if len({leaf.cell_type for leaf in node.leaves}) > 1:
        raise ClusterError(node.id, "has leaf cells of several types")
    if len({leaf.index for leaf in node.leaves}) < len(node.leaves):
        raise ClusterError(node.id, "has two leaf cells with one index")
