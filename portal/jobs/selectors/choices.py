"""Choices for a new job: the user's virtual clusters (VCs) with their unused GPUs, hardware, storages, images,
secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Q

from portal.accounts.models import User
from portal.common.priorities import PRIORITY_CLASSES, PriorityClass
from portal.hardware.models import Sku
from portal.images.selectors import ImagePatterns
from portal.jobs.models import Job
from portal.jobs.states import CLASS_CHANGES, JobState
from portal.secrets.models import SecretKind, StoredSecret
from portal.storages.models import Storage
from portal.storages.selectors.storages import storage_restrict
from portal.teams.models import PinnedCell, VirtualCluster
from portal.teams.selectors.rights import highest_class, highest_classes
from portal.teams.selectors.shares import SkuShare, vc_shares
from portal.teams.selectors.visible import vcs_for_submit

RECENT_JOBS = 30
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class VcChoice:
    """A VC that the user may submit to; ``classes``: the priority classes that the user may give a job there."""

    vc: VirtualCluster
    shares: list[SkuShare]
    classes: tuple[PriorityClass, ...]

    @property
    def unused(self) -> str:
        """The unused GPUs of its quota by SKU, as ``A100:4 H100:0``."""
        return " ".join(f"{share.sku}:{share.unused}" for share in self.shares)


@dataclass(frozen=True, slots=True)
class Offered:
    """A named choice and the VCs that have it. ``vcs``: their names; ``note``: a remark on it."""

    name: str
    vcs: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """``images``: of the user's last jobs, and those allowed by full name. ``patterns``: which images may run, if not
    all. ``own_secrets``: the user's; ``secrets``: the VCs'."""

    vcs: list[VcChoice]
    skus: list[Sku]
    storages: list[Offered]
    images: list[str]
    patterns: list[Offered]
    own_secrets: list[str]
    secrets: list[Offered]
    reserved: list[Offered]


def vc_choices(*, user: User) -> list[VcChoice]:
    """The VCs that the user may submit to, with their GPUs by SKU."""
    vcs = list(vcs_for_submit(user))
    shares, highest = vc_shares(vcs=vcs), highest_classes(user=user, vcs=vcs)
    return [VcChoice(vc, shares[vc.pk], _up_to(highest[vc.pk])) for vc in vcs]


def _up_to(highest: PriorityClass) -> tuple[PriorityClass, ...]:
    most = PRIORITY_CLASSES[highest]
    return tuple(name for name, number in PRIORITY_CLASSES.items() if number <= most)


def job_choices(*, user: User) -> Choices:
    """All choices for the user. A fixed number of queries."""
    vcs = vc_choices(user=user)
    names = {one.vc.pk: one.vc.name for one in vcs}
    patterns = _patterns(names)
    exact = [one.name for one in patterns if not _WILD & set(one.name)]
    own, of_vcs = _secrets(user, names)
    return Choices(
        vcs=vcs,
        skus=list(Sku.objects.all()),
        storages=_storages(user, names),
        images=list(dict.fromkeys([*_recent_images(user), *exact])),
        patterns=patterns,
        own_secrets=own,
        secrets=of_vcs,
        reserved=_grouped(PinnedCell.objects.filter(vc__in=names).values_list("name", "vc__name")),
    )


def _patterns(names: Mapping[int, str]) -> list[Offered]:
    rules = ImagePatterns()
    return _grouped((pattern, name) for key, name in names.items() for pattern in rules.of(key)) if rules else []


def _grouped(pairs: Iterable[tuple[str, str | None]]) -> list[Offered]:
    found: dict[str, list[str]] = {}
    for name, vc in pairs:
        found.setdefault(name, []).append(vc or "")
    return [Offered(name, tuple(vcs)) for name, vcs in sorted(found.items())]


def _storages(user: User, names: Mapping[int, str]) -> list[Offered]:
    rows = storage_restrict(user=user).prefetch_related("vcs")
    return [Offered(row.name, _vcs_of(row, names), "read_only" if row.only_read else "") for row in rows]


def _vcs_of(storage: Storage, names: Mapping[int, str]) -> tuple[str, ...]:
    if storage.everyone:
        return tuple(names.values())
    return tuple(vc.name for vc in storage.vcs.all() if vc.pk in names)


def _recent_images(user: User) -> list[str]:
    """The image of the first task role of each of the user's last jobs, newest first."""
    rows = Job.objects.filter(user=user).order_by("-id").values_list("spec__roles__0__image__uri", flat=True)
    return [uri for uri in dict.fromkeys(rows[:RECENT_JOBS]) if isinstance(uri, str)]


def _secrets(user: User, names: Mapping[int, str]) -> tuple[list[str], list[Offered]]:
    rows = StoredSecret.objects.filter(Q(user=user) | Q(vc__in=names), kind=SecretKind.SECRET)
    pairs = list(rows.order_by("name").values_list("name", "vc__name"))
    return [name for name, vc in pairs if vc is None], _grouped(pair for pair in pairs if pair[1] is not None)


def classes_offered(*, job: Job, user: User) -> list[PriorityClass]:
    """The classes, highest first, that the user may give the job now, including its own; empty if there is no other.
    Needs the job's VC loaded."""
    if job.state not in CLASS_CHANGES:
        return []
    highest = PRIORITY_CLASSES[highest_class(user=user, vc=job.vc)]
    may = [
        name
        for name, number in PRIORITY_CLASSES.items()
        if number == job.priority
        or (number <= highest and (job.state == JobState.WAITING or min(number, job.priority) >= 0))
    ]
    return may if len(may) > 1 else []
