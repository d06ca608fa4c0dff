"""Job rows to engine jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

import scheduling
from nodes.protocol.states import Cause
from portal.accounts.models import User
from portal.common.prepared import Among, Prepared
from portal.common.row_versions import KeptRows, Row, changed
from portal.jobs import wordings
from portal.jobs.container import grace_seconds
from portal.jobs.models import Job, JobAttempt, Task, TaskAttempt, TaskRole
from portal.jobs.selectors.storages import storages_place
from portal.jobs.services.avoided_nodes import NONE_AVOIDED, nodes_avoided
from portal.jobs.services.retry_backoff import PAUSE_FURTHEST
from portal.jobs.states import JOB_LIVE, OWNER_GONE, JobState, TaskState
from portal.queue.services.waits import Told
from portal.scheduler.dependencies import NEWEST, Dependencies, HeldBack, dependencies, job_key
from portal.scheduler.facts import STAMP, Facts, facts_of, facts_read, ms_of
from portal.scheduler.ports import ports_short
from portal.storages.selectors.ties import StorageTies, storage_ties
from portal.teams.selectors.engine_cluster import ClusterRows
from portal.teams.selectors.owners import Owner, owners_gone
from portal.teams.selectors.rights import firm_rights

DRAFT = "draft"
"""Engine id of a job that is not stored."""


class JobRow(NamedTuple):
    """The mutable columns of a job."""

    pk: int
    vc_id: int
    user_id: int
    state: str
    priority: int
    gang: bool
    paused: bool
    queue_ms: int | None
    led: bool
    kept: bool
    not_before: datetime | None
    stamp: str
    avoid_nodes: str  # JSON, mostly NONE_AVOIDED

    @property
    def may_start(self) -> bool:
        """Whether tasks may be placed: a gang's at once, from WAITING; others' also while some run."""
        return self.state == JobState.WAITING or (not self.gang and self.state in {JobState.STARTING, JobState.RUNNING})

    @property
    def waits_whole(self) -> bool:
        """Whether all its tasks wait, so that their rows need not be read."""
        return self.gang and self.state == JobState.WAITING


@dataclass(frozen=True, slots=True)
class JobRows:
    """Live jobs for the engine, and the rows its ids stand for."""

    jobs: dict[int, scheduling.Job]  # by row id
    waiting: tuple[scheduling.Job, ...]
    pausing: tuple[scheduling.Job, ...]  # in backoff, to be retried later
    told: dict[int, Told]  # row id of a waiting job -> its stored reason
    held_back: dict[int, HeldBack]  # row id -> why it is kept out of the queue
    waits_for: dict[int, str]  # row id -> its unfinished dependencies, in words
    ids: dict[str, int]  # engine id -> row id
    ties: StorageTies


def jobs_read(*, now: datetime, cluster: ClusterRows) -> JobRows:
    """Live jobs, in a fixed number of queries."""
    ties = storage_ties(cluster.nodes.values())
    return _Reader(now, cluster.vc_names, cluster.borrow, frozenset(cluster.nodes), ties).read()


def draft_read(
    *, draft: Job, roles: Sequence[TaskRole], now: datetime, nodes: frozenset[str], ties: StorageTies
) -> scheduling.Job | HeldBack:
    """An unstored job as the engine would see it, last of all submitted at that moment; or why it would be kept out of
    the queue."""
    user, row = draft.user.username, _row_of(draft)
    facts = facts_of(
        roles,
        stamp="",
        submitted_at=now,
        user=user,
        berth=draft.spec["berth"],
        lazy=bool(draft.spec.get("lazy_preemption")),
        mounts=draft.spec.get("storages") or (),
    )
    needs = dependencies({NEWEST: facts.after})
    if NEWEST in needs.broken:
        return needs.broken[NEWEST]
    reader = _Reader(now, {draft.vc_id: draft.vc.name}, {draft.vc_id: draft.vc.default_borrow}, nodes, ties)
    reader.users = {draft.user_id: (draft.user_id, user)}
    firm = reader.firm([(row, facts)])
    job = reader.job(row, facts, facts.tasks, needs.after[NEWEST], preemptible=row.pk not in firm)
    if away := reader.place(facts)[1]:
        return away
    return job._replace(id=DRAFT, order_id=NEWEST)


def _row_of(draft: Job) -> JobRow:
    same = ("vc_id", "user_id", "state", "priority", "gang", "paused", "queue_ms", "led", "kept", "not_before")
    columns = {name: getattr(draft, name) for name in same}
    return JobRow(pk=0, stamp="", avoid_nodes=NONE_AVOIDED, **columns)


_live = KeptRows(
    lambda: Job.objects.filter(state__in=JOB_LIVE),
    [
        "id", *JobRow._fields[1:11], STAMP, Cast("avoid_nodes", TextField()),
        "waiting_code", Cast("waiting_written_at", TextField()),
    ],
    key=int,
)  # fmt: skip
"""Columns of ``JobRow``, and the stored reason for which the job waits."""

_users = KeptRows(User.objects.all, ["id", "username"], key=int)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Rows of all live jobs, and what was made of them. ``plain`` jobs follow from row and facts; the others also
    depend on the time, their tasks, other jobs or rights, and are rebuilt each time."""

    found: dict[int, Row] = field(default_factory=dict)  # as read
    users: Mapping[int, Row] = field(default_factory=dict)
    rows: dict[int, JobRow] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    owners: dict[int, Owner] = field(default_factory=dict)  # of waiting jobs that no lead has kept
    facts: dict[int, Facts] = field(default_factory=dict)
    plain: dict[int, scheduling.Job] = field(default_factory=dict)
    others: tuple[int, ...] = ()
    waiting: tuple[scheduling.Job, ...] = ()  # of the plain ones
    ids: dict[str, int] = field(default_factory=dict)


