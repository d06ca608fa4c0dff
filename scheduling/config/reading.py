"""From a configuration to a cluster."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduling.config.faults import ConfigError, Fault, Faults, Words
from scheduling.config.physical import CPU_NODES, Physical
from scheduling.config.types import read_types
from scheduling.config.virtual import Paths, read_virtual_clusters
from scheduling.model.cluster import Cluster, ClusterError
from scheduling.model.description import Node
from scheduling.model.validate import shortages

_OTHER = ("kubeApiServerAddress", "kubeConfigFilePath", "webServerAddress", "forcePodBindThreshold")
_OURS = ("physicalCluster", "virtualClusters", *_OTHER, "waitingPodSchedulingBlockMilliSec")
_PHYSICAL = ("skuTypes", "cellTypes", "physicalCells", CPU_NODES)


def read(document: Mapping[str, Any]) -> Cluster:
    """The cluster of a HiveD-style configuration. Raises ConfigError with every fault and its path.

    Ids: a node has the name of its machine (its `cellAddress`); where one machine is a node of several chains, in
    all but that of most of its GPUs `<machine>@<chain>` (`machine` gives the name back). A cell above the nodes is
    `<chain>/<address>/…`, a leaf `<node>:<GPU number>`. Leaves stand in the order of the node's tree. CPU and
    memory are the SKU's for each leaf, and 0 where the document has no `skuTypes`, and of a server under `cpuNodes`.
    Cells of a SKU without GPUs are servers that take tasks without GPUs; what virtual clusters own of them is left out.
    Every node is open and healthy.
    HiveD's other settings (of its web server and Kubernetes) may stand in the document and say nothing here.
    """
    faults = Faults()
    table = faults.table(document, "", _OURS)
    physical = faults.table(table.get("physicalCluster"), "physicalCluster", _PHYSICAL)
    types = read_types(physical, faults)
    cells = Physical(types, faults)
    cells.read(faults.items(physical.get("physicalCells"), "physicalCluster.physicalCells"))
    cells.read_cpu_nodes(faults.items(physical.get(CPU_NODES), f"physicalCluster.{CPU_NODES}"))
    pinned = cells.pinned_cells()
    names = {one.id for one in pinned}
    paths = Paths(types, cells.tops)
    virtual = read_virtual_clusters(table.get("virtualClusters"), paths, names, faults)
    if faults.found:
        raise ConfigError(faults.found)
    try:
        known = tuple(one for one in types.cells.values() if not types.without_gpus(one.name))
        made = Cluster(cells.nodes(), virtual, known, cells.upper_cells(), pinned, quotas_may_exceed=True)
    except ClusterError as error:
        words = Words("%(subject)s %(problem)s", {"subject": error.subject, "problem": error.problem})
        raise ConfigError([Fault("physicalCluster.physicalCells", words)]) from error
    return _checked(made, faults)


def machine(node: Node) -> str:
    """The name of the machine that a node is, or is a part of."""
    return node.id.removesuffix(f"@{node.chain}")


def _checked(made: Cluster, faults: Faults) -> Cluster:
    for short in shortages(made):
        form = "the quotas need %(needed)s cells of type %(type)s in the chain %(chain)s, %(there)s are there"
        needed = {"needed": short.needed, "type": short.cell_type, "chain": short.chain, "there": short.available}
        faults.add("virtualClusters", form, **needed)
    if faults.found:
        raise ConfigError(faults.found)
    return replace(made, quotas_may_exceed=False)
