"""Slack of the empty cluster, with which HiveD's safety begins: how many cells of each type may be split."""

from scheduling.cells.cell_index import CellIndex
from scheduling.cells.node_bits import bits, free_cells

CellKind = tuple[str, str]
"""A cell type in a chain: (chain, type)."""


def first_slack(layout: CellIndex, full: list[int]) -> dict[CellKind, int]:
    """For every cell type that quotas name, or that these are made of: all cells less those reserved for quotas."""
    slack: dict[CellKind, int] = {}
    for quota in layout.quotas:
        kind, count = quota.cell_type, quota.leaves if quota.loose else 1
        while True:
            slack[quota.chain, kind] = slack.get((quota.chain, kind), 0) - count
            made_of = layout.types.get(kind)
            if made_of is None:
                break
            kind, count = made_of.child, count * made_of.child_count
    for number, shape in enumerate(layout.shapes):
        for name, count in zip(shape.names, free_cells(shape.sizes, full[number]), strict=True):
            if (layout.chains[number], name) in slack:
                slack[layout.chains[number], name] += count
    for upper in layout.uppers:
        key = (layout.chains[next(bits(upper.nodes))], upper.cell_type) if upper.nodes else ("", "")
        if key in slack:
            slack[key] += 1
    return slack
