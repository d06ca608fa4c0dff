"""Job rows -> the engine's jobs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db.models import Q, TextField
from django.db.models.functions import Cast

import scheduling
from portal.clusters.models import VirtualCluster
from portal.clusters.selectors import firm_rights
from portal.dispatch.dependencies import Dependencies, HeldBack, dependencies, job_key
from portal.dispatch.facts import STAMP, Facts, facts_of, facts_read
from portal.jobs.models import Job, Task, TaskRole
from portal.jobs.services import grace_seconds
from portal.jobs.states import JOB_LIVE, JobState, TaskState

DRAFT = "draft"
"""The engine's id of a job that is not stored."""

NOBODY = "[]"
"""No nodes, as JSON."""

NEWEST = 1 << 63
"""An order id after that of every row."""


class JobRow(NamedTuple):
    """What may change of a job, as its row has it."""

    pk: int
    vc_id: int
    user_id: int
    user: str
    state: str
    priority: int
    gang: bool
    paused: bool
    not_before: datetime | None
    stamp: str
    avoid_nodes: str  # a JSON list, mostly empty

    @property
    def may_start(self) -> bool:
        """A gang is placed whole, from WAITING; any other job may place more tasks while some run."""
        return self.state == JobState.WAITING or (not self.gang and self.state in {JobState.STARTING, JobState.RUNNING})

    @property
    def waits_whole(self) -> bool:
        """Whether all its tasks wait, so that their rows need not be read."""
        return self.gang and self.state == JobState.WAITING


@dataclass(frozen=True, slots=True)
class JobRows:
    """The live jobs for the engine, and what its ids are called in the database."""

    jobs: dict[int, scheduling.Job]  # by row id
    waiting: tuple[scheduling.Job, ...]
    told: dict[int, str]  # row id of a waiting job -> the code that is stored of why it waits
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
    user, row = draft.user.username, _row_of(draft)
    facts = facts_of(
        roles,
        stamp="",
        submitted_at=now,
        user=user,
        berth=draft.spec["berth"],
        lazy=bool(draft.spec.get("lazy_preemption")),
    )
    needs = dependencies({row.pk: facts.after})
    if row.pk in needs.broken:
        return needs.broken[row.pk]
    reader = _Reader(now, {draft.vc_id: draft.vc.name}, nodes)
    firm = reader.firm([(row, facts)])
    job = reader.job(row, facts, facts.tasks, needs.after[row.pk], preemptible=row.pk not in firm)
    return job._replace(id=DRAFT, order_id=NEWEST)


def _row_of(draft: Job) -> JobRow:
    same = ("vc_id", "user_id", "state", "priority", "gang", "paused", "not_before")
    columns = {name: getattr(draft, name) for name in same}
    return JobRow(pk=0, user=draft.user.username, stamp="", avoid_nodes=NOBODY, **columns)


class _Kept(NamedTuple):
    """An engine's job and what it was made from."""

    row: JobRow
    facts: Facts
    job: scheduling.Job


_kept: tuple[object, dict[int, _Kept]] = (None, {})
"""The simple jobs of the last reading, and under which defaults and limits they were made."""


