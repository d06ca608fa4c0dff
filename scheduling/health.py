"""Doomed cells: quota that would have to sit on bad hardware if it were wanted now."""

from collections import Counter
from typing import NamedTuple

from scheduling.bindings import Bindings, Grid
from scheduling.snapshot import Snapshot


class Doomed(NamedTuple):
    """Of a virtual cluster's free cells of one type, `cells` of them cannot be had on good hardware."""

    vc: str
    chain: str
    cell_type: str
    cells: int


def doomed(snapshot: Snapshot) -> tuple[Doomed, ...]:
    """The doomed cells of every virtual cluster, by HiveD's rule.

    For each virtual cluster by itself: free quota cells of a type beyond those that could be cut out of what no
    quota is bound to and that have no bad leaf. So none is doomed while each single team could still be served,
    even if all together could not. Pinned cells are where they are: a bad one shows its own health.
    """
    return doomed_among(Bindings.of(snapshot, Grid(snapshot.cluster)))


def doomed_among(bindings: Bindings) -> tuple[Doomed, ...]:
    """The doomed cells where these bindings hold."""
    bad = bindings.grid.bad
    good = {kind: sum(bad.isdisjoint(one) for one in cells) for kind, cells in bindings.whole().items()}
    found = []
    for vc in bindings.grid.quota:
        free = Counter((cell.chain, cell.cell_type) for cell in bindings.free(vc))
        short = ((kind, count - good.get(kind, 0)) for kind, count in free.items())
        found += [Doomed(vc, *kind, count) for kind, count in short if count > 0]
    return tuple(sorted(found))
