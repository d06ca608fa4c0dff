"""Builds the engine's cluster from rows: nodes with their cells, virtual clusters with quota and rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from django.conf import settings

import scheduling
from portal.common.priorities import CAPPED_CLASS, PRIORITY_CLASSES
from portal.common.row_versions import KeptResult, RowsVersion
from portal.hardware.models import CellType, Sku, UpperCell
from portal.hardware.selectors.leaf_cells import NOTHING_GIVEN_UP, GivenUp, LeafCells, Leaves, NodeRow, leaf_names
from portal.hardware.states import NodeHealth
from portal.teams.models import RULES, LoanLimit, PinnedCell, QuotaChange, QuotaChangeLine, QuotaLine, VirtualCluster
from portal.teams.selectors.quotas import Chains, Lines, QuotaBook, leaves_by_cell_type, quota_lines
from scheduling.cycle.context import ClusterContext

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ClusterRows:
    """The cluster for the engine, and the rows its ids stand for."""

    cluster: scheduling.Cluster
    nodes: dict[str, NodeRow]  # by engine id
    leaf_ids: dict[int, str]  # GPU row id -> leaf id, also of replaced GPUs
    gpus: dict[str, int]  # leaf id -> row id of the GPU that is there
    vc_names: dict[int, str]
    type_names: dict[int, str]
    borrow: dict[int, str]  # default of a virtual cluster's jobs, by its row id
    chains: Chains
    book: QuotaBook

    def with_quotas(self, lines: Lines) -> scheduling.Cluster:
        """The same cluster with these quotas."""
        if lines == self.book.lines:
            return self.cluster
        quota = quota_of(lines, self.type_names, self.chains)
        rows = {name: key for key, name in self.vc_names.items()}
        vcs = tuple(replace(vc, quota=quota.get(rows[vc.id], ())) for vc in self.cluster.virtual_clusters)
        return replace(self.cluster, virtual_clusters=vcs)


def quota_of(
    lines: Lines, type_names: Mapping[int, str], chains: Chains
) -> dict[int, tuple[scheduling.QuotaLine, ...]]:
    """The engine's quota lines by virtual cluster, without zeros. A line names its chain if several have its type:
    chains come and go with nodes, and that must not make a line stop the scheduler."""
    quota: dict[int, list[scheduling.QuotaLine]] = defaultdict(list)
    for key, count in chains.meant(lines).items():
        if count:
            quota[key.vc_id].append(scheduling.QuotaLine(type_names[key.cell_type_id], count, chains.needed(key)))
    return {vc: tuple(own) for vc, own in quota.items()}


_Made = tuple[tuple[object, ...], scheduling.Node]
"""A node and its inputs."""


class _Configuration:
    """Administrators' settings, from a fixed number of small tables."""

    def __init__(self) -> None:
        self.types = {row.pk: row for row in CellType.objects.select_related("sku")}
        self.type_names = {key: row.name for key, row in self.types.items()}
        self.leaf_names = leaf_names(self.types)
        self.upper = list(UpperCell.objects.order_by("address"))
        self.pinned = list(PinnedCell.objects.order_by("name"))
        self.vcs = list(VirtualCluster.objects.order_by("name"))
        self.vc_names = {vc.pk: vc.name for vc in self.vcs}
        self.borrow = {vc.pk: vc.default_borrow for vc in self.vcs}
        self.cell_types = tuple(
            scheduling.CellType(row.name, self.type_names[row.child_id], row.child_count, row.is_node_level)
            for row in self.types.values()
            if row.child_id is not None
        )
        self.lines = quota_lines()
        self.rules = rules_read(self.vcs)
        pinned = tuple((cell.vc_id, cell.cell_type_id) for cell in self.pinned if cell.vc_id is not None)
        self.book = QuotaBook(self.types, leaves_by_cell_type(self.types), self.vc_names, self.lines, pinned)

    def virtual_clusters(self, chains: Chains) -> tuple[scheduling.VirtualCluster, ...]:
        """Virtual clusters with their quotas, given the chains of each type."""
        quota = quota_of(self.lines, self.type_names, chains)
        pinned: dict[int | None, list[str]] = defaultdict(list)
        for cell in self.pinned:
            pinned[cell.vc_id].append(cell.name)
        return tuple(
            scheduling.VirtualCluster(
                vc.name, quota.get(vc.pk, ()), tuple(pinned[vc.pk]), self.rules[vc.pk], vc.host_network
            )
            for vc in self.vcs
        )

    def chains(self, nodes: Sequence[NodeRow]) -> Chains:
        """The chains in which each type has cells, by these nodes."""
        upper = {row.pk: row for row in self.upper}
        found: dict[int, set[str]] = defaultdict(set)
        for shape, cell, chain in {(node.shape_id, node.upper_id, node.chain) for node in nodes}:
            name = chain or (self.leaf_names[shape] if shape else "")
            while shape is not None:
                found[shape].add(name)
                shape = self.types[shape].child_id
            while cell is not None:
                found[upper[cell].cell_type_id].add(name)
                cell = upper[cell].parent_id
        return Chains({key: sorted(chains) for key, chains in found.items()}, self.leaf_names)


