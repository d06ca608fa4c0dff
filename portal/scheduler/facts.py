"""Facts of a job that never change after submission: its file and its roles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast

import scheduling
from portal.common.prepared import Among, Prepared
from portal.jobs.models import Job, TaskRole
from portal.jobs.selectors.labels import JobLabel, label_read


@dataclass(frozen=True, slots=True)
class Facts:
    """Immutable facts. ``stamp``, the submission time as text, tells a job from one of another database."""

    stamp: str
    submitted_ms: int
    roles: tuple[scheduling.Role, ...]
    tasks: tuple[scheduling.TaskRef, ...]
    gpus: int
    time_limit_ms: int | None
    min_run_s: int
    grace_s: int | None
    lazy: bool
    elastic: bool
    firm: bool  # asks to be non-preemptible
    borrow: str | None
    only_nodes: frozenset[str]
    not_nodes: frozenset[str]
    after: tuple[JobLabel, ...]
    storages: tuple[str, ...]  # names of those it mounts

    @property
    def simple(self) -> bool:
        """Whether the job's own row says everything about it: no right, task, other job or list of nodes matters."""
        return not (self.firm or self.elastic or self.after or self.only_nodes or self.not_nodes)


STAMP = Cast("submitted_at", TextField())
"""As the database prints it: ten thousand texts are read in a third of the time of as many datetimes."""


def ms_of(moment: str) -> int:
    """Unix time in ms of a database timestamp; without a time zone (SQLite) it is UTC."""
    at = datetime.fromisoformat(moment)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def facts_read(jobs: Collection[int]) -> dict[int, Facts]:
    """Facts by job row id; two queries, none without jobs."""
    if not jobs:
        return {}
    roles: dict[int, list[TaskRole]] = defaultdict(list)
    for role in _ROLES(jobs=jobs):
        roles[role.job_id].append(role)
    return {
        key: facts_of(
            roles[key], stamp=stamp, submitted_at=at, user=user, berth=berth, lazy=bool(lazy), mounts=mounts or ()
        )
        for key, stamp, at, user, berth, lazy, mounts in _SAID(jobs=jobs)
    }


def _said() -> QuerySet[Job, Any]:
    # Not "spec__berth": the ORM finds out by an exception that this is no column, and keeps that in a reference cycle
    # with all callers' frames, the scheduler's plan included, until the garbage collector runs.
    said = KeyTransform("berth", "spec"), KeyTransform("lazy_preemption", "spec"), KeyTransform("storages", "spec")
    rows = Job.objects.filter(Among("id", "jobs")).order_by()
    return rows.values_list("id", STAMP, "submitted_at", "user__username", *said)


_SAID = Prepared(_said)
_ROLES = Prepared(
    lambda: TaskRole.objects.filter(Among("job", "jobs")).select_related("sku").order_by("job_id", "position")
)


def facts_of(
    roles: Sequence[TaskRole], *, stamp: str, submitted_at: datetime, user: str, berth: Mapping[str, Any], lazy: bool,
    mounts: Iterable[Mapping[str, Any]],
) -> Facts:  # fmt: skip
    """Facts of one job; ``berth``: its file's ``extras.berth``, ``mounts``: its storages."""
    described = tuple(_role(role) for role in roles)
    return Facts(
        stamp=stamp,
        submitted_ms=int(submitted_at.timestamp() * 1000),
        roles=described,
        tasks=tuple(scheduling.all_tasks(described)),
        gpus=sum(role.count * role.gpus for role in described),
        time_limit_ms=(berth.get("time_limit_s") or 0) * 1000 or None,
        min_run_s=berth.get("min_run_time_s") or 0,
        grace_s=berth.get("grace_period_s"),
        lazy=lazy,
        elastic=any(role.least is not None for role in roles),
        firm=berth.get("preemptible") is False,
        borrow=berth.get("borrow"),
        only_nodes=frozenset(berth.get("nodes_only") or ()),
        not_nodes=frozenset(berth.get("nodes_not") or ()),
        after=tuple(label_read(text, user=user) for text in berth.get("after") or ()),
        storages=tuple(sorted({mount["name"] for mount in mounts})),
    )


def _role(role: TaskRole) -> scheduling.Role:
    return scheduling.Role(
        name=role.name,
        count=role.instances,
        gpus=role.gpus,
        cpu_milli=role.cpu_milli,
        memory_mb=role.memory_mb,
        sku=role.sku.name if role.sku else None,
        pinned_cell=role.pinned_cell or None,
        affinity_group=role.affinity_group or None,
        least=role.least,
    )
