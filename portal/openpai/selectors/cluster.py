"""The cluster as OpenPAI's clients ask for it: virtual clusters (VCs) in CPU, memory and GPUs, storages, what runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet, Sum

from portal.accounts.models import User
from portal.hardware.doomed import doomed_read
from portal.hardware.models import Gpu, Sku
from portal.jobs.models import TaskAttempt
from portal.openpai.errors import forbidden, no_storage
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_restrict
from portal.teams.models import VirtualCluster
from portal.teams.selectors.details import cell_types
from portal.teams.selectors.shares import vc_quotas, vc_shares


@dataclass(frozen=True, slots=True)
class Amount:
    """CPU in cores, memory in MB."""

    cpu: int
    memory_mb: int
    gpu: int


@dataclass(frozen=True, slots=True)
class VcLoad:
    """What a VC is guaranteed (``total``), how much of it can be had now (``good``), what its jobs hold; and the GPUs
    of the whole cluster."""

    used: Amount
    good: Amount
    total: Amount
    cluster_gpus: int


def vc_loads(*, vcs: Sequence[VirtualCluster]) -> dict[str, VcLoad]:
    """The loads by the VC's name; a fixed number of queries and one reading of doomed cells for each VC."""
    units, shares, held = _units(), vc_shares(vcs=vcs), _held(vcs)
    cluster = Gpu.objects.filter(present=True).count()
    sizes = {kind.row.name: (kind.row.sku.name, kind.gpus) for kind in cell_types()}
    loads = {}
    for vc in vcs:
        quota = {share.sku: share.quota for share in shares[vc.pk]}
        good = dict(quota)
        for doomed in doomed_read(vc.name):
            sku, gpus = sizes.get(doomed.cell_type, ("", 0))
            good[sku] = max(good.get(sku, 0) - doomed.cells * gpus, 0)
        gpus_used = sum(share.guaranteed + share.borrowed for share in shares[vc.pk])
        cpu, memory = held.get(vc.pk, (0, 0))
        loads[vc.name] = VcLoad(
            Amount(cpu // 1000, memory, gpus_used), _amount(good, units), _amount(quota, units), cluster
        )
    return loads


def _units() -> dict[str, Sku]:
    return {sku.name: sku for sku in Sku.objects.all()}


def _amount(gpus: dict[str, int], units: dict[str, Sku]) -> Amount:
    known = {name: count for name, count in gpus.items() if name in units}
    cpu = sum(units[name].cpu_milli * count for name, count in known.items()) // 1000
    return Amount(cpu, sum(units[name].memory_mb * count for name, count in known.items()), sum(known.values()))


def _held(vcs: Sequence[VirtualCluster]) -> dict[int, tuple[int, int]]:
    """(CPU in thousandths, memory in MB) held by tasks, by the VC's id."""
    rows = TaskAttempt.objects.filter(released_at__isnull=True, task__job__vc__in=vcs).order_by()
    summed = rows.values_list("task__job__vc").annotate(cpu=Sum("cpu_milli"), memory=Sum("memory_mb"))
    return {vc: (cpu, memory) for vc, cpu, memory in summed}


def sku_units(*, vc: VirtualCluster | None) -> dict[str, Sku]:
    """The SKUs of a VC's quota, of all there are without a VC."""
    units = _units()
    if vc is None:
        return units
    owned = vc_quotas(vcs=[vc])[vc.pk]
    return {name: sku for name, sku in units.items() if owned.get(name)}


def user_storage(*, user: User, name: str) -> Storage:
    """A storage that the user's jobs may mount; NoStorageError, or ForbiddenUserError for one of others."""
    found = storage_restrict(user=user).filter(name=name).first()
    if found is None and Storage.objects.filter(name=name).exists():
        raise forbidden(f"User {user.username} is not allowed to access {name}.")
    if found is None:
        raise no_storage(name)
    return found


def pods() -> QuerySet[TaskAttempt]:
    """The runs of tasks that hold something on a node, with all that tells whose they are."""
    related = ("task__role", "task__job__user", "task__job__vc", "node")
    heavy = ("spec_sealed", "log_tail", "task__job__spec", "task__job__config", "task__job__secrets_sealed")
    live = TaskAttempt.objects.filter(released_at__isnull=True).select_related(*related).defer(*heavy)
    return live.prefetch_related("allocations").order_by("created_at", "id")