_TABLES = (Sku, CellType, UpperCell, PinnedCell, VirtualCluster, LoanLimit, QuotaLine, QuotaChange, QuotaChangeLine)
"""Tables that ``_Configuration`` reads."""


class _Built(NamedTuple):
    """A cluster, its inputs, and its nodes by name with theirs."""

    made_from: tuple[object, ...]
    nodes: Mapping[str, _Made]
    cluster: scheduling.Cluster


class ClusterReader:
    """Reads the cluster in a fixed number of queries, and builds anew only what has changed since its last reading.
    Quotas may exceed the hardware, some of which may be gone: their jobs wait."""

    def __init__(self) -> None:
        self._configuration = KeptResult(RowsVersion(*(model.objects.all for model in _TABLES)), _Configuration)
        self._leaf_cells = LeafCells()
        self._last: _Built | None = None
        self._context: tuple[scheduling.Cluster, ClusterContext] | None = None

    def read(self, given_up: GivenUp = NOTHING_GIVEN_UP) -> ClusterRows:
        """The cluster as of the caller's transaction, without the resources that were given up."""
        configuration, nodes = self._configuration.read(), self._leaf_cells.nodes()
        leaves = self._leaf_cells.leaves(nodes, given_up.gpus)
        chains = configuration.chains(nodes)
        self._last = built = _Builder(configuration, nodes, leaves, chains, given_up).build(self._last)
        return ClusterRows(
            cluster=built.cluster,
            nodes={node.name: node for node in nodes},
            leaf_ids=leaves.ids,
            gpus=leaves.gpus,
            vc_names=configuration.vc_names,
            type_names=configuration.type_names,
            borrow=configuration.borrow,
            chains=chains,
            book=configuration.book,
        )

    def context(self) -> ClusterContext:
        """What tells whether a job could ever start on the cluster as it is now."""
        cluster, last = self.read().cluster, self._context
        if last is None or last[0] is not cluster:
            last = self._context = cluster, ClusterContext(cluster)
        return last[1]


CLUSTER = ClusterReader()
"""By which the pages and services of this process read the cluster."""


def cluster_read() -> ClusterRows:
    """The cluster, for pages and services."""
    return CLUSTER.read()


