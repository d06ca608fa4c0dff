"""GPU kinds that waiting jobs want: only jobs with a kind in common stand in each other's way.

A role that names no kind may have any that its virtual cluster owns, in an opportunistic job any that exists, as the
scheduler tries them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from django.db.models import Q, QuerySet

from portal.hardware.models import Sku
from portal.jobs.models import Job, TaskRole
from portal.teams.models import PinnedCell, VirtualCluster
from portal.teams.selectors.shares import vc_quotas

Kinds = frozenset[str]
"""SKU names; empty: no GPUs wanted."""

Named = tuple[str | None, str]
"""The SKU (None: any) and the pinned cell (empty: none) that a role with GPUs names."""


def kinds_wanted(*, jobs: Sequence[Job]) -> dict[int, Kinds]:
    """Kinds by job id; needs the jobs' virtual clusters loaded. One query, and more if a role names no kind."""
    named: dict[int, list[Named]] = defaultdict(list)
    columns = ("sku__name", "pinned_cell", "job")
    for sku, pin, job in _with_gpus().filter(job__in=[job.pk for job in jobs]).values_list(*columns):
        named[job].append((sku, pin))
    offered = _Offered({job.vc_id: job.vc for job in jobs}.values())
    return {job.pk: offered.kinds(job, named[job.pk]) for job in jobs}


def roles_kinds(*, job: Job, among: QuerySet[Job]) -> Kinds:
    """All kinds wanted by these jobs of the job's virtual cluster and class. As many queries."""
    named = _with_gpus().filter(job__in=among.order_by().values("pk")).values_list("sku__name", "pinned_cell")
    return _Offered([job.vc]).kinds(job, named.distinct())


def wanting(*, job: Job, kinds: Kinds) -> QuerySet[TaskRole]:
    """Roles that want one of the kinds, provided they are of the job's virtual cluster and class."""
    offered = _Offered([job.vc])
    some = Q(sku__name__in=kinds)
    if not kinds.isdisjoint(offered.kinds(job, [(None, "")])):
        some |= Q(sku=None, pinned_cell="")
    if pins := [pin for pin, sku in offered.pins.items() if sku in kinds]:
        some |= Q(sku=None, pinned_cell__in=pins)
    return _with_gpus().filter(some)


def _with_gpus() -> QuerySet[TaskRole]:
    return TaskRole.objects.filter(gpus__gt=0).order_by()


class _Offered:
    """Kinds for roles that name none; looked up on demand."""

    def __init__(self, vcs: Iterable[VirtualCluster]) -> None:
        self._vcs = list(vcs)

    def kinds(self, job: Job, named: Iterable[Named]) -> Kinds:
        """The kinds that these roles, of the job's virtual cluster and class, may have."""
        found = set[str]()
        for sku, pin in named:
            if sku is not None:
                found.add(sku)
            elif pin and pin in self.pins:
                found.add(self.pins[pin])
            else:
                found |= self._owned[job.vc_id] if job.priority >= 0 and self._owned[job.vc_id] else self.every
        return frozenset(found)

    @cached_property
    def pins(self) -> dict[str, str]:
        """The SKU of each pinned cell."""
        return dict(PinnedCell.objects.order_by().values_list("name", "cell_type__sku__name"))

    @cached_property
    def every(self) -> Kinds:
        """All kinds; a nameless one if there are none yet, for roles that want any."""
        return frozenset(Sku.objects.order_by().values_list("name", flat=True)) or frozenset([""])

    @cached_property
    def _owned(self) -> dict[int, Kinds]:
        quotas = vc_quotas(vcs=self._vcs)
        return {vc: frozenset(sku for sku, gpus in skus.items() if gpus) for vc, skus in quotas.items()}
