"""Derives a node's topology from its GPUs. Plain Python: the rows are made elsewhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class GpuSite:
    """A GPU: its index and its groups. GPUs behind one NVLink or PCIe switch, or of one NUMA node, have equal numbers;
    None: unknown."""

    index: int
    nvlink_group: int | None = None
    pcie_group: int | None = None
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The tree of a node. ``sizes``: GPUs per cell on each level, from the node (all) down to one GPU. ``slots``: the
    GPUs' indices in tree order."""

    sizes: tuple[int, ...]
    slots: tuple[int, ...]


Groups = dict[int, int]
"""GPU index -> group."""


def shape_of(sites: Sequence[GpuSite]) -> Shape:
    """The tree of a node's GPUs; its levels are groups that are regular and nested.

    Groups are regular if all are equally large, larger than one GPU and smaller than the node. If two kinds cut across
    each other, NVLink counts before PCIe and PCIe before NUMA. Without such groups the GPUs lie directly under the
    node. Raises ValueError without GPUs.
    """
    if not sites:
        raise ValueError("a node without GPUs has no tree of them")
    kept: list[Groups] = []
    for kind in ("nvlink_group", "pcie_group", "numa"):
        groups = _regular({site.index: getattr(site, kind) for site in sites})
        if groups and all(_nested(groups, other) for other in kept) and not any(_same(groups, one) for one in kept):
            kept.append(groups)
    kept.sort(key=_size, reverse=True)
    node: Groups = {site.index: 0 for site in sites}
    levels = [node, *kept, {site.index: site.index for site in sites}]
    return Shape(tuple(_size(level) for level in levels), _tree_order(levels))


def _regular(found: dict[int, int | None]) -> Groups | None:
    groups = {index: group for index, group in found.items() if group is not None}
    sizes = set(Counter(groups.values()).values())
    regular = len(groups) == len(found) and len(sizes) == 1 and 1 < sizes.pop() < len(found)
    return groups if regular else None


def _size(groups: Groups) -> int:
    return max(Counter(groups.values()).values())


def _nested(one: Groups, other: Groups) -> bool:
    """Whether each group of the finer one lies within one group of the other."""
    finer, coarser = sorted((one, other), key=_size)
    around: dict[int, set[int]] = defaultdict(set)
    for index, group in finer.items():
        around[group].add(coarser[index])
    return all(len(outer) == 1 for outer in around.values())


def _same(one: Groups, other: Groups) -> bool:
    return _size(one) == _size(other) and _nested(one, other)


def _tree_order(levels: Iterable[Groups]) -> tuple[int, ...]:
    """Group by group on each level, the one with the smallest index first."""
    ranks: list[Groups] = []
    for groups in levels:
        first: dict[int, int] = {}
        for index in sorted(groups):
            first.setdefault(groups[index], index)
        ranks.append({index: first[group] for index, group in groups.items()})
    return tuple(sorted(ranks[0], key=lambda index: [rank[index] for rank in ranks]))


WORDS = {2: "pair", 4: "quad"}


@dataclass(frozen=True, slots=True)
class Level:
    """A cell type to create: ``child_count`` cells of the level below. ``name`` is used unless another structure has
    taken it."""

    name: str
    child_count: int
    node_level: bool


def levels_of(sku: str, sizes: Sequence[int]) -> list[Level]:
    """The cell types above the leaf of a node with these sizes, smallest first: ``A100-pair``, ``A100-quad``,
    ``A100-group6``, and for the node ``A100-node8``."""
    rising = sizes[::-1]
    last = len(rising) - 2
    return [
        Level(
            f"{sku}-node{upper}" if place == last else f"{sku}-{WORDS.get(upper, f'group{upper}')}",
            upper // lower,
            place == last,
        )
        for place, (lower, upper) in enumerate(pairwise(rising))
    ]
