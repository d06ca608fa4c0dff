"""Job rows -> the engine's jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.conf import settings

import scheduling
from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import firm_rights
from portal.dispatch.dependencies import HeldBack, dependencies, job_key
from portal.jobs.models import Job, Task, TaskRole
from portal.jobs.services import grace_seconds
from portal.jobs.states import JOB_LIVE, JobState, TaskState

DRAFT = "draft"
"""The engine's id of a job that is not stored."""

NEWEST = 1 << 63
"""An order id after that of every row."""


@dataclass(frozen=True, slots=True)
class JobRows:
    """The live jobs for the engine, and what its ids are called in the database."""

    jobs: dict[int, scheduling.Job]  # by row id
    waiting: tuple[scheduling.Job, ...]
    tasks: dict[tuple[str, str, int], int]  # (engine job id, role, index) -> row id
    refs: dict[int, scheduling.TaskRef]  # task row id -> its name in its job
    held_back: dict[int, HeldBack]  # row id -> why it is not in the order
    waits_for: dict[int, str]  # row id -> its unfinished dependencies, in words


def jobs_read(*, now: datetime, vc_names: Mapping[int, str], nodes: frozenset[str]) -> JobRows:
    """Read them with a fixed number of queries."""
    return _Reader(now, vc_names, nodes).read()


def draft_read(
    *, draft: Job, roles: Sequence[TaskRole], now: datetime, nodes: frozenset[str]
) -> scheduling.Job | HeldBack:
    """A job that is not stored, as the engine would have it, last of all that were submitted at its moment; or why it
    would not be in the order."""
    reader = _Reader(now, {draft.vc_id: draft.vc.name}, nodes)
    reader.roles[draft.pk] = [_role(role) for role in roles]
    reader.wanted[draft.pk] = list(scheduling.all_tasks(tuple(reader.roles[draft.pk])))
    reader.firm = reader._firm([draft])
    needs = dependencies([draft])
    if draft.pk in needs.broken:
        return needs.broken[draft.pk]
    return replace(reader._job(draft, needs.after[draft.pk]), id=DRAFT, order_id=NEWEST)


class _Reader:
    def __init__(self, now: datetime, vc_names: Mapping[int, str], nodes: frozenset[str]) -> None:
        self.now, self.vc_names, self.nodes = now, vc_names, nodes
        self.borrow = dict(VirtualCluster.objects.values_list("id", "default_borrow"))
        self.roles: dict[int, list[scheduling.Role]] = defaultdict(list)
        self.wanted: dict[int, list[scheduling.TaskRef]] = defaultdict(list)
        self.tasks: dict[tuple[str, str, int], int] = {}
        self.refs: dict[int, scheduling.TaskRef] = {}

    def read(self) -> JobRows:
        rows = {job.pk: job for job in Job.objects.filter(state__in=JOB_LIVE).select_related("user")}
        self._read_tasks(list(rows))
        self.firm = self._firm(rows.values())
        needs = dependencies(rows.values())
        held_back = needs.broken | {
            row.pk: _backoff(row) for row in rows.values() if row.not_before and row.not_before > self.now
        }
        jobs = {key: self._job(row, needs.after[key]) for key, row in rows.items()}
        waiting = [
            jobs[row.pk] for row in rows.values() if jobs[row.pk].wanted and row.pk not in held_back and _may_start(row)
        ]
        return JobRows(
            jobs=jobs,
            waiting=tuple(sorted(waiting, key=lambda job: job.id)),
            tasks=self.tasks,
            refs=self.refs,
            held_back=held_back,
            waits_for=needs.words,
        )

    def _read_tasks(self, jobs: list[int]) -> None:
        role_names: dict[int, tuple[int, str]] = {}
        for role in TaskRole.objects.filter(job__in=jobs).select_related("sku").order_by("job_id", "position"):
            role_names[role.pk] = (role.job_id, role.name)
            self.roles[role.job_id].append(_role(role))
        rows = Task.objects.filter(job__in=jobs).order_by("role__position", "index")
        for task_id, role_id, index, state in rows.values_list("id", "role_id", "index", "state"):
            job_id, name = role_names[role_id]
            ref = self.refs[task_id] = scheduling.TaskRef(name, index)
            self.tasks[(job_key(job_id), name, index)] = task_id
            if state == TaskState.WAITING:
                self.wanted[job_id].append(ref)

    def _job(self, row: Job, after: tuple[str, ...]) -> scheduling.Job:
        berth = row.spec["berth"]
        only = berth.get("nodes_only") or None
        never = frozenset(berth.get("nodes_not") or ())
        allowed = (frozenset(only) if only else self.nodes) - never if only or never else None
        preemptible = row.pk not in self.firm
        min_run_s = min(berth.get("min_run_time_s") or 0, settings.MAX_MIN_RUN_S)
        return scheduling.Job(
            id=job_key(row.pk),
            vc=self.vc_names[row.vc_id],
            user=row.user.username,
            priority=row.priority,
            roles=tuple(self.roles[row.pk]),
            submitted_ms=_ms(row.submitted_at),
            order_id=row.pk,
            wanted=tuple(self.wanted[row.pk]),
            gang=row.gang,
            time_limit_ms=(berth.get("time_limit_s") or 0) * 1000 or None,
            min_run_ms=min_run_s * 1000,
            grace_ms=grace_seconds(berth.get("grace_period_s")) * 1000,
            lazy_preemption=bool(row.spec.get("lazy_preemption")),
            preemptible=preemptible,
            borrow=self._borrow(row, berth.get("borrow"), preemptible),
            avoid_nodes=frozenset(row.avoid_nodes),
            only_nodes=allowed,
            after=after,
        )

    def _firm(self, rows: Iterable[Job]) -> frozenset[int]:
        """The jobs that are never preempted: they asked for it, and their user's right covers them and those before."""
        left = firm_rights(now=self.now)
        firm = set()
        for row in sorted(rows, key=lambda row: row.pk):
            key = (row.vc_id, row.user_id)
            gpus = sum(role.count * role.gpus for role in self.roles[row.pk])
            if row.spec["berth"].get("preemptible") is False and gpus <= left.get(key, 0):
                left[key] -= gpus
                firm.add(row.pk)
        return frozenset(firm)

    def _borrow(self, row: Job, said: str | None, preemptible: bool) -> scheduling.Borrow:
        """What the job says, else its team's default; one that is never preempted holds nothing on loan."""
        return scheduling.Borrow(said or self.borrow[row.vc_id]) if preemptible else scheduling.Borrow.NEVER


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
    )


def _may_start(job: Job) -> bool:
    # A gang is placed whole, from WAITING; any other job may place more tasks while some run.
    return job.state == JobState.WAITING or (not job.gang and job.state in {JobState.STARTING, JobState.RUNNING})


def _backoff(job: Job) -> HeldBack:
    return HeldBack("backoff", f"it is tried again at {job.not_before:%H:%M:%S} UTC")


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
