"""How full virtual clusters (VCs) and the whole cluster are. Usage is derived from live rows; the holders of GPUs are
reached through the reverse relation ``allocations``, so that nothing above is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Q, QuerySet

from portal.clusters.models import CellType, Gpu, Node, Sku, VirtualCluster
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
    """Each VC's shares by its id, in the order of SKU names. Six queries for any number of VCs."""
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
    """GPUs held by jobs, by (VC's id, SKU's name, standing). Who holds and whose that is are asked for singly: each
    enters its own index of live rows, where both at once had the database go through every task there ever was."""
    vc, live = "task_attempts__job_attempt__job__vc", Q(task_attempts__released_at__isnull=True)
    # One call of filter: two would join every task of a node with every other.
    owners = dict(Node.objects.filter(live, **{f"{vc}__in": vcs}).order_by().values_list("task_attempts__pk", vc))
    held = Gpu.objects.filter(LIVE).order_by()
    rows = held.values_list("allocations__task_attempt", "cell_type__sku__name", "allocations__standing")
    counts: dict[tuple[int, str, str], int] = {}
    for attempt, sku, standing, number in rows.annotate(number=Count("pk")):
        if attempt in owners:
            key = owners[attempt], sku, standing
            counts[key] = counts.get(key, 0) + number
    return counts


@dataclass(frozen=True, slots=True)
class SkuTotal:
    """GPUs of one SKU in the whole cluster: there, fit for new tasks (free or held), held, and free for new tasks;
    what one costs for an hour."""

    sku: str
    gpu_model: str
    memory_mb: int
    price: Decimal | None
    gpus: int
    usable: int
    held: int
    free: int


def sku_totals() -> list[SkuTotal]:
    """Every SKU's GPUs, in the order of names; five queries."""
    fit = Q(present=True, fault="", node__intent=NodeIntent.OPEN, node__health=NodeHealth.HEALTHY)
    there = _by_sku(Gpu.objects.filter(present=True))
    usable, held = _by_sku(Gpu.objects.filter(fit)), _by_sku(Gpu.objects.filter(LIVE))
    taken = _by_sku(Gpu.objects.filter(LIVE).filter(fit))
    return [
        SkuTotal(
            sku=sku.name,
            gpu_model=sku.gpu_model,
            memory_mb=sku.gpu_memory_mb,
            price=sku.price,
            gpus=there.get(sku.pk, 0),
            usable=usable.get(sku.pk, 0),
            held=held.get(sku.pk, 0),
            free=usable.get(sku.pk, 0) - taken.get(sku.pk, 0),
        )
        for sku in Sku.objects.order_by("name")
    ]


def _by_sku(gpus: QuerySet[Gpu]) -> dict[int, int]:
    return dict(gpus.order_by().values_list("cell_type__sku").annotate(number=Count("pk")))