class _Builder:
    """Builds the engine's cluster of rows."""

    def __init__(
        self,
        configuration: _Configuration,
        nodes: Sequence[NodeRow],
        leaves: Leaves,
        chains: Chains,
        given_up: GivenUp,
    ) -> None:
        self.configuration, self.nodes, self.leaves = configuration, nodes, leaves
        self.chains, self.given_up, self.policy = chains, given_up, policy()
        self.made_from = (
            configuration, leaves, [node.description for node in nodes], given_up, self.policy,
            settings.GPU_RESERVE_PERCENT,
        )  # fmt: skip

    def build(self, last: _Built | None) -> _Built:
        """The cluster; the last one if inputs or result are equal, since a new one is validated as a whole."""
        if last is not None and last.made_from == self.made_from:
            return last
        nodes = {node.name: self._node(node, last.nodes.get(node.name) if last else None) for node in self.nodes}
        parts = self._parts(tuple(node for _, node in nodes.values()))
        if last is not None and all(getattr(last.cluster, name) == part for name, part in parts.items()):
            return last._replace(made_from=self.made_from, nodes=nodes)
        cluster = scheduling.Cluster(**parts, quotas_may_exceed=True)
        return _Built(self.made_from, nodes, cluster)

    def _parts(self, nodes: tuple[scheduling.Node, ...]) -> dict[str, Any]:
        return {
            "nodes": nodes,
            "virtual_clusters": self.configuration.virtual_clusters(self.chains),
            "cell_types": self.configuration.cell_types,
            "upper_cells": self._upper_cells(),
            "pinned_cells": self._pinned_cells(),
            "policy": self.policy,
        }

    def _node(self, node: NodeRow, last: _Made | None) -> _Made:
        """The node; the last reading's if it is equal."""
        shape_id = node.shape_id
        shape = self.configuration.type_names[shape_id] if shape_id else ""
        leaf_type = self.configuration.leaf_names[shape_id] if shape_id else ""
        out, given_up = self.leaves.out(node), self.given_up.amounts.get(node.pk, (0, 0))
        made_from = (node.description, shape, leaf_type, out, given_up, settings.GPU_RESERVE_PERCENT)
        if last is not None and last[0] == made_from:
            return last
        cpu_milli, memory_mb = given_up
        slots = node.slots if shape_id else ()
        leaves = tuple(
            scheduling.Leaf(f"{node.name}/{slot}", node.name, slot, leaf_type, slot not in out) for slot in slots
        )
        return made_from, scheduling.Node(
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
            cpu_tasks=node.cpu_tasks,
        )

    def _upper_cells(self) -> tuple[scheduling.UpperCell, ...]:
        children: dict[int, list[str]] = defaultdict(list)
        for row in self.configuration.upper:
            if row.parent_id is not None:
                children[row.parent_id].append(row.address)
        for node in self.nodes:
            if node.upper_id is not None:
                children[node.upper_id].append(node.name)
        names = self.configuration.type_names
        return tuple(
            scheduling.UpperCell(row.address, names[row.cell_type_id], tuple(children[row.pk]))
            for row in self.configuration.upper
        )

    def _pinned_cells(self) -> tuple[scheduling.PinnedCell, ...]:
        nodes = {node.pk: node.name for node in self.nodes}
        upper = {row.pk: row.address for row in self.configuration.upper}
        names = self.configuration.type_names
        return tuple(
            scheduling.PinnedCell(
                id=cell.name,
                cell_type=names[cell.cell_type_id],
                at=upper[cell.upper_id] if cell.upper_id else nodes[cell.node_id or 0],
                first=cell.first,
            )
            for cell in self.configuration.pinned
        )


_RULES = RULES.keys() & {one.name for one in fields(scheduling.Rules)}
"""Those that the engine knows, too: by the same names."""


def rules_read(vcs: list[VirtualCluster]) -> dict[int, scheduling.Rules]:
    """Each virtual cluster's rules, by its id. One query."""
    borrow: dict[int, dict[str, int]] = defaultdict(dict)
    lend: dict[int, dict[str, int]] = defaultdict(dict)
    for limit in LoanLimit.objects.select_related("sku"):
        if limit.max_borrow is not None:
            borrow[limit.vc_id][limit.sku.name] = limit.max_borrow
        if limit.max_lend is not None:
            lend[limit.vc_id][limit.sku.name] = limit.max_lend
    return {
        vc.pk: scheduling.Rules(
            max_borrow=borrow[vc.pk],
            max_lend=lend[vc.pk],
            class_priority=None if vc.class_gpus is None else PRIORITY_CLASSES[CAPPED_CLASS],
            **{name: getattr(vc, name) for name in _RULES},
        )
        for vc in vcs
    }


def policy() -> scheduling.Policy:
    """The cluster-wide scheduling policy, from the settings."""
    return scheduling.Policy(
        half_life_ms=settings.FAIR_SHARE_HALF_LIFE_H * HOUR_MS,
        backfill=settings.BACKFILL,
        first_to_pay=scheduling.FirstToPay(settings.FIRST_TO_PAY),
        unsaved_cap_ms=settings.UNSAVED_WORK_CAP_S * 1000,
    )


def _reserve(amount: int, gpus: int) -> int | None:
    """Amount kept free per idle GPU: a part of the node's share of it."""
    return amount * settings.GPU_RESERVE_PERCENT // (100 * gpus) if gpus else None


def _state(node: NodeRow) -> scheduling.NodeState:
    if node.health != NodeHealth.HEALTHY:
        return scheduling.NodeState.DOWN
    return scheduling.NodeState(node.intent)
