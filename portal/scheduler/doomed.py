"""Finds quota that could not be had now because of bad hardware, or of drained or cordoned nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from portal.hardware.doomed import DoomedCells, doomed_keep
from portal.scheduler.snapshot import SNAPSHOTS
from scheduling import Engine, NodeState
from scheduling.model.cluster import Cluster
from scheduling.model.snapshot import Snapshot

Cells = tuple[str, str, str]
"""Virtual cluster, chain, cell type."""
CLOSED = frozenset({NodeState.CORDONED, NodeState.DRAINING})


def doomed_find(*, now: datetime) -> int:
    """Find the doomed cells, and those closed besides, and store them for the pages; returns the number of doomed
    ones."""
    snapshot = SNAPSHOTS.load(now=now).snapshot
    found = _doomed(snapshot)
    # With closed nodes counted as down: what is doomed then, but not now, is closed.
    nodes = snapshot.cluster.nodes
    shut = tuple(replace(node, state=NodeState.DOWN) if node.state in CLOSED else node for node in nodes)
    closed = _doomed(replace(snapshot, cluster=replace(snapshot.cluster, nodes=shut))) - found if shut != nodes else {}
    doomed_keep(_by_vc(found), closed=_by_vc(closed))
    return found.total()


def _doomed(snapshot: Snapshot) -> Counter[Cells]:
    some = Engine.restore(snapshot).doomed() if _some_bad(snapshot.cluster) else ()
    return Counter({(one.vc, one.chain, one.cell_type): one.cells for one in some})


def _by_vc(found: Mapping[Cells, int]) -> dict[str, list[DoomedCells]]:
    kept: dict[str, list[DoomedCells]] = defaultdict(list)
    for (vc, chain, cell_type), cells in found.items():
        kept[vc].append(DoomedCells(chain, cell_type, cells))
    return kept


def _some_bad(cluster: Cluster) -> bool:
    """Whether anything is out of order; usually nothing is, so there is nothing to find."""
    down = (node.state is NodeState.DOWN and node.leaves for node in cluster.nodes)
    return any(down) or any(not leaf.healthy for node in cluster.nodes for leaf in node.leaves)
