"""Usage of virtual clusters (VCs) and of the whole cluster. It is derived from live rows; GPU holders are reached
through the reverse relation ``allocations``, so that nothing above is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, cast

from django.db.models import Count, FilteredRelation, Q, QuerySet

from portal.common.prepared import Prepared
from portal.common.row_versions import KeptResult, RowsVersion
from portal.hardware.models import Gpu, Node, Sku, takes_tasks
from portal.teams.models import VirtualCluster
from portal.teams.selectors.quotas import QuotaBook, quota_book

LIVE = Q(allocations__isnull=False, allocations__released_at__isnull=True)
"""Filter: held by a task."""


@dataclass(frozen=True, slots=True)
class SkuShare:
    """A VC's GPUs of one SKU: its quota; guaranteed: in use inside it; borrowed: beyond it; lent: unused ones that
    others have on loan; out: at least so many unused ones cannot be had now, since fewer GPUs are healthy, on nodes
    that take tasks and outside quota use."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int
    lent: int = 0
    out: int = 0

    @property
    def unused(self) -> int:
        """GPUs of the quota that the VC does not use."""
        return max(self.quota - self.guaranteed, 0)

    @property
    def scale(self) -> int:
        """GPUs that a bar's whole length means."""
        return max(self.quota, self.guaranteed) + self.borrowed or 1

    @property
    def over(self) -> int:
        """Where on a bar the borrowed part begins."""
        return self.scale - self.borrowed if self.scale > self.borrowed else 0


def vc_quotas(*, vcs: Iterable[VirtualCluster], book: QuotaBook | None = None) -> dict[int, dict[str, int]]:
    """GPUs guaranteed to each VC by quota and pinned cells, by its id and the SKU's name."""
    quotas: dict[int, dict[str, int]] = {vc.pk: {} for vc in vcs}
    book = book or quota_book()
    owned = [(key.vc_id, key.cell_type_id, count) for key, count in book.lines.items()]
    for vc_id, type_id, count in (*owned, *((vc, cell_type, 1) for vc, cell_type in book.pinned)):
        if vc_id in quotas:
            sku = book.types[type_id].sku.name
            quotas[vc_id][sku] = quotas[vc_id].get(sku, 0) + count * book.leaves[type_id]
    return quotas


def vc_shares(*, vcs: Iterable[VirtualCluster], book: QuotaBook | None = None) -> dict[int, list[SkuShare]]:
    """Each VC's shares by its id, sorted by SKU. A fixed number of queries for any number of VCs."""
    vcs, book = list(vcs), book or quota_book()
    counts, shut = _COUNTS.read(), set(_SHUT())
    used = counts.held
    lent, ready = _lent(counts, book), _ready(counts, shut)
    shares = {}
    for key, quota in vc_quotas(vcs=vcs, book=book).items():
        skus = sorted(quota.keys() | {sku for vc, sku, _ in used if vc == key})
        shares[key] = [
            SkuShare(
                sku=sku,
                quota=quota.get(sku, 0),
                guaranteed=used.get((key, sku, "guaranteed"), 0),
                borrowed=used.get((key, sku, "borrowed"), 0),
                lent=lent.get((key, sku), 0),
                out=max(0, quota.get(sku, 0) - used.get((key, sku, "guaranteed"), 0) - ready.get(sku, 0)),
            )
            for sku in skus
        ]
    return shares


Held = Mapping[tuple[int, str, str], int]
"""GPUs held by jobs, by (VC's id, SKU's name, standing)."""


def _held_count() -> Held:
    """Counts held GPUs. Holders and their VCs are queried separately, each by an index: a join made the database scan
    every task there ever was."""
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


def _lent(counts: _Counts, book: QuotaBook) -> dict[tuple[int, str], int]:
    """GPUs lent by (VC's id, SKU's name). All idle GPUs of a kind are alike: those that no quota covers are lent first,
    the rest in proportion to what each VC leaves idle, beyond what it has on loan itself."""
    used = counts.held
    loans = {(vc, sku): count for (vc, sku, standing), count in used.items() if standing == "borrowed"}
    if not loans:
        return {}
    quotas = vc_quotas(vcs=VirtualCluster.objects.all(), book=book)
    there = {sku: sum(one.fit for one in nodes.values()) for sku, nodes in counts.there.items()}
    lent: dict[tuple[int, str], int] = {}
    for sku in {sku for _, sku in loans}:
        owned = {vc: quota.get(sku, 0) for vc, quota in quotas.items()}
        unused = {vc: max(0, quota - used.get((vc, sku, "guaranteed"), 0)) for vc, quota in owned.items()}
        idle = {vc: max(0, count - loans.get((vc, sku), 0)) for vc, count in unused.items()}
        wanted = sum(max(0, count - unused.get(vc, 0)) for (vc, kind), count in loans.items() if kind == sku)
        out = wanted - max(0, there.get(sku, 0) - sum(owned.values()))
        lent |= {(vc, sku): count for vc, count in _shared_out(out, idle).items()}
    return lent


