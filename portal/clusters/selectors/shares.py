"""How full virtual clusters (VCs) and the whole cluster are. Usage is derived from live rows; the holders of GPUs are
reached through the reverse relation ``allocations``, so that nothing above is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from portal.clusters.models import CellType, Gpu, Sku, VirtualCluster
from portal.clusters.selectors.quotas import pinned_lines, quota_lines
from portal.clusters.states import NodeHealth, NodeIntent

LIVE = Q(allocations__isnull=False, allocations__released_at__isnull=True)
"""GPUs that a task holds."""


@dataclass(frozen=True, slots=True)
class SkuShare:
    """A VC's GPUs of one SKU: guaranteed to it, in use inside that guarantee, and borrowed beyond it."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int

    @property
    def free(self) -> int:
        """GPUs of the quota that nobody of the VC uses."""
        return max(self.quota - self.guaranteed, 0)


def vc_quotas(*, vcs: Iterable[VirtualCluster]) -> dict[int, dict[str, int]]:
    """The GPUs guaranteed to each VC, by its id and the SKU's name: its quota and its pinned cells. Four queries for
    any number of VCs."""
    quotas: dict[int, dict[str, int]] = {vc.pk: {} for vc in vcs}
    types = {row.pk: row for row in CellType.objects.select_related("sku")}
    leaves = leaves_by_cell_type(types)
    owned = [(key.vc_id, key.cell_type_id, count) for key, count in quota_lines().items()]
    owned += [(vc, cell_type.pk, 1) for vc, cells in pinned_lines().items() for cell_type in cells]
    for vc_id, type_id, count in owned:
        if vc_id in quotas:
            sku = types[type_id].sku.name
            quotas[vc_id][sku] = quotas[vc_id].get(sku, 0) + count * leaves[type_id]
    return quotas


def vc_shares(*, vcs: Iterable[VirtualCluster]) -> dict[int, list[SkuShare]]:
    """Each VC's shares by its id, in the order of SKU names. Five queries for any number of VCs."""
    vcs = list(vcs)
    used = _gpus_in_use(vcs)
    shares = {}
    for key, quota in vc_quotas(vcs=vcs).items():
        skus = sorted(quota.keys() | {sku for vc, sku, _ in used if vc == key})
        shares[key] = [
            SkuShare(
                sku=sku,
                quota=quota.get(sku, 0),
                guaranteed=used.get((key, sku, "guaranteed"), 0),
                borrowed=used.get((key, sku, "borrowed"), 0),
            )
            for sku in skus
        ]
    return shares


def leaves_by_cell_type(types: Mapping[int, CellType]) -> dict[int, int]:
    """How many GPUs a cell of each type has, by the type's id."""

    def leaves(key: int) -> int:
        child = types[key].child_id
        return 1 if child is None else types[key].child_count * leaves(child)

    return {key: leaves(key) for key in types}


def _gpus_in_use(vcs: Sequence[VirtualCluster]) -> dict[tuple[int, str, str], int]:
    """GPUs held by jobs, by (VC's id, SKU's name, standing)."""
    vc, sku, standing = "allocations__task_attempt__task__job__vc", "cell_type__sku__name", "allocations__standing"
    rows = Gpu.objects.filter(LIVE, **{f"{vc}__in": vcs}).order_by().values_list(vc, sku, standing)
    return {(row[0], row[1], row[2]): row[3] for row in rows.annotate(number=Count("pk"))}


@dataclass(frozen=True, slots=True)
class SkuTotal:
    """GPUs of one SKU in the whole cluster: there, fit for new tasks (free or held), held, and free for new tasks."""

    sku: str
    gpu_model: str
    memory_mb: int
    gpus: int
    usable: int
    held: int
    free: int


def sku_totals() -> list[SkuTotal]:
    """Every SKU's GPUs, in the order of names; one query."""
    usable = Q(
        cell_types__gpus__present=True,
        cell_types__gpus__fault="",
        cell_types__gpus__node__intent=NodeIntent.OPEN,
        cell_types__gpus__node__health=NodeHealth.HEALTHY,
    )
    present = Q(cell_types__gpus__present=True)
    held = Q(
        cell_types__gpus__in=Gpu.objects.filter(LIVE).values("pk"),
    )

    def gpus(condition: Q) -> Count:
        return Count("cell_types__gpus", filter=condition, distinct=True)

    skus = Sku.objects.annotate(
        there=gpus(present), usable=gpus(usable), held=gpus(held), free=gpus(usable & ~held)
    ).order_by("name")
    return [
        SkuTotal(sku.name, sku.gpu_model, sku.gpu_memory_mb, sku.there, sku.usable, sku.held, sku.free) for sku in skus
    ]