class _Reader:
    def __init__(self, now: datetime, vc_names: Mapping[int, str], nodes: frozenset[str]) -> None:
        self.now, self.vc_names, self.nodes = now, vc_names, nodes
        self.borrow = dict(VirtualCluster.objects.values_list("id", "default_borrow"))
        self.max_min_run_s = settings.MAX_MIN_RUN_S
        limits = settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S, settings.DEFAULT_GRACE_S
        self.rules = vc_names, self.borrow, limits

    def read(self) -> JobRows:
        rows, told = _rows_read()
        facts = facts_read({key: row.stamp for key, row in rows.items()})
        needs = dependencies({key: facts[key].after for key in rows if facts[key].after})
        jobs = self._jobs(rows, facts, needs)
        held_back = needs.broken | {
            key: _backoff(row) for key, row in rows.items() if row.not_before and row.not_before > self.now
        }
        waiting = [job for key, job in jobs.items() if job.wanted and key not in held_back and rows[key].may_start]
        return JobRows(
            jobs=jobs,
            waiting=tuple(sorted(waiting, key=lambda job: job.id)),
            told=told,
            held_back=held_back,
            waits_for=needs.words,
        )

    def _jobs(
        self, rows: Mapping[int, JobRow], facts: Mapping[int, Facts], needs: Dependencies
    ) -> dict[int, scheduling.Job]:
        """Made anew only where something has changed, as it has of few."""
        global _kept
        before = _kept[1] if _kept[0] == self.rules else {}
        kept: dict[int, _Kept] = {}
        firm = self.firm((row, facts[key]) for key, row in rows.items() if facts[key].firm)
        wanted = _wanted(rows)
        jobs = {}
        for key, row in rows.items():
            own, last = facts[key], before.get(key)
            tasks = own.tasks if row.waits_whole else tuple(wanted.get(key, ()))
            if last is not None and last.facts is own and last.row == row and last.job.wanted == tasks:
                kept[key], jobs[key] = last, last.job
                continue
            jobs[key] = self.job(row, own, tasks, needs.after.get(key, ()), preemptible=key not in firm)
            if own.simple:
                kept[key] = _Kept(row, own, jobs[key])
        _kept = self.rules, kept
        return jobs

    def job(
        self,
        row: JobRow,
        facts: Facts,
        wanted: tuple[scheduling.TaskRef, ...],
        after: tuple[str, ...],
        *,
        preemptible: bool,
    ) -> scheduling.Job:
        """The job as the engine has it."""
        allowed = (facts.only_nodes or self.nodes) - facts.not_nodes if facts.only_nodes or facts.not_nodes else None
        return scheduling.Job(
            id=job_key(row.pk),
            vc=self.vc_names[row.vc_id],
            user=row.user,
            priority=row.priority,
            roles=facts.roles,
            submitted_ms=facts.submitted_ms,
            order_id=row.pk,
            wanted=wanted,
            gang=row.gang,
            time_limit_ms=facts.time_limit_ms,
            min_run_ms=min(facts.min_run_s, self.max_min_run_s) * 1000,
            grace_ms=grace_seconds(facts.grace_s) * 1000,
            lazy_preemption=facts.lazy,
            preemptible=preemptible,
            borrow=self._borrow(row, facts.borrow, preemptible),
            avoid_nodes=frozenset(json.loads(row.avoid_nodes)) if row.avoid_nodes != NOBODY else frozenset(),
            only_nodes=allowed,
            after=after,
            paused=row.paused,
        )

    def firm(self, asking: Iterable[tuple[JobRow, Facts]]) -> frozenset[int]:
        """Of these jobs, which ask for it, those never preempted: their user's right covers them and those before."""
        left = firm_rights(now=self.now)
        firm = set()
        for row, facts in sorted(asking, key=lambda one: one[0].pk):
            key = (row.vc_id, row.user_id)
            if facts.firm and facts.gpus <= left.get(key, 0):
                left[key] -= facts.gpus
                firm.add(row.pk)
        return frozenset(firm)

    def _borrow(self, row: JobRow, said: str | None, preemptible: bool) -> scheduling.Borrow:
        """What the job says, else its team's default; one that is never preempted holds nothing on loan."""
        return scheduling.Borrow(said or self.borrow[row.vc_id]) if preemptible else scheduling.Borrow.NEVER


def _rows_read() -> tuple[dict[int, JobRow], dict[int, str]]:
    avoid = Cast("avoid_nodes", TextField())
    plain = ("id", "vc_id", "user_id", "user__username", *JobRow._fields[4:9])
    rows, told = {}, {}
    live = Job.objects.filter(state__in=JOB_LIVE).order_by()
    for found in live.values_list(*plain, STAMP, avoid, "waiting_code"):
        row = JobRow(*found[:-1])
        rows[row.pk] = row
        if row.state == JobState.WAITING:
            told[row.pk] = found[-1]
    return rows, told


def _wanted(rows: Mapping[int, JobRow]) -> dict[int, list[scheduling.TaskRef]]:
    """The tasks that wait, of jobs that are no waiting gangs: of those all wait."""
    wanted: dict[int, list[scheduling.TaskRef]] = defaultdict(list)
    partly = ~Q(job__gang=True, job__state=JobState.WAITING)
    tasks = Task.objects.filter(partly, job__state__in=JOB_LIVE, state=TaskState.WAITING)
    found = tasks.order_by("role__position", "index").values_list("job_id", "role__name", "index")
    for job, role, index in found:
        if job in rows:
            wanted[job].append(scheduling.TaskRef(role, index))
    return wanted


def tasks_read(jobs: Collection[int]) -> dict[tuple[str, str, int], int]:
    """The rows of these jobs' tasks, by job (engine id), role and index. One query; none without jobs."""
    rows = Task.objects.filter(job__in=jobs).order_by().values_list("job_id", "role__name", "index", "id")
    return {(job_key(job), role, index): key for job, role, index, key in rows} if jobs else {}


def _backoff(row: JobRow) -> HeldBack:
    return HeldBack("backoff", f"it is tried again at {row.not_before:%H:%M:%S} UTC")
