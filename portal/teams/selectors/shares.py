"""How full virtual clusters (VCs) and the whole cluster are. Usage is derived from live rows; the holders of GPUs are
reached through the reverse relation ``allocations``, so that nothing above is imported."""

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
"""GPUs that a task holds."""


@dataclass(frozen=True, slots=True)
class SkuShare:
    """A VC's GPUs of one SKU: guaranteed to it, in use inside that guarantee, borrowed beyond it; lent: of the unused
    ones those that others have on loan; out: of the unused ones at least so many cannot be had now, since the GPUs that
    are well, on servers that take tasks, and in nobody's quota's use are fewer."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int
    lent: int = 0
    out: int = 0

    @property
    def unused(self) -> int:
        """GPUs of the quota that nobody of the VC uses."""
        return max(self.quota - self.guaranteed, 0)

    @property
    def scale(self) -> int:
        """What the whole length of a bar stands for."""
        return max(self.quota, self.guaranteed) + self.borrowed or 1

    @property
    def over(self) -> int:
        """Where on a bar what is borrowed begins."""
        return self.scale - self.borrowed if self.scale > self.borrowed else 0


def vc_quotas(*, vcs: Iterable[VirtualCluster], book: QuotaBook | None = None) -> dict[int, dict[str, int]]:
    """The GPUs guaranteed to each VC, by its id and the SKU's name: its quota and its pinned cells."""
    quotas: dict[int, dict[str, int]] = {vc.pk: {} for vc in vcs}
    book = book or quota_book()
    owned = [(key.vc_id, key.cell_type_id, count) for key, count in book.lines.items()]
    for vc_id, type_id, count in (*owned, *((vc, cell_type, 1) for vc, cell_type in book.pinned)):
        if vc_id in quotas:
            sku = book.types[type_id].sku.name
            quotas[vc_id][sku] = quotas[vc_id].get(sku, 0) + count * book.leaves[type_id]
    return quotas


def vc_shares(*, vcs: Iterable[VirtualCluster], book: QuotaBook | None = None) -> dict[int, list[SkuShare]]:
    """Each VC's shares by its id, in the order of SKU names. A fixed number of queries for any number of VCs."""
    vcs, book = list(vcs), book or quota_book()
    counts, shut = _counts.read(), set(_SHUT())
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


def _lent(counts: _Counts, book: QuotaBook) -> dict[tuple[int, str], int]:
    """GPUs on loan by (VC's id, SKU's name) of whose idle quota they are. All idle GPUs of a kind are alike: those that
    no quota covers are lent first, the rest in proportion to what each VC leaves idle, beyond what it has
    on loan itself."""
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
    """Whole parts in proportion, no more than each has; what rounding leaves goes to the larger remainders."""
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
"""What changes with every GPU that is given, released or another one."""


@dataclass(frozen=True, slots=True)
class SkuTotal:
    """GPUs of one SKU in the whole cluster: there, fit for new tasks (free or held), held, and free for new tasks;
    what one costs for an hour, and what CPU and memory go with it."""

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
    """Every SKU's GPUs, in the order of names. Three queries as long as nothing was given or released, else four."""
    counted, shut = _counts.read().there, set(_SHUT())
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
    """GPUs of one SKU on one node: there, fit, held; and of the fit ones held, and held inside a quota."""

    there: int
    fit: int
    held: int
    taken: int
    owned: int


def _gpus_count() -> Mapping[str, Mapping[int, _Counted]]:
    """By SKU's name and node's id."""
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
    """By SKU's name the GPUs that jobs could have inside their quotas now: fit, on nodes that take tasks, idle or on
    loan."""
    return {
        sku: sum(one.fit - one.owned for node, one in nodes.items() if node not in shut)
        for sku, nodes in counts.there.items()
    }


class _Counts(NamedTuple):
    """``held``: by whom; ``there``: where."""

    held: Held
    there: Mapping[str, Mapping[int, _Counted]]


_counts = KeptResult(HELD, lambda: _Counts(_held_count(), _gpus_count()))
"""A job's VC changes only while it waits; what it may still hold then is written anew (``job_change_vc``)."""
_SHUT = Prepared(lambda: Node._base_manager.exclude(takes_tasks()).values_list("pk", flat=True))
"""Nodes that take no new tasks: few, and they come and go with every report that is late."""
_SKUS = Prepared(lambda: Sku.objects.order_by("name"))
