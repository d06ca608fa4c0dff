"""Job rows -> the engine's jobs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import TextField
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
    ids: dict[str, int]  # engine id -> row id


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


@dataclass(frozen=True, slots=True)
class _Reading:
    """The rows of all live jobs, and what was made of them. Of ``plain`` jobs row and facts say everything; the others
    also depend on the time, on their tasks, on other jobs or on rights, and are made anew each time."""

    found: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # as the database gave them
    rows: dict[int, JobRow] = field(default_factory=dict)
    told: dict[int, str] = field(default_factory=dict)
    facts: dict[int, Facts] = field(default_factory=dict)
    plain: dict[int, scheduling.Job] = field(default_factory=dict)
    others: tuple[int, ...] = ()
    waiting: tuple[scheduling.Job, ...] = ()  # of the plain ones
    ids: dict[str, int] = field(default_factory=dict)


_kept: list[tuple[object, _Reading]] = []
"""The last reading, and under which defaults and limits it was made."""


class _Reader:
    def __init__(self, now: datetime, vc_names: Mapping[int, str], nodes: frozenset[str]) -> None:
        self.now, self.vc_names, self.nodes = now, vc_names, nodes
        self.borrow = dict(VirtualCluster.objects.values_list("id", "default_borrow"))
        self.max_min_run_s = settings.MAX_MIN_RUN_S
        limits = settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S, settings.DEFAULT_GRACE_S
        self.rules = vc_names, self.borrow, limits

    def read(self) -> JobRows:
        reading = self._reading()
        facts = {key: reading.facts[key] for key in reading.others}
        rows = {key: reading.rows[key] for key in reading.others}
        needs = dependencies({key: own.after for key, own in facts.items() if own.after})
        jobs = self._others(rows, facts, needs)
        held_back = needs.broken | {
            key: _backoff(row) for key, row in rows.items() if row.not_before and row.not_before > self.now
        }
        waiting = [job for key, job in jobs.items() if job.wanted and key not in held_back and rows[key].may_start]
        return JobRows(
            jobs=reading.plain | jobs,
            waiting=_by_id([*reading.waiting, *waiting]) if waiting else reading.waiting,
            told=reading.told,
            held_back=held_back,
            waits_for=needs.words,
            ids=reading.ids,
        )

    def _reading(self) -> _Reading:
        """Only what has changed since the last one is looked at, as it has of few."""
        rules, last = _kept[0] if _kept else (None, _Reading())
        if rules != self.rules:
            last = _Reading(facts=last.facts)
        found = _rows_read()
        if found != last.found:
            last = self._next(last, found)
        _kept[:] = [(self.rules, last)]
        return last

    def _next(self, last: _Reading, found: dict[int, tuple[Any, ...]]) -> _Reading:
        new = [key for key, row in found.items() if last.found.get(key) != row]
        rows = {key: row for key, row in last.rows.items() if key in found}
        rows |= {key: JobRow(*found[key][:-1]) for key in new}
        facts = {key: own for key, own in last.facts.items() if key in rows and own.stamp == rows[key].stamp}
        facts |= facts_read(rows.keys() - facts.keys())
        plain = {key: job for key, job in last.plain.items() if key in rows}
        for key in new:
            row, own = rows[key], facts[key]
            if not (own.simple and row.gang and row.not_before is None):
                plain.pop(key, None)
            elif key not in plain or last.rows.get(key) != row or last.facts.get(key) is not own:
                plain[key] = self.job(row, own, own.tasks if row.waits_whole else (), (), preemptible=True)
        return _Reading(
            found=found,
            rows=rows,
            told={key: row[-1] for key, row in found.items() if rows[key].state == JobState.WAITING},
            facts=facts,
            plain=plain,
            others=tuple(key for key in rows if key not in plain),
            waiting=_by_id(job for job in plain.values() if job.wanted),
            ids={job_key(key): key for key in rows},
        )

    def _others(
        self, rows: Mapping[int, JobRow], facts: Mapping[int, Facts], needs: Dependencies
    ) -> dict[int, scheduling.Job]:
        firm = self.firm((row, facts[key]) for key, row in rows.items() if facts[key].firm)
        wanted = _wanted([key for key, row in rows.items() if not row.gang])
        return {
            key: self.job(
                row,
                facts[key],
                facts[key].tasks if row.waits_whole else tuple(wanted.get(key, ())),
                needs.after.get(key, ()),
                preemptible=key not in firm,
            )
            for key, row in rows.items()
        }

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


def _rows_read() -> dict[int, tuple[Any, ...]]:
    """By id: the columns of a ``JobRow``, and the code that is stored of why the job waits."""
    avoid = Cast("avoid_nodes", TextField())
    plain = ("id", "vc_id", "user_id", "user__username", *JobRow._fields[4:9])
    live = Job.objects.filter(state__in=JOB_LIVE).order_by()
    return {found[0]: found for found in live.values_list(*plain, STAMP, avoid, "waiting_code")}


def _by_id(jobs: Iterable[scheduling.Job]) -> tuple[scheduling.Job, ...]:
    return tuple(sorted(jobs, key=attrgetter("id")))


def _wanted(jobs: Collection[int]) -> dict[int, list[scheduling.TaskRef]]:
    """The tasks that wait of jobs that are no gangs: of a gang all wait or none. One query; none without jobs."""
    wanted: dict[int, list[scheduling.TaskRef]] = defaultdict(list)
    if jobs:
        tasks = Task.objects.filter(job__in=jobs, state=TaskState.WAITING).order_by("role__position", "index")
        for job, role, index in tasks.values_list("job_id", "role__name", "index"):
            wanted[job].append(scheduling.TaskRef(role, index))
    return wanted


def tasks_read(jobs: Collection[int]) -> dict[tuple[str, str, int], int]:
    """The rows of these jobs' tasks, by job (engine id), role and index. One query; none without jobs."""
    rows = Task.objects.filter(job__in=jobs).order_by().values_list("job_id", "role__name", "index", "id")
    return {(job_key(job), role, index): key for job, role, index, key in rows} if jobs else {}


def _backoff(row: JobRow) -> HeldBack:
    return HeldBack("backoff", f"it is tried again at {row.not_before:%H:%M:%S} UTC")