_kept: list[tuple[object, _Reading]] = []
"""The last reading, with the defaults and limits it was made under."""


class _Reader:
    def __init__(
        self,
        now: datetime,
        vc_names: Mapping[int, str],
        borrow: Mapping[int, str],
        nodes: frozenset[str],
        ties: StorageTies,
    ) -> None:
        self.now, self.vc_names, self.borrow, self.nodes, self.ties = now, vc_names, borrow, nodes, ties
        self.users: Mapping[int, Row] = {}
        self.max_min_run_s = settings.MAX_MIN_RUN_S
        limits = settings.MAX_MIN_RUN_S, settings.MAX_GRACE_S, settings.DEFAULT_GRACE_S
        self.rules = vc_names, borrow, limits, ties.apart, (nodes, ties.folders) if ties.apart else None
        self.places: dict[tuple[object, ...], tuple[frozenset[str] | None, HeldBack | None]] = {}

    def read(self) -> JobRows:
        reading = self._reading()
        facts = {key: reading.facts[key] for key in reading.others}
        rows = {key: reading.rows[key] for key in reading.others}
        needs = dependencies({key: own.after for key, own in facts.items() if own.after})
        jobs = self._others(rows, facts, needs)
        backoffs = _backoffs([
            (key, row.not_before)
            for key, row in rows.items()
            if row.not_before and self.now < row.not_before <= self.now + PAUSE_FURTHEST
        ])  # fmt: skip
        held_back = needs.broken | backoffs
        waiting = [job for key, job in jobs.items() if job.wanted and key not in held_back and rows[key].may_start]
        every = reading.plain | jobs
        all_waiting = _by_id([*reading.waiting, *waiting]) if waiting else reading.waiting
        if held := self._storages_away(all_waiting, reading.facts) | self._without_owners(reading.owners):
            held_back |= held
            all_waiting = tuple(job for job in all_waiting if job.order_id not in held)
        if barred := self._barred(every, reading.facts):
            every |= barred
            all_waiting = tuple(barred.get(job.order_id, job) for job in all_waiting)
        return JobRows(
            jobs=every,
            waiting=all_waiting,
            pausing=tuple(jobs[key]._replace(paused=True) for key in backoffs if rows[key].waits_whole),
            told=reading.told,
            held_back=held_back,
            waits_for=needs.words,
            ids=reading.ids,
            ties=self.ties,
        )

    def _without_owners(self, owners: Mapping[int, Owner]) -> dict[int, HeldBack]:
        """Those of these jobs whose owners may no longer run jobs in their team."""
        gone = owners_gone(owners={*owners.values()})
        return {
            key: HeldBack(OWNER_GONE, wordings.OWNER_HELD(user=self.users[user][1], vc=self.vc_names[vc]))
            for key, (vc, user) in (owners.items() if gone else ())
            if (vc, user) in gone
        }

    def _storages_away(self, waiting: Iterable[scheduling.Job], facts: Mapping[int, Facts]) -> dict[int, HeldBack]:
        """Waiting jobs whose storages are on no node that they may run on."""
        found = {job.order_id: self.place(facts[job.order_id])[1] for job in waiting} if self.ties.apart else {}
        return {key: away for key, away in found.items() if away is not None}

    def place(self, facts: Facts) -> tuple[frozenset[str] | None, HeldBack | None]:
        """Nodes that the job may run on (None: all), and why none has its storages, if so. Cached: many jobs are alike
        in that."""
        key = facts.only_nodes, facts.not_nodes, facts.storages
        if key not in self.places:
            self.places[key] = self._place(facts)
        return self.places[key]

    def _place(self, facts: Facts) -> tuple[frozenset[str] | None, HeldBack | None]:
        left, why = storages_place(
            ties=self.ties, mounted=facts.storages, nodes=self.nodes, only=facts.only_nodes, but=facts.not_nodes
        )
        return left, HeldBack("storage", why) if why else None

    def _barred(self, jobs: Mapping[int, scheduling.Job], facts: Mapping[int, Facts]) -> dict[int, scheduling.Job]:
        """Jobs that found too few ports on nodes, without these nodes."""
        barred = {}
        for key, short in ports_short(now=self.now).items():
            job = jobs.get(key)
            if job is not None and job.wanted and facts[key].submitted_ms == short.submitted_ms:
                allowed = self.nodes if job.only_nodes is None else job.only_nodes
                barred[key] = job._replace(only_nodes=allowed - short.nodes)
        return barred

    def _reading(self) -> _Reading:
        """The current reading; only what changed since the last one is processed."""
        rules, last = _kept[0] if _kept else (None, _Reading())
        found, self.users = _live.read(), _users.read()
        if rules != self.rules or any(self.users.get(key) is not user for key, user in last.users.items()):
            last = _Reading(facts=last.facts)
        if found is not last.found or self.users is not last.users:
            last = self._next(last, found)
        _kept[:] = [(self.rules, last)]
        return last

    def _next(self, last: _Reading, found: dict[int, Row]) -> _Reading:
        new = [key for key, row in found.items() if last.found.get(key) is not row]
        gone = last.found.keys() - found.keys()
        rows = changed(last.rows, gone, {key: JobRow._make(found[key][:-2]) for key in new})
        facts = _facts(last.facts, rows, new)
        made = {key: self._plain(rows[key], facts[key], last) for key in new}
        told = {key: _told(found[key], rows[key]) for key in new if rows[key].state == JobState.WAITING}
        owners = {key: (rows[key].vc_id, rows[key].user_id) for key in told if not rows[key].kept}
        plain = {key: job for key, job in made.items() if job is not None}
        return _Reading(
            found=found,
            users=self.users,
            rows=rows,
            told=changed(last.told, [*gone, *new], told),
            owners=changed(last.owners, [*gone, *new], owners),
            facts=facts,
            plain=changed(last.plain, [*gone, *new], plain),
            others=tuple(sorted({*last.others, *new} - gone - plain.keys())),
            waiting=_waiting(last, gone, made),
            ids=changed(last.ids, map(job_key, gone), {job_key(key): key for key in new}),
        )

    def _plain(self, row: JobRow, facts: Facts, last: _Reading) -> scheduling.Job | None:
        """The last reading's job if nothing of it has changed; None if the row does not say everything about it."""
        if not (facts.simple and row.gang and row.not_before is None and row.avoid_nodes == NONE_AVOIDED):
            return None
        if (before := last.plain.get(row.pk)) and last.rows[row.pk] == row and last.facts[row.pk] is facts:
            return before
        return self.job(row, facts, facts.tasks if row.waits_whole else (), (), preemptible=True)

    def _others(
        self, rows: Mapping[int, JobRow], facts: Mapping[int, Facts], needs: Dependencies
    ) -> dict[int, scheduling.Job]:
        firm = self.firm((row, facts[key]) for key, row in rows.items() if facts[key].firm)
        wanted = _wanted([key for key, row in rows.items() if not row.gang], self.now)
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
        """The job as the engine sees it."""
        return scheduling.Job(
            id=job_key(row.pk),
            vc=self.vc_names[row.vc_id],
            user=self.users[row.user_id][1],
            priority=row.priority,
            roles=facts.roles,
            submitted_ms=facts.submitted_ms if row.queue_ms is None else row.queue_ms,
            order_id=row.pk,
            wanted=wanted,
            gang=row.gang,
            time_limit_ms=facts.time_limit_ms,
            min_run_ms=min(facts.min_run_s, self.max_min_run_s) * 1000,
            grace_ms=grace_seconds(facts.grace_s) * 1000,
            lazy_preemption=facts.lazy,
            preemptible=preemptible,
            borrow=self._borrow(row, facts.borrow, preemptible),
            avoid_nodes=frozenset() if row.avoid_nodes == NONE_AVOIDED else nodes_avoided(row.avoid_nodes, self.now),
            only_nodes=self.place(facts)[0],
            after=after,
            paused=row.paused,
            led=row.led,
        )

    def firm(self, asking: Iterable[tuple[JobRow, Facts]]) -> frozenset[int]:
        """Those never preempted: they ask for it, and their user's right covers them and the ones before."""
        asked = sorted(asking, key=lambda one: one[0].pk)
        left = firm_rights(now=self.now) if asked else {}
        firm = set()
        for row, facts in asked:
            key = (row.vc_id, row.user_id)
            if facts.firm and facts.gpus <= left.get(key, 0):
                left[key] -= facts.gpus
                firm.add(row.pk)
        return frozenset(firm)

    def _borrow(self, row: JobRow, said: str | None, preemptible: bool) -> scheduling.Borrow:
        """The job's own choice, else its team's default; a non-preemptible job holds nothing on loan."""
        return scheduling.Borrow(said or self.borrow[row.vc_id]) if preemptible else scheduling.Borrow.NEVER