def _shared_out(amount: int, among: Mapping[int, int]) -> dict[int, int]:
    """Integer shares in proportion, at most what each has; the largest remainders get the rest."""
    whole = sum(among.values())
    amount = max(0, min(amount, whole))
    parts = {key: amount * count // whole for key, count in among.items()} if amount else {}
    rest = amount - sum(parts.values())
    by_remainder = sorted(parts, key=lambda key: (-(amount * among[key] % whole), key))
    return {key: parts[key] + (key in by_remainder[:rest]) for key in parts}


def _allocations() -> QuerySet[Any]:
    allocations: Any = Gpu._meta.get_field("allocations").related_model
    return cast(QuerySet[Any], allocations.objects.filter(released_at__isnull=True))


HELD = RowsVersion(_allocations, Gpu.objects.all)
"""Version that changes with every GPU given, released or changed."""


@dataclass(frozen=True, slots=True)
class SkuTotal:
    """GPUs of one SKU in the whole cluster: present, fit for new tasks (free or held), held, and free for new tasks;
    its price per hour, and its share of CPU and memory."""

    sku: str
    gpu_model: str
    memory_mb: int
    price: Decimal | None
    share_cpu_milli: int
    share_memory_mb: int
    gpus: int
    usable: int
    held: int
    free: int


def sku_totals() -> list[SkuTotal]:
    """Every SKU's GPUs, by name. Three queries if nothing was given or released, else four."""
    counted, shut = _COUNTS.read().there, set(_SHUT())
    totals = []
    for sku in _SKUS():
        nodes = counted.get(sku.name, {})
        there, held = sum(one.there for one in nodes.values()), sum(one.held for one in nodes.values())
        open_ones = [one for node, one in nodes.items() if node not in shut]
        usable = sum(one.fit for one in open_ones)
        free = usable - sum(one.taken for one in open_ones)
        about = (sku.name, sku.gpu_model, sku.gpu_memory_mb, sku.price, sku.cpu_milli, sku.memory_mb)
        totals.append(SkuTotal(*about, there, usable, held, free))
    return totals


class _Counted(NamedTuple):
    """GPUs of one SKU on one node: present, fit, held; and of the fit ones held, and held inside a quota."""

    there: int
    fit: int
    held: int
    taken: int
    owned: int


def _gpus_count() -> Mapping[str, Mapping[int, _Counted]]:
    """GPU counts by SKU and node."""
    fit = Q(present=True, fault="")
    live = FilteredRelation("allocations", condition=Q(allocations__released_at__isnull=True))
    rows = Gpu.objects.annotate(live=live).order_by().values_list("cell_type__sku__name", "node").annotate(
        there=Count("pk", filter=Q(present=True)),
        fit=Count("pk", filter=fit),
        held=Count("live"),
        taken=Count("live", filter=fit),
        owned=Count("live", filter=fit & Q(live__standing="guaranteed")),
    )  # fmt: skip
    counted: dict[str, dict[int, _Counted]] = {}
    for sku, node, *counts in rows:
        counted.setdefault(sku, {})[node] = _Counted(*counts)
    return counted


def _ready(counts: _Counts, shut: set[int]) -> dict[str, int]:
    """GPUs by SKU name that jobs could have inside their quotas now: fit, on nodes that take tasks, idle or on loan."""
    return {
        sku: sum(one.fit - one.owned for node, one in nodes.items() if node not in shut)
        for sku, nodes in counts.there.items()
    }


class _Counts(NamedTuple):
    """GPU counts by holder and by node."""

    held: Held
    there: Mapping[str, Mapping[int, _Counted]]


_COUNTS = KeptResult(HELD, lambda: _Counts(_held_count(), _gpus_count()))
"""A job's VC changes only while it waits; whatever it may still hold then is rewritten (``job_change_vc``)."""
_SHUT = Prepared(lambda: Node._base_manager.exclude(takes_tasks()).values_list("pk", flat=True))
"""Nodes that take no new tasks: few, and they change with every late report."""
_SKUS = Prepared(lambda: Sku.objects.order_by("name"))
