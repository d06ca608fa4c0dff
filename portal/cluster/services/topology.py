"""Turns a node's topology into cells: once when its first report brings it, then only when an administrator says.

Later differences in reports are health. A GPU keeps its ``slot``, its position in the accepted topology, whatever index
it has today (the others' indices move when one falls off the bus).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited
from portal.cluster import wordings
from portal.cluster.services.racks import rack_form, rack_leave
from portal.common.errors import Conflict
from portal.common.wake import scheduler_wake
from portal.hardware.models import CellType, Gpu, Node, Sku
from portal.hardware.services.cells import cell_type_for, cell_types_clean, leaf_of, leaf_type
from portal.hardware.services.fences import fences_lift
from portal.hardware.services.nodes import node_event
from portal.hardware.topology import GpuSite, levels_of, shape_of
from portal.teams.services.cluster_version import cluster_change
from portal.teams.services.quota_checks import shortages_now

OUTSIDE = "not part of the node's topology: "


def topology_take_first(*, node: Node, now: datetime) -> None:
    """Take the topology of a node that has none yet, from its reported GPUs. Inside the caller's transaction."""
    if node.shape_id is None and (gpus := _present(node)):
        _take(node, gpus, now, actor="")


def topology_take(*, node: Node, now: datetime, actor: str) -> Node:
    """Take the node's topology anew, from its current report.

    Raises Conflict if its cells come from a configuration, if a GPU in use would have no slot, or if the quotas could
    no longer be carved out.
    """
    if node.chain:
        raise Conflict(
            gettext("The cells of %(node)s come from a configuration; import a changed one.") % {"node": node.name}
        )
    with cluster_change():
        # No task is placed there from now on, and earlier decisions find another version.
        Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        Node.objects.filter(pk=node.pk).update(placement_version=F("placement_version") + 1)
        gpus = _present(node)
        if not gpus:
            raise Conflict(gettext("%(node)s reports no GPU.") % {"node": node.name})
        before, cells = shortages_now(), _cells_of(node)
        rack_leave(node=node)
        _check_free(node, gpus)
        _take(node, gpus, now, actor)
        if worse := [one for one in shortages_now() if one not in before]:
            raise Conflict("; ".join(worse))
        cell_types_clean()
        audit_write(Audited.NODE_TOPOLOGY, actor=actor, target=node.name, now=now, before=cells, after=_cells_of(node))
        transaction.on_commit(scheduler_wake)
    return node


def _cells_of(node: Node) -> dict[str, object]:
    """The topology as logged in the audit log."""
    return {"shape": node.shape.name if node.shape else None, "slots": node.slots, "rack": node.rack}


def _present(node: Node) -> list[Gpu]:
    return list(Gpu.objects.filter(node=node, present=True).select_related("cell_type__sku").order_by("index"))


def _check_free(node: Node, gpus: Sequence[Gpu]) -> None:
    # A GPU is held under its current slot.
    held = Gpu.objects.filter(node=node, allocations__isnull=False, allocations__released_at__isnull=True)
    if held.exclude(pk__in=[gpu.pk for gpu in _alike(gpus) if gpu.slot == gpu.index]).exists():
        raise Conflict(
            gettext("A GPU of %(node)s is in use whose place would change; drain the node first.") % {"node": node.name}
        )


def _alike(gpus: Sequence[Gpu]) -> list[Gpu]:
    """GPUs of the most common model: the others get no slot."""
    models = Counter(gpu.model for gpu in gpus)
    model = min(models, key=lambda name: (-models[name], name))
    return [gpu for gpu in gpus if gpu.model == model]