def _facts(last: Mapping[int, Facts], rows: Mapping[int, JobRow], new: Iterable[int]) -> dict[int, Facts]:
    unknown = [key for key in new if key not in last or last[key].stamp != rows[key].stamp]
    return changed(last, last.keys() - rows.keys(), facts_read(unknown))


def _waiting(
    last: _Reading, gone: Iterable[int], made: Mapping[int, scheduling.Job | None]
) -> tuple[scheduling.Job, ...]:
    """Plain waiting jobs by id; the same tuple if unchanged."""
    moved = {key for key, job in made.items() if last.plain.get(key) is not job}.union(gone)
    if not moved:
        return last.waiting
    come = (job for key, job in made.items() if key in moved and job is not None and job.wanted)
    return _by_id([*(job for job in last.waiting if job.order_id not in moved), *come])


def _told(found: Row, row: JobRow) -> Told:
    return Told(found[-2], None if found[-1] is None else ms_of(found[-1]), row.not_before)


def _by_id(jobs: Iterable[scheduling.Job]) -> tuple[scheduling.Job, ...]:
    return tuple(sorted(jobs, key=attrgetter("id")))


def _wanted(jobs: Collection[int], now: datetime) -> dict[int, list[scheduling.TaskRef]]:
    """Waiting tasks of jobs that are no gangs: of a gang all wait or none. Tasks in backoff are no part of the plan
    yet. One query; none without jobs."""
    wanted: dict[int, list[scheduling.TaskRef]] = defaultdict(list)
    if jobs:
        due = Q(not_before__isnull=True) | Q(not_before__lte=now) | Q(not_before__gt=now + PAUSE_FURTHEST)
        tasks = Task.objects.filter(due, job__in=jobs, state=TaskState.WAITING).order_by("role__position", "index")
        for job, role, index in tasks.values_list("job_id", "role__name", "index"):
            wanted[job].append(scheduling.TaskRef(role, index))
    return wanted


