"""The cluster as the scheduling engine wants it: nodes with their cells, virtual clusters with quota and rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.conf import settings

import scheduling
from portal.clusters.models import CellType, LoanLimit, PinnedCell, UpperCell, VirtualCluster
from portal.clusters.selectors.hardware import GivenUp, Leaves, NodeRow, leaf_names, leaves_read, node_rows
from portal.clusters.selectors.quotas import Lines, quota_lines
from portal.clusters.states import NodeHealth
from portal.common.priorities import CAPPED_CLASS, PRIORITY_CLASSES

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ClusterRows:
    """The cluster for the engine, and what its ids are called in the database."""

    cluster: scheduling.Cluster
    nodes: dict[str, NodeRow]  # by engine id
    leaf_ids: dict[int, str]  # GPU row id -> leaf id, also of GPUs that another has taken the place of
    gpus: dict[str, int]  # leaf id -> row id of the GPU that is there
    vc_names: dict[int, str]
    type_names: dict[int, str]

    def with_quotas(self, lines: Lines) -> scheduling.Cluster:
        """The same cluster with these quotas."""
        quota = quota_of(lines, self.type_names)
        rows = {name: key for key, name in self.vc_names.items()}
        vcs = tuple(replace(vc, quota=quota.get(rows[vc.id], ())) for vc in self.cluster.virtual_clusters)
        return replace(self.cluster, virtual_clusters=vcs)


def quota_of(lines: Lines, type_names: Mapping[int, str]) -> dict[int, tuple[scheduling.QuotaLine, ...]]:
    """The engine's quota lines by virtual cluster, from those that are more than nothing."""
    quota: dict[int, list[scheduling.QuotaLine]] = defaultdict(list)
    for key, count in lines.items():
        if count:
            quota[key.vc_id].append(scheduling.QuotaLine(type_names[key.cell_type_id], count, key.chain))
    return {vc: tuple(own) for vc, own in quota.items()}


def cluster_read(*, given_up: GivenUp | None = None, lines: Lines | None = None) -> ClusterRows:
    """Read it with a fixed number of queries; ``lines`` stand in the quotas' place where they are given.

    Quotas may exceed the hardware, some of which may be gone: their jobs wait.
    """
    return _Reader(given_up or GivenUp(), quota_lines() if lines is None else lines).read()


_Made = tuple[tuple[object, ...], scheduling.Node]
"""A node and what it was made from."""

_nodes: dict[str, _Made] = {}
"""The nodes of the last reading, by name."""


