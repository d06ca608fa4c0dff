"""From a cluster to a configuration."""

from collections import defaultdict
from typing import Any

from scheduling.config.amounts import cpu_text, memory_text
from scheduling.config.physical import CPU_NODES, CPU_TASKS
from scheduling.config.reading import machine
from scheduling.config.virtual import HOST_NETWORK
from scheduling.model.cell_tree import CellTree, chain_of
from scheduling.model.cluster import Cluster
from scheduling.model.description import CellType, Leaf, Node


def write(cluster: Cluster) -> dict[str, Any]:
    """The HiveD-style configuration of a cluster, plain data for YAML or JSON.

    It reads back as an equal cluster where the cluster was read from a configuration. Of others it keeps nodes
    with GPUs, cells, quotas and pinned cells: node types without a name are given one, a SKU's CPU and memory per
    GPU are the least that one of its nodes has. Of a node without GPUs it keeps whether it takes tasks without GPUs,
    where that was said. Rules (but for the host network), policy and the state of nodes have no words in the format.
    """
    return _Writer(cluster).document()


class _Writer:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.here = CellTree(cluster)
        self.types = {one.name: one for one in cluster.cell_types}
        self.shapes: dict[str, str] = {}
        for node in cluster.nodes:
            if node.leaves:
                self.shapes[node.id] = self._shape(node)
        self.pins: dict[tuple[str, str, int], str] = {
            (one.at, one.cell_type, one.first): one.id for one in cluster.pinned_cells
        }
        self.tops = self._tops()
        self.top_kinds: dict[str, set[str]] = defaultdict(set)
        for chain, address in self.tops:
            self.top_kinds[chain].add(self._kind(address))

    def document(self) -> dict[str, Any]:
        """The whole document."""
        physical: dict[str, Any] = {}
        skus = self._skus()
        if skus:
            physical["skuTypes"] = skus
        physical["cellTypes"] = {name: _type_document(one) for name, one in self.types.items()}
        physical["physicalCells"] = [self._top(chain, address) for chain, address in self.tops]
        cpu_nodes = [node for node in self.cluster.nodes if not node.leaves and node.cpu_tasks is not None]
        if cpu_nodes:
            physical[CPU_NODES] = [{"cellAddress": node.id, CPU_TASKS: node.cpu_tasks} for node in cpu_nodes]
        virtual = {vc.id: self._virtual(vc.id) for vc in self.cluster.virtual_clusters}
        return {"physicalCluster": physical, "virtualClusters": virtual}

    def _shape(self, node: Node) -> str:
        """The type of a node; one is made up for a node whose leaves lie directly under it."""
        size = len(node.leaves)
        name = node.shape or f"{node.cell_type}-node{size}"
        self.types.setdefault(name, CellType(name, node.cell_type, size, node_level=True))
        return name

    def _skus(self) -> dict[str, Any]:
        least: dict[str, tuple[int, int]] = {}
        for node in self.cluster.nodes:
            if node.leaves:
                count = len(node.leaves)
                share = (node.cpu_milli // count, node.memory_mb // count)
                before = least.get(node.cell_type, share)
                least[node.cell_type] = (min(before[0], share[0]), min(before[1], share[1]))
        if not any(cpu or memory for cpu, memory in least.values()):
            return {}
        return {
            name: {"gpu": 1, "cpu": cpu_text(cpu), "memory": memory_text(memory)}
            for name, (cpu, memory) in sorted(least.items())
        }

    def _tops(self) -> list[tuple[str, str]]:
        """Chain and address of each cell that lies in no other."""
        inside = {child for cell in self.cluster.upper_cells for child in cell.children}
        upper = [(self.here.chain_at(one.address), one.address) for one in self.cluster.upper_cells]
        nodes = [(chain_of(node), node.id) for node in self.cluster.nodes if node.leaves]
        return [one for one in (*upper, *nodes) if one[1] not in inside]

    def _top(self, chain: str, address: str) -> dict[str, Any]:
        kind = self._kind(address)
        cell = {"cellType": kind}
        if kind != chain:
            cell["chain"] = chain
        return cell | self._cell(address)

    def _kind(self, address: str) -> str:
        return self.shapes[address] if address in self.shapes else self.here.upper[address].cell_type

    def _cell(self, address: str) -> dict[str, Any]:
        kind = self._kind(address)
        pin = self._pin(address, kind, 0)
        if address in self.here.nodes:
            node = self.here.nodes[address]
            said = {} if node.cpu_tasks is None else {CPU_TASKS: node.cpu_tasks}
            return {"cellAddress": machine(node)} | pin | said | self._inside(node)
        children = [self._cell(child) for child in self.here.upper[address].children]
        return {"cellAddress": address.rsplit("/", 1)[-1]} | pin | {"cellChildren": children}

    def _inside(self, node: Node) -> dict[str, Any]:
        """The cells of a node, if there is more to say of them than their number."""
        plain = [leaf.index for leaf in node.leaves] == list(range(len(node.leaves)))
        shape = self.shapes[node.id]
        pinned = any(at == node.id and kind != shape for at, kind, _ in self.pins)
        return {} if plain and not pinned else {"cellChildren": self._parts(node, shape, 0, node.leaves)}

    def _parts(self, node: Node, kind: str, first: int, leaves: tuple[Leaf, ...]) -> list[dict[str, Any]]:
        child, count = self.types[kind].child, self.types[kind].child_count
        size = len(leaves) // count
        made = []
        for start in range(0, len(leaves), size):
            pin = self._pin(node.id, child, first + start)
            if child in self.types:
                made.append(
                    pin | {"cellChildren": self._parts(node, child, first + start, leaves[start : start + size])}
                )
            else:
                made.append({"cellAddress": str(leaves[start].index)} | pin)
        return made

    def _pin(self, at: str, kind: str, first: int) -> dict[str, Any]:
        name = self.pins.get((at, kind, first))
        return {} if name is None else {"pinnedCellId": name}

    def _virtual(self, vc_id: str) -> dict[str, Any]:
        vc = next(one for one in self.cluster.virtual_clusters if one.id == vc_id)
        made: dict[str, Any] = {
            "virtualCells": [
                {"cellType": self._path(line.chain, line.cell_type), "cellNumber": line.count} for line in vc.quota
            ]
        }
        if vc.pinned:
            made["pinnedCells"] = [{"pinnedCellId": name} for name in vc.pinned]
        if vc.host_network is not None:
            made[HOST_NETWORK] = vc.host_network
        return made

    def _path(self, chain: str, cell_type: str) -> str:
        chain = chain or next(iter(self.here.chains_with(cell_type)), cell_type)
        if chain not in self.top_kinds.get(chain, ()):
            return f"{chain}.{cell_type}"
        walk = [chain]
        while walk[-1] != cell_type and walk[-1] in self.types:
            walk.append(self.types[walk[-1]].child)
        return ".".join(walk) if walk[-1] == cell_type else f"{chain}.{cell_type}"


def _type_document(one: CellType) -> dict[str, Any]:
    made: dict[str, Any] = {"childCellType": one.child, "childCellNumber": one.child_count}
    return made | ({"isNodeLevel": True} if one.node_level else {})
