"""Nodes with their GPUs, and who holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import msgspec
from django.db.models import Q, QuerySet, Sum

from portal.clusters.models import Gpu, Node
from portal.clusters.selectors.shares import LIVE


class Holder(msgspec.Struct, frozen=True):
    """The task that holds a GPU, and of which job it is."""

    job_id: int
    job_name: str
    run: int
    user_id: int
    username: str
    vc_id: int
    vc: str
    role: str
    index: int
    standing: str

    @property
    def label(self) -> str:
        """``user/name#run``."""
        return f"{self.username}/{self.job_name}#{self.run}"


class GpuFacts(msgspec.Struct, frozen=True):
    """A GPU. No model's instance, since one answer may have thousands."""

    pk: int
    node_id: int
    index: int
    uuid: str
    sku: str
    model: str
    memory_mb: int
    present: bool
    fault: str

    @property
    def usable(self) -> bool:
        """Whether tasks may be placed on it."""
        return self.present and not self.fault


class GpuPlace(msgspec.Struct, frozen=True):
    """A GPU and who holds it."""

    gpu: GpuFacts
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node, its GPUs in the order of their indices, and what its tasks hold of CPU and memory."""

    node: Node
    gpus: list[GpuPlace]
    cpu_milli_held: int
    memory_mb_held: int


def node_loads(*, nodes: Sequence[Node]) -> list[NodeLoad]:
    """The nodes with their GPUs and holders, in the given order; three queries for any number of nodes.

    GPUs that are gone and held by nobody are left out. Whom the holder's name may be shown to says ``job_sight``.
    """
    holders = gpu_holders(Q(node__in=nodes))
    gpus: dict[int, list[GpuPlace]] = defaultdict(list)
    for gpu in starmap(GpuFacts, _gpu_rows(nodes)):
        if gpu.present or gpu.pk in holders:
            gpus[gpu.node_id].append(GpuPlace(gpu, holders.get(gpu.pk)))
    held = _held_by_tasks(nodes)
    return [NodeLoad(node, gpus[node.pk], *held.get(node.pk, (0, 0))) for node in nodes]


def _gpu_rows(nodes: Sequence[Node]) -> QuerySet[Gpu, tuple[Any, ...]]:
    columns = [{"pk": "id", "sku": "cell_type__sku__name"}.get(name, name) for name in GpuFacts.__struct_fields__]
    return Gpu.objects.filter(node__in=nodes).order_by("index", "pk").values_list(*columns)


def gpu_holders(which: Q) -> dict[int, Holder]:
    """The holder of each held GPU among these, by the GPU's id. One query."""
    task = "allocations__task_attempt__task__"
    job = f"{task}job__"
    columns = [
        *(f"{job}{name}" for name in ("id", "name", "run", "user_id", "user__username", "vc_id", "vc__name")),
        *(f"{task}role__name", f"{task}index", "allocations__standing"),
    ]
    rows = Gpu.objects.filter(LIVE, which).order_by().values_list("pk", *columns)
    return {row[0]: Holder(*row[1:]) for row in rows}


def _held_by_tasks(nodes: Sequence[Node]) -> dict[int, tuple[int, int]]:
    """(CPU in thousandths, memory in MB) held by tasks, by the node's id."""
    live = Q(task_attempts__isnull=False, task_attempts__released_at__isnull=True)
    rows = Node.objects.filter(live, pk__in=[node.pk for node in nodes]).order_by().values_list("pk")
    summed = rows.annotate(cpu=Sum("task_attempts__cpu_milli"), memory=Sum("task_attempts__memory_mb"))
    return {key: (cpu, memory) for key, cpu, memory in summed}
