"""How full virtual clusters (VCs) and the whole cluster are. Usage is derived from live rows; the holders of GPUs are
reached through the reverse relation ``allocations``, so that nothing above is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, FilteredRelation, Model, Q, QuerySet

from portal.clusters.models import Gpu, Node, Sku, VirtualCluster
from portal.clusters.selectors.quotas import quota_book
from portal.clusters.states import NodeHealth, NodeIntent
from portal.common.row_versions import KeptResult, RowsVersion

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
    """The GPUs guaranteed to each VC, by its id and the SKU's name: its quota and its pinned cells."""
    quotas: dict[int, dict[str, int]] = {vc.pk: {} for vc in vcs}
    book = quota_book()
    owned = [(key.vc_id, key.cell_type_id, count) for key, count in book.lines.items()]
    for vc_id, type_id, count in (*owned, *((vc, cell_type, 1) for vc, cell_type in book.pinned)):
        if vc_id in quotas:
            sku = book.types[type_id].sku.name
            quotas[vc_id][sku] = quotas[vc_id].get(sku, 0) + count * book.leaves[type_id]
    return quotas


def vc_shares(*, vcs: Iterable[VirtualCluster]) -> dict[int, list[SkuShare]]:
    """Each VC's shares by its id, in the order of SKU names. A fixed number of queries for any number of VCs."""
    vcs = list(vcs)
    used = _gpus_held.read()
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


Held = Mapping[tuple[int, str, str], int]
"""GPUs held by jobs, by (VC's id, SKU's name, standing)."""


def _held_count() -> Held:
    """Who holds and whose that is are asked for singly: each enters an index, where both at once had the database go
    through every task there ever was."""
    attempt, vc = "allocations__task_attempt", "task_attempts__job_attempt__job__vc"
    columns = (attempt, "cell_type__sku__name", "allocations__standing")
    held = list(_held().values_list(*columns).annotate(number=Count("pk")))
    nodes = Node.objects.filter(task_attempts__in={row[0] for row in held}).order_by()
    owners = dict(nodes.values_list("task_attempts__pk", vc))
    counts: dict[tuple[int, str, str], int] = {}
    for holder, sku, standing, number in held:
        if holder in owners:
            key = owners[holder], sku, standing
            counts[key] = counts.get(key, 0) + number
    return counts


def _held() -> QuerySet[Gpu]:
    return Gpu.objects.filter(LIVE).order_by()


def _models() -> list[type[Model]]:
    return [Gpu, Gpu._meta.get_field("allocations").related_model]


_gpus_held = KeptResult(RowsVersion(_held, _models), _held_count)
"""A job's VC changes only while it waits; what it may still hold then is written anew (``job_change_vc``)."""


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
    """Every SKU's GPUs, in the order of names; two queries."""
    fit = Q(present=True, fault="", node__intent=NodeIntent.OPEN, node__health=NodeHealth.HEALTHY)
    live = FilteredRelation("allocations", condition=Q(allocations__released_at__isnull=True))
    rows = Gpu.objects.annotate(live=live).order_by().values_list("cell_type__sku").annotate(
        there=Count("pk", filter=Q(present=True)),
        fit=Count("pk", filter=fit),
        held=Count("live"),
        taken=Count("live", filter=fit),
    )  # fmt: skip
    found = {row[0]: row[1:] for row in rows}
    totals = []
    for sku in Sku.objects.order_by("name"):
        there, usable, held, taken = found.get(sku.pk, (0, 0, 0, 0))
        kind = (sku.name, sku.gpu_model, sku.gpu_memory_mb, sku.price)
        totals.append(SkuTotal(*kind, there, usable, held, free=usable - taken))
    return totals
