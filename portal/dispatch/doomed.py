"""Which quota could not be had now, since hardware is bad."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from portal.clusters.doomed import DoomedCells, doomed_keep
from portal.dispatch.snapshot import load
from scheduling import NodeState
from scheduling.cells import Cluster
from scheduling.health import doomed


def doomed_find(*, now: datetime) -> int:
    """Find the doomed cells and keep them for the pages; how many there are."""
    snapshot = load(now=now).snapshot
    found: dict[str, list[DoomedCells]] = defaultdict(list)
    for one in doomed(snapshot) if _some_bad(snapshot.cluster) else ():
        found[one.vc].append(DoomedCells(one.chain, one.cell_type, one.cells))
    doomed_keep(found)
    return sum(cells.cells for own in found.values() for cells in own)


def _some_bad(cluster: Cluster) -> bool:
    """Whether anything is out of order; mostly nothing is, and there is nothing to find."""
    down = (node.state is NodeState.DOWN and node.leaves for node in cluster.nodes)
    return any(down) or any(not leaf.healthy for node in cluster.nodes for leaf in node.leaves)
