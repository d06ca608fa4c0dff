"""The clusters that a simulation compares: read from a count of nodes, and changed for each policy."""

from collections.abc import Mapping
from dataclasses import replace

from scheduling.config.reading import read
from scheduling.model.cluster import Cluster, ClusterError
from scheduling.model.description import CellType, Leaf, Node, QuotaLine, UpperCell, VirtualCluster

NODE = "node"
GPU = "gpu"
POOL = "pool"
"""The one virtual cluster of a cluster that is not divided."""

PLENTY = 1 << 40
"""CPU (milli-cores) and memory (MB) of nodes whose description counts GPUs only: never too little."""

MOST_GPUS = 1_000_000


def of_equal_nodes(document: Mapping[str, object]) -> Cluster:
    """The cluster of `nodes` machines with `gpus_per_node` GPUs each, of which `vc_nodes` says who owns how many.

    Nodes that nobody owns are lent to all. CPU and memory are not limited. Raises ClusterError naming the key.
    """
    count, gpus = _whole(document, "nodes", 1), _whole(document, "gpus_per_node", 1)
    if count * gpus > MOST_GPUS:
        raise ClusterError("nodes", f"{count} nodes of {gpus} GPUs are more than {MOST_GPUS} GPUs")
    owned = document.get("vc_nodes")
    if not isinstance(owned, Mapping) or not owned:
        raise ClusterError("vc_nodes", "is no object of numbers of nodes by virtual cluster")
    quotas = {str(vc): _whole(owned, vc, 0, "vc_nodes.") for vc in owned}
    if sum(quotas.values()) > count:
        raise ClusterError("vc_nodes", f"together own {sum(quotas.values())} nodes; nodes says {count}")
    width = len(str(count))
    return Cluster(
        tuple(_machine(f"node{number:0{width}}", gpus) for number in range(1, count + 1)),
        tuple(VirtualCluster(vc, (QuotaLine(NODE, owns),)) for vc, owns in quotas.items()),
        cell_types=(CellType(NODE, GPU, gpus, node_level=True),),
    )


def of_configuration(document: Mapping[str, object]) -> Cluster:
    """The cluster of a HiveD-style configuration; where it gives no CPU and memory, these are not limited.

    Raises ConfigError with every fault and its path.
    """
    cluster = read(document)
    nodes = tuple(
        node if node.cpu_milli or node.memory_mb else replace(node, cpu_milli=PLENTY, memory_mb=PLENTY)
        for node in cluster.nodes
    )
    return replace(cluster, nodes=nodes)


def _whole(document: Mapping[str, object], key: str, least: int, path: str = "") -> int:
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ClusterError(f"{path}{key}", f"{value!r} is no whole number of at least {least}")
    return value


def _machine(name: str, gpus: int) -> Node:
    leaves = tuple(Leaf(f"{name}:{index}", name, index, GPU) for index in range(gpus))
    return Node(name, PLENTY, PLENTY, leaves, sku=GPU, shape=NODE)


def leaves_in(cluster: Cluster, cell_type: str) -> int:
    """How many leaf cells one cell of this type has."""
    types = {one.name: one for one in cluster.cell_types}
    count = 1
    while cell_type in types:
        count *= types[cell_type].child_count
        cell_type = types[cell_type].child
    if count == 1:
        return next((len(node.leaves) for node in cluster.nodes if node.shape == cell_type), 1)
    return count


def leaf_type_of(cluster: Cluster, cell_type: str) -> str:
    """The type of the leaf cells in a cell of this type."""
    types = {one.name: one for one in cluster.cell_types}
    while cell_type in types:
        cell_type = types[cell_type].child
    return next((node.cell_type for node in cluster.nodes if node.shape == cell_type), cell_type)


def counted_in_gpus(cluster: Cluster) -> Cluster:
    """The same cluster where every quota is a number of leaf cells."""
    return replace(cluster, virtual_clusters=tuple(_in_gpus(cluster, vc) for vc in cluster.virtual_clusters))


def _in_gpus(cluster: Cluster, vc: VirtualCluster) -> VirtualCluster:
    counts: dict[tuple[str, str], int] = {}
    for line in vc.quota:
        key = (leaf_type_of(cluster, line.cell_type), line.chain)
        counts[key] = counts.get(key, 0) + line.count * leaves_in(cluster, line.cell_type)
    return replace(vc, quota=tuple(QuotaLine(kind, count, chain) for (kind, chain), count in counts.items()))