def _take(node: Node, gpus: Sequence[Gpu], now: datetime, actor: str) -> None:
    inside = _alike(gpus)
    leaf = leaf_type(sku=sku_of(inside[0], node, len(gpus)))
    shape = shape_of([_site(gpu) for gpu in inside])
    node_type = leaf
    for level in levels_of(leaf.name, shape.sizes):
        node_type = cell_type_for(level=level, child=node_type)
    node.shape, node.slots, node.sku, node.rack = node_type, list(shape.slots), leaf.sku, node.inventory.get("rack", "")
    Node.objects.filter(pk=node.pk).update(shape=node_type, slots=node.slots, sku=leaf.sku, rack=node.rack)
    Gpu.objects.filter(node=node).update(slot=None)
    Gpu.objects.filter(pk__in=[gpu.pk for gpu in inside]).update(slot=F("index"), cell_type=leaf)
    for gpu in gpus:
        if gpu not in inside:
            gpu_leave_out(gpu=gpu, why=f"its node has {leaf.name}")
    gpus_let_in(node=node)
    message = wordings.TOPOLOGY(node=node.name, shape=node_type.name, indices=[*map(str, node.slots)])
    node_event(node=node, code="topology", message=message, now=now, actor=actor)
    rack_form(node=node, now=now)


def _site(gpu: Gpu) -> GpuSite:
    return GpuSite(gpu.index, *(gpu.details.get(name) for name in ("nvlink_group", "pcie_group", "numa")))


def gpu_leave_out(*, gpu: Gpu, why: str) -> None:
    """Fence off a GPU that has no slot in its node's topology."""
    nothing_else = Q(fault="") | Q(fault__startswith=OUTSIDE)
    Gpu.objects.filter(nothing_else, pk=gpu.pk).update(fault=OUTSIDE + why)


def gpus_let_in(*, node: Node) -> None:
    """Lift these fences from GPUs that have got a slot."""
    fences_lift(Gpu.objects.filter(node=node, fault__startswith=OUTSIDE, slot__isnull=False))


def gpu_settle(*, node: Node, gpu: Gpu, others: Collection[Gpu]) -> None:
    """Give a GPU that is new on a node with a topology the slot of one that is gone: the one at its PCI address, else
    that of its index, else the first free one. Without a slot it is fenced off."""
    if node.shape is None:
        return
    leaf = leaf_of(node.shape)
    taken = {other.slot for other in others if other.present and other.pk != gpu.pk}
    free = [slot for slot in node.slots if slot not in taken]
    if leaf.sku.gpu_model not in {"", gpu.model}:
        gpu_leave_out(gpu=gpu, why=f"its node has {leaf.name}")
    elif not free:
        gpu_leave_out(gpu=gpu, why="its node has no place left; an administrator can take the topology anew")
    else:
        _sku_learn(leaf.sku, gpu)
        pci = gpu.details.get("pci")
        same = [other.slot for other in others if pci and other.details.get("pci") == pci and other.slot in free]
        slot = next(iter([*same, *(one for one in free if one == gpu.index), *free]))
        Gpu.objects.filter(pk=gpu.pk).update(slot=slot, cell_type=leaf)
        gpu.slot, gpu.cell_type = slot, leaf


def _sku_learn(sku: Sku, gpu: Gpu) -> None:
    """Sets the model of a SKU that a configuration named, from its first GPU."""
    Sku.objects.filter(pk=sku.pk, gpu_model="").update(gpu_model=gpu.model, gpu_memory_mb=gpu.memory_mb)


def sku_of(gpu: Gpu, node: Node, gpus: int) -> Sku:
    """The SKU of this GPU's model; created if missing, with the GPU's share of its node."""
    defaults = {
        "gpu_model": gpu.model,
        "gpu_memory_mb": gpu.memory_mb,
        "cpu_milli": node.cpu_milli // max(gpus, 1),
        "memory_mb": node.memory_mb // max(gpus, 1),
    }
    return Sku.objects.get_or_create(name=sku_name(gpu.model), defaults=defaults)[0]


def sku_name(model: str) -> str:
    """SKU name of a GPU model: ``NVIDIA A100-SXM4-80GB`` -> ``A100-SXM4-80GB``."""
    words = model.removeprefix("NVIDIA ").strip() or "GPU"
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in words)[:64]


def gpu_type_before_topology(*, node: Node, model: str, memory_mb: int, gpus: int) -> CellType:
    """Provisional leaf cell type of a GPU until its node has a topology."""
    return leaf_type(sku=sku_of(Gpu(model=model, memory_mb=memory_mb), node, gpus))