class _Reader:
    def __init__(self, given_up: GivenUp, lines: Lines) -> None:
        self.given_up, self.lines = given_up, lines
        self.types = {row.pk: row for row in CellType.objects.select_related("sku")}
        self.type_names = {key: row.name for key, row in self.types.items()}
        self.leaf_names = leaf_names(self.types)
        self.nodes = node_rows()

    def read(self) -> ClusterRows:
        leaves = leaves_read(self.nodes, self.given_up.gpus)
        upper = self._upper_cells()
        vcs = list(VirtualCluster.objects.order_by("name"))
        cluster = _cluster(
            nodes=self._nodes(leaves),
            virtual_clusters=self._virtual_clusters(vcs),
            cell_types=tuple(
                scheduling.CellType(row.name, self.type_names[row.child_id], row.child_count, row.is_node_level)
                for row in self.types.values()
                if row.child_id is not None
            ),
            upper_cells=upper,
            pinned_cells=tuple(self._pinned_cell(cell) for cell in self.pinned),
            policy=policy(),
        )
        return ClusterRows(
            cluster=cluster,
            nodes={node.name: node for node in self.nodes},
            leaf_ids=leaves.ids,
            gpus=leaves.gpus,
            vc_names={vc.pk: vc.name for vc in vcs},
            type_names=self.type_names,
        )

    # The hardware

    def _nodes(self, found: Leaves) -> tuple[scheduling.Node, ...]:
        """Those of the last reading where nothing of them has changed."""
        made = {node.name: self._node(node, found, _nodes.get(node.name)) for node in self.nodes}
        _nodes.clear()
        _nodes.update(made)
        return tuple(node for _, node in made.values())

    def _node(self, node: NodeRow, found: Leaves, last: _Made | None) -> _Made:
        leaves = found.of(node, self.leaf_names[node.shape_id]) if node.shape_id else ()
        shape = self.type_names[node.shape_id] if node.shape_id else ""
        given_up = self.given_up.amounts.get(node.pk, (0, 0))
        facts = (node.description, leaves, shape, given_up, settings.GPU_RESERVE_PERCENT)
        if last is not None and last[0] == facts:
            return last
        cpu_milli, memory_mb = given_up
        return facts, scheduling.Node(
            id=node.name,
            cpu_milli=max(node.cpu_milli - cpu_milli, 0),
            memory_mb=max(node.memory_mb - memory_mb, 0),
            leaves=leaves,
            state=_state(node),
            sku=leaves[0].cell_type if leaves else "",
            reserve_cpu_milli=_reserve(node.cpu_milli, len(leaves)),
            reserve_memory_mb=_reserve(node.memory_mb, len(leaves)),
            shape=shape,
            chain=node.chain,
        )

    def _upper_cells(self) -> tuple[scheduling.UpperCell, ...]:
        rows = {row.pk: row for row in UpperCell.objects.order_by("address")}
        children: dict[int, list[str]] = defaultdict(list)
        for row in rows.values():
            if row.parent_id is not None:
                children[row.parent_id].append(row.address)
        for node in self.nodes:
            if node.upper_id is not None:
                children[node.upper_id].append(node.name)
        self.upper = {row.pk: row.address for row in rows.values()}
        return tuple(
            scheduling.UpperCell(row.address, self.types[row.cell_type_id].name, tuple(children[row.pk]))
            for row in rows.values()
        )

    @cached_property
    def pinned(self) -> list[PinnedCell]:
        return list(PinnedCell.objects.select_related("node").order_by("name"))

    def _pinned_cell(self, cell: PinnedCell) -> scheduling.PinnedCell:
        at = cell.node.name if cell.node else self.upper[cell.upper_id or 0]
        return scheduling.PinnedCell(cell.name, self.types[cell.cell_type_id].name, at, cell.first)

    # The virtual clusters

    def _virtual_clusters(self, vcs: list[VirtualCluster]) -> tuple[scheduling.VirtualCluster, ...]:
        quota = quota_of(self.lines, self.type_names)
        pinned: dict[int | None, list[str]] = defaultdict(list)
        for cell in self.pinned:
            pinned[cell.vc_id].append(cell.name)
        rules = rules_read(vcs)
        return tuple(
            scheduling.VirtualCluster(vc.name, quota.get(vc.pk, ()), tuple(pinned[vc.pk]), rules[vc.pk]) for vc in vcs
        )


_last: list[scheduling.Cluster] = []


def _cluster(**parts: Any) -> scheduling.Cluster:
    """A cluster of these parts; the last one where they are the same, as they are nearly always, since a new one is
    checked as a whole."""
    for last in list(_last):
        if all(getattr(last, name) == part for name, part in parts.items()):
            return last
    made = scheduling.Cluster(**parts, quotas_may_exceed=True)
    _last[:] = [made]
    return made


def rules_read(vcs: list[VirtualCluster]) -> dict[int, scheduling.Rules]:
    """What each virtual cluster allows its users, by its id. One query."""
    borrow: dict[int, dict[str, int]] = defaultdict(dict)
    lend: dict[int, dict[str, int]] = defaultdict(dict)
    for limit in LoanLimit.objects.select_related("sku"):
        if limit.max_borrow is not None:
            borrow[limit.vc_id][limit.sku.name] = limit.max_borrow
        if limit.max_lend is not None:
            lend[limit.vc_id][limit.sku.name] = limit.max_lend
    return {
        vc.pk: scheduling.Rules(
            weight=vc.weight,
            max_borrow=borrow[vc.pk],
            max_lend=lend[vc.pk],
            user_factor=vc.user_factor,
            user_gpus=vc.user_gpus,
            class_priority=None if vc.class_gpus is None else PRIORITY_CLASSES[CAPPED_CLASS],
            class_gpus=vc.class_gpus,
        )
        for vc in vcs
    }


def policy() -> scheduling.Policy:
    """How the whole cluster is scheduled, from the settings."""
    return scheduling.Policy(
        half_life_ms=settings.FAIR_SHARE_HALF_LIFE_H * HOUR_MS,
        backfill=settings.BACKFILL,
        first_to_pay=scheduling.FirstToPay(settings.FIRST_TO_PAY),
        unsaved_cap_ms=settings.UNSAVED_WORK_CAP_S * 1000,
    )


def _reserve(amount: int, gpus: int) -> int | None:
    """What stays free per idle GPU: a part of the node's share of it."""
    return amount * settings.GPU_RESERVE_PERCENT // (100 * gpus) if gpus else None


def _state(node: NodeRow) -> scheduling.NodeState:
    if node.health != NodeHealth.HEALTHY:
        return scheduling.NodeState.DOWN
    return scheduling.NodeState(node.intent)
