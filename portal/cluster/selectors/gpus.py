"""Every GPU of the cluster: position, state, holder and current reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q, QuerySet

from portal.accounts.models import User
from portal.cluster.selectors.holders import Holder, gpu_holders, gpus_held
from portal.common.prepared import Among, Prepared
from portal.hardware.models import Gpu, takes_tasks
from portal.hardware.selectors.live import Live, gpus_live
from portal.teams.selectors.shares import LIVE
from portal.teams.selectors.visible import node_restrict


class GpuState(StrEnum):
    """State of a GPU; the first that applies."""

    FAULTY = "faulty"  # fenced off, or not there any more
    HELD = "held"  # by a task
    UNAVAILABLE = "unavailable"  # its node takes no tasks, or it has no slot itself
    FREE = "free"


_FAULTY = Q(present=False) | ~Q(fault="")
_OPEN = takes_tasks("node__") & Q(slot__isnull=False)


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU with its node, holder, state and current reading."""

    gpu: Gpu
    holder: Holder | None
    state: GpuState
    live: Live | None


def gpu_restrict(*, user: User) -> QuerySet[Gpu]:
    """GPUs that the user may see: those present, or held by a task."""
    there = Q(present=True) | Q(pk__in=_held())
    return Gpu.objects.filter(there, node__in=node_restrict(user=user))


def _held() -> QuerySet[Gpu, int]:
    return Gpu.objects.filter(LIVE).values_list("pk", flat=True)


def gpus_in_state(gpus: QuerySet[Gpu], states: Iterable[str]) -> QuerySet[Gpu]:
    """Those of them in one of these states."""
    held = Q(pk__in=_held())
    conditions = {
        GpuState.FAULTY: _FAULTY,
        GpuState.HELD: ~_FAULTY & held,
        GpuState.UNAVAILABLE: ~_FAULTY & ~held & ~_OPEN,
        GpuState.FREE: ~_FAULTY & ~held & _OPEN,
    }
    wanted = Q(pk__in=[])
    for state in states:
        wanted |= conditions[GpuState(state)]
    return gpus.filter(wanted)


def gpus_held_by(gpus: QuerySet[Gpu], *, vc: str) -> QuerySet[Gpu]:
    """Those of them held by the virtual cluster's jobs."""
    return gpus.filter(pk__in=[gpu for gpu, held in gpus_held().items() if held.holder.vc == vc])


def gpu_rows(*, ids: Sequence[int]) -> list[GpuRow]:
    """GPUs by id, in this order. Two queries, and one Redis request."""
    rows, holders = {gpu.pk: gpu for gpu in _WITH_NODES(gpus=ids)}, gpu_holders(gpus=ids)
    gpus = [rows[one] for one in ids if one in rows]
    live = gpus_live(nodes={gpu.node.name for gpu in gpus})
    return [
        GpuRow(gpu, holder, _state(gpu, holder), live.get((gpu.node.name, gpu.uuid)))
        for gpu in gpus
        for holder in [holders.get(gpu.pk)]
    ]


def _with_nodes() -> QuerySet[Gpu]:
    rows = Gpu.objects.filter(Among("id", "gpus")).select_related("node", "cell_type__sku").order_by()
    return rows.defer("node__inventory", "node__storages")


_WITH_NODES = Prepared(_with_nodes)


def _state(gpu: Gpu, holder: Holder | None) -> GpuState:
    if not gpu.usable:
        return GpuState.FAULTY
    if holder is not None:
        return GpuState.HELD
    is_open = gpu.node.takes_tasks and gpu.slot is not None
    return GpuState.FREE if is_open else GpuState.UNAVAILABLE
