"""Nodes as their reports would have made them: the first by a report, the others like it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Model

from nodes.protocol.envelope import NodeKey
from nodes.protocol.messages import GpuInfo, Inventory, Report
from portal.cluster.services.node_report import node_report
from portal.hardware.models import Gpu, Node
from portal.hardware.services.nodes import node_add
from portal.hardware.services.silence import lane_pulse
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.services.quotas import Wish, lines_resolve, quotas_set
from tests.benchmarks.filling.sizes import NODE_GPUS, Sizes

BATCH = 2000
NODE = "filled-"
"""What the nodes' names begin with."""

Any_row = TypeVar("Any_row", bound=Model)


def nodes_make(count: int, now: datetime) -> Node:
    """``filled-0001`` and so on, with 8 GPUs each in pairs and quads; the first one's row."""
    lane_pulse(now=now)
    name = f"{NODE}0001"
    row = node_add(name=name, public_key=NodeKey.generate().public, now=now, accept=True, cpu_tasks=True)
    row.refresh_from_db()
    assert node_report(node=row, report=_report(name, now), now=now)
    row.refresh_from_db()
    gpus = list(Gpu.objects.filter(node=row).order_by("index"))
    copies = (
        copied(row, name=f"{NODE}{number:04}", address=f"10.0.{number // 250}.{number % 250 + 1}")
        for number in range(2, count + 1)
    )
    nodes = Node.objects.bulk_create(copies, batch_size=BATCH)
    leaves = (copied(gpu, node_id=node.pk, uuid=f"GPU-{node.name}-{gpu.index}") for node in nodes for gpu in gpus)
    Gpu.objects.bulk_create(leaves, batch_size=BATCH)
    return row


def _report(name: str, now: datetime) -> Report:
    gpus = tuple(
        GpuInfo(
            uuid=f"GPU-{name}-{index}", index=index, model="NVIDIA A100-SXM4-80GB", memory_mb=81_920,
            numa=index // 4, nvlink_group=index // 4, pcie_group=index // 2, driver="570.86.15", cuda="12.8",
        )
        for index in range(NODE_GPUS)
    )  # fmt: skip
    inventory = Inventory(
        hostname=name, cpu_milli=96_000, memory_mb=1_048_576, gpus=gpus, simulated=True, address="10.0.0.1",
        interface="eth0", runtime="docker", engine="docker 28.2.2", agent=settings.VERSION,
        storages=tuple(Storage.objects.filter(jobs=True).values_list("root", flat=True)),
    )  # fmt: skip
    moment = int(now.timestamp() * 1000)
    return Report(
        cluster=settings.CLUSTER_NAME, node=name, boot=moment, seq=1, generation=0, sent_ms=moment, inventory=inventory
    )


def copied(row: Any_row, **changes: Any) -> Any_row:
    """A new row like this one but for the changes."""
    columns = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return type(row)(**{**columns, "id": None, **changes})


def quotas_share(sizes: Sizes, vcs: Collection[int], first: Node, now: datetime) -> None:
    """Each of these virtual clusters gets as many whole nodes, where there are enough, else as many GPUs."""
    whole = sizes.nodes // sizes.vcs
    assert first.shape
    leaf = first.gpus.select_related("cell_type").first()
    assert leaf
    cell_type, count = (first.shape.name, whole) if whole else (leaf.cell_type.name, sizes.vc_gpus)
    wishes = [
        Wish(vc=name, cell_type=cell_type, count=count)
        for name in VirtualCluster.objects.filter(pk__in=vcs).values_list("name", flat=True)
    ]
    quotas_set(lines=lines_resolve(wishes), now=now, actor="")