def tasks_read(jobs: Collection[int]) -> dict[tuple[str, str, int], int]:
    """Row ids of these jobs' tasks, by job (engine id), role and index. One query; none without jobs."""
    return {(job_key(job), role, index): key for job, role, index, key in (_TASKS(jobs=jobs) if jobs else ())}


_TASKS = Prepared(
    lambda: Task.objects.filter(Among("job", "jobs")).order_by().values_list("job_id", "role__name", "index", "id")
)


def _backoffs(until: Sequence[tuple[int, datetime]]) -> dict[int, HeldBack]:
    """Until when these jobs (row ids) back off, and how their last attempt ended. One query at most."""
    why = {key: told for key, *told in (_LAST_ENDS(jobs=[key for key, _ in until]) if until else ())}
    held = {}
    for key, time in until:
        message, lacks = why.get(key, ("", False))
        at = f"{time:%H:%M:%S}"
        told = wordings.TRIED_AT_AFTER(time=at, why=message) if message else wordings.TRIED_AT(time=at)
        held[key] = HeldBack("storage" if lacks else "backoff", told)
    return held


def _last_ends() -> QuerySet[Job, Any]:
    last = JobAttempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    away = TaskAttempt.objects.filter(job_attempt=OuterRef("pk"), cause=Cause.STORAGE_MISSING)
    columns = Subquery(last.values("end_message")[:1]), Subquery(last.values(away=Exists(away))[:1])
    return Job.objects.filter(Among("id", "jobs")).order_by().values_list("pk", *columns)


_LAST_ENDS = Prepared(_last_ends)