def undivided(cluster: Cluster) -> Cluster:
    """The same nodes with one virtual cluster that owns every leaf cell."""
    counts: dict[tuple[str, str], int] = {}
    for node in cluster.nodes:
        if node.leaves:
            key = (node.cell_type, node.chain)
            counts[key] = counts.get(key, 0) + len(node.leaves)
    quota = tuple(QuotaLine(kind, count, chain) for (kind, chain), count in counts.items())
    return replace(cluster, virtual_clusters=(VirtualCluster(POOL, quota),), pinned_cells=())


def alone(cluster: Cluster, vc: VirtualCluster) -> Cluster:
    """Hardware that is the virtual cluster's quota, and servers without GPUs, which are in no quota; chains of one leaf
    type in one.

    A cell from the node upwards becomes machines of its own; one below a node a machine of that size; leaf
    cells fill machines of the size that is usual where they come from. Pinned cells are left out: jobs of a
    trace name none.
    """
    builder = _Builder(cluster, vc.id)
    for line in vc.quota:
        builder.add(line)
    return replace(
        cluster,
        nodes=(*builder.nodes, *(node for node in cluster.nodes if not node.leaves)),
        upper_cells=tuple(builder.uppers),
        cell_types=tuple(builder.types.values()),
        pinned_cells=(),
        virtual_clusters=(
            replace(vc, quota=tuple(QuotaLine(kind, count) for kind, count in builder.quota.items()), pinned=()),
        ),
    )


class _Builder:
    """Makes machines after the pattern of those that the cluster has."""

    def __init__(self, cluster: Cluster, vc: str) -> None:
        self.nodes: list[Node] = []
        self.uppers: list[UpperCell] = []
        self.quota: dict[str, int] = {}
        self.types = {one.name: one for one in cluster.cell_types}
        self._cluster = cluster
        self._vc = vc

    def add(self, line: QuotaLine) -> None:
        """The machines of one quota line."""
        pattern = self._pattern(line)
        size = leaves_in(self._cluster, line.cell_type)
        if line.cell_type == pattern.cell_type:
            self._fill(pattern, line.count)
            kind = line.cell_type
        elif size < len(pattern.leaves):
            kind = self._small(line.cell_type)
            for _ in range(line.count):
                self._machine(pattern, size, kind)
        else:
            kind = line.cell_type
            for _ in range(line.count):
                self._cell(kind, pattern)
        self.quota[kind] = self.quota.get(kind, 0) + line.count

    def _pattern(self, line: QuotaLine) -> Node:
        """The largest machine with such leaf cells, of the line's chain where that is a machine's."""
        kind = leaf_type_of(self._cluster, line.cell_type)
        alike = [node for node in self._cluster.nodes if node.cell_type == kind]
        chain = [node for node in alike if node.chain == line.chain]
        exact = [node for node in alike if node.shape == line.cell_type]
        return max(exact or chain or alike, key=lambda node: len(node.leaves))

    def _fill(self, pattern: Node, leaves: int) -> None:
        size = len(pattern.leaves)
        for _ in range(leaves // size):
            self._machine(pattern, size, pattern.shape)
        if leaves % size:
            self._machine(pattern, leaves % size, "")

    def _small(self, cell_type: str) -> str:
        """A type of machine that is no more than one cell of this type, which is part of a machine elsewhere."""
        name = f"{cell_type} alone"
        if name not in self.types:
            self.types[name] = replace(self.types[cell_type], name=name, node_level=True)
        return name

    def _cell(self, cell_type: str, pattern: Node) -> str:
        """One cell from the node upwards, with all below it; its address."""
        size = leaves_in(self._cluster, cell_type)
        if size <= len(pattern.leaves):
            return self._machine(pattern, size, cell_type)
        kind = self.types[cell_type]
        children = tuple(self._cell(kind.child, pattern) for _ in range(kind.child_count))
        address = f"{self._vc}/{cell_type}{len(self.uppers) + 1}"
        self.uppers.append(UpperCell(address, cell_type, children))
        return address

    def _machine(self, pattern: Node, gpus: int, shape: str) -> str:
        name = f"{self._vc}/{len(self.nodes) + 1:04}"
        leaves = tuple(Leaf(f"{name}:{index}", name, index, pattern.cell_type) for index in range(gpus))
        share = len(pattern.leaves)
        cpu, memory = pattern.cpu_milli * gpus // share, pattern.memory_mb * gpus // share
        self.nodes.append(
            replace(pattern, id=name, cpu_milli=cpu, memory_mb=memory, leaves=leaves, shape=shape, chain="")
        )
        return name
