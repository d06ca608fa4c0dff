"""Nodes with their GPUs, and the holders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import msgspec
from django.db.models import Q, QuerySet, Sum

from portal.cluster.selectors.holders import Holder, gpu_holders
from portal.common.prepared import Among, Prepared
from portal.hardware.models import Gpu, Node
from portal.hardware.outages import FOUND_BY_NODE


class GpuFacts(msgspec.Struct, frozen=True):
    """A GPU; no model instance, since an answer may have thousands."""

    pk: int
    node_id: int
    index: int
    uuid: str
    sku: str
    model: str
    memory_mb: int
    present: bool
    fault: str
    told: str

    @property
    def fault_of_node(self) -> bool:
        """Whether it is fenced off for its node's report."""
        return self.fault.startswith(FOUND_BY_NODE)

    @property
    def usable(self) -> bool:
        """Whether tasks may be placed on it."""
        return self.present and not self.fault


class GpuPlace(msgspec.Struct, frozen=True):
    """A GPU and its holder."""

    gpu: GpuFacts
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node, its GPUs in index order, and the CPU and memory that its tasks hold."""

    node: Node
    gpus: list[GpuPlace]
    cpu_milli_held: int
    memory_mb_held: int


def node_loads(*, nodes: Sequence[Node]) -> list[NodeLoad]:
    """Nodes with their GPUs and holders, in the given order; three queries for any number of nodes.

    GPUs that are gone and held by nobody are left out. ``job_sight`` says who may see a holder's name.
    """
    ids = [node.pk for node in nodes]
    found = [*starmap(GpuFacts, _GPUS_ON(nodes=ids))]
    holders = gpu_holders(gpus=[gpu.pk for gpu in found])
    gpus: dict[int, list[GpuPlace]] = defaultdict(list)
    for gpu in found:
        if gpu.present or gpu.pk in holders:
            gpus[gpu.node_id].append(GpuPlace(gpu, holders.get(gpu.pk)))
    held = {key: (cpu, memory) for key, cpu, memory in _TASKS_ON(nodes=ids)}
    return [NodeLoad(node, gpus[node.pk], *held.get(node.pk, (0, 0))) for node in nodes]


def _gpus_on() -> QuerySet[Gpu, tuple[Any, ...]]:
    columns = [{"pk": "id", "sku": "cell_type__sku__name"}.get(name, name) for name in GpuFacts.__struct_fields__]
    return Gpu.objects.filter(Among("node", "nodes")).order_by("index", "pk").values_list(*columns)


def _tasks_on() -> QuerySet[Node, tuple[int, int, int]]:
    """Id, CPU in thousandths and memory in MB held by tasks, per node that has any."""
    live = Q(task_attempts__isnull=False, task_attempts__released_at__isnull=True)
    rows = Node.objects.filter(live, Among("id", "nodes")).order_by().values_list("pk")
    return rows.annotate(cpu=Sum("task_attempts__cpu_milli"), memory=Sum("task_attempts__memory_mb"))


_GPUS_ON = Prepared(_gpus_on)
_TASKS_ON = Prepared(_tasks_on)
