"""Job rows to engine jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

import scheduling
from nodes.protocol.states import Cause
from portal.accounts.models import User
from portal.common.prepared import Among, Prepared
from portal.common.row_versions import KeptRows, changed
from portal.jobs import wordings
from portal.jobs.models import Job, JobAttempt, Task, TaskAttempt
from portal.jobs.services.avoided_nodes import NONE_AVOIDED
from portal.jobs.services.retry_backoff import PAUSE_FURTHEST
from portal.jobs.states import JOB_LIVE, OWNER_GONE, AttemptState, JobState, TaskState
from portal.parking.selectors import ParkedTask, parked_tasks
from portal.queue.services.waits import Told
from portal.scheduler.dependencies import Dependencies, HeldBack, dependencies, job_key
from portal.scheduler.facts import STAMP, Facts, facts_read, ms_of
from portal.scheduler.job_builder import JobBuilder, JobRow
from portal.scheduler.ports import Short
from portal.storages.selectors.ties import StorageTies, storage_ties
from portal.teams.selectors.engine_cluster import ClusterRows
from portal.teams.selectors.owners import Owner, owners_gone


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
    parked: frozenset[int]  # row ids of jobs that are off their GPUs


@dataclass(frozen=True, slots=True)
class _Reading:
    """Rows of all live jobs, and what was made of them. ``plain`` jobs follow from row and facts; the others also
    depend on the time, their tasks, other jobs or rights, and are rebuilt each time."""

    rows: Mapping[int, JobRow] = field(default_factory=dict)
    users: Mapping[int, str] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    owners: dict[int, Owner] = field(default_factory=dict)  # of waiting jobs that no lead has kept
    facts: dict[int, Facts] = field(default_factory=dict)
    plain: dict[int, scheduling.Job] = field(default_factory=dict)
    others: tuple[int, ...] = ()
    waiting: tuple[scheduling.Job, ...] = ()  # of the plain ones
    ids: dict[str, int] = field(default_factory=dict)


class JobReader:
    """Reads live jobs in a fixed number of queries; processes only what has changed since its last reading."""

    def __init__(self) -> None:
        self._live = KeptRows(
            lambda: Job.objects.filter(state__in=JOB_LIVE),
            [
                "id", *JobRow._fields[1:11], STAMP, Cast("avoid_nodes", TextField()),
                "waiting_code", Cast("waiting_written_at", TextField()),
            ],
            key=int,
            make=JobRow._make,
        )  # fmt: skip
        self._users = KeptRows(User.objects.all, ["id", "username"], key=int, make=lambda row: str(row[1]))
        self._last: tuple[object, _Reading] = None, _Reading()

    def read(self, *, now: datetime, cluster: ClusterRows, ports: Mapping[int, Short]) -> JobRows:
        """Live jobs; those in ``ports`` without the nodes where they found too few."""
        rows, users = self._live.read(), self._users.read()
        ties = storage_ties(cluster.nodes.values())
        builder = JobBuilder(now, cluster.vc_names, cluster.borrow, users, frozenset(cluster.nodes), ties)
        return _jobs(builder, self._reading(builder, rows), ports)

    def _reading(self, builder: JobBuilder, rows: Mapping[int, JobRow]) -> _Reading:
        rules, last = self._last
        renamed = builder.users is not last.users and not last.users.items() <= builder.users.items()
        if renamed or rules != builder.rules:
            last = _Reading(facts=last.facts)
        if rows is not last.rows or builder.users is not last.users:
            last = _next(last, builder, rows)
        self._last = builder.rules, last
        return last


def _next(last: _Reading, builder: JobBuilder, rows: Mapping[int, JobRow]) -> _Reading:
    new = [key for key, row in rows.items() if last.rows.get(key) is not row]
    gone = last.rows.keys() - rows.keys()
    facts = _facts(last.facts, rows, new)
    made = {key: _plain(builder, rows[key], facts[key], last) for key in new}
    told = {key: _told(rows[key]) for key in new if rows[key].state == JobState.WAITING}
    owners = {key: (rows[key].vc_id, rows[key].user_id) for key in told if not rows[key].kept}
    plain = {key: job for key, job in made.items() if job is not None}
    return _Reading(
        rows=rows,
        users=builder.users,
        told=changed(last.told, [*gone, *new], told),
        owners=changed(last.owners, [*gone, *new], owners),
        facts=facts,
        plain=changed(last.plain, [*gone, *new], plain),
        others=tuple(sorted({*last.others, *new} - gone - plain.keys())),
        waiting=_waiting(last, gone, made),
        ids=changed(last.ids, map(job_key, gone), {job_key(key): key for key in new}),
    )


def _plain(builder: JobBuilder, row: JobRow, facts: Facts, last: _Reading) -> scheduling.Job | None:
    """The last reading's job if nothing of it has changed; None if the row does not say everything about it."""
    if not (facts.simple and row.gang and row.not_before is None and row.avoid_nodes == NONE_AVOIDED):
        return None
    if (before := last.plain.get(row.pk)) and last.rows[row.pk].facts == row.facts and last.facts[row.pk] is facts:
        return before
    return builder.job(row, facts, facts.tasks if row.waits_whole else (), (), preemptible=True)


def _jobs(builder: JobBuilder, reading: _Reading, ports: Mapping[int, Short]) -> JobRows:
    now, facts = builder.now, {key: reading.facts[key] for key in reading.others}
    rows = {key: reading.rows[key] for key in reading.others}
    needs = dependencies({key: own.after for key, own in facts.items() if own.after})
    jobs = _others(builder, rows, facts, needs)
    backoffs = _backoffs([
        (key, row.not_before)
        for key, row in rows.items()
        if row.not_before and now < row.not_before <= now + PAUSE_FURTHEST
    ])  # fmt: skip
    held_back = needs.broken | backoffs
    waiting = [
        job
        for key, job in jobs.items()
        if job.wanted and key not in held_back and rows[key].may_start(elastic=facts[key].elastic)
    ]
    every = reading.plain | jobs
    all_waiting = _by_id([*reading.waiting, *waiting]) if waiting else reading.waiting
    if held := _storages_away(builder, all_waiting, reading.facts) | _without_owners(builder, reading.owners):
        held_back |= held
        all_waiting = tuple(job for job in all_waiting if job.order_id not in held)
    if parked := _parked(every):  # they run already: nothing above may keep them from their GPUs
        every |= parked
        all_waiting = _by_id([*all_waiting, *parked.values()])
    if barred := _barred(builder, ports, every, reading.facts):
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
        ties=builder.ties,
        parked=frozenset(parked),
    )


def _parked(jobs: Mapping[int, scheduling.Job]) -> dict[int, scheduling.Job]:
    """Parked jobs as the engine sees them: each waits for the GPU that it claims, paused until it wants it back. Until
    then it takes memory for what was on it; afterwards it must not wait for memory that it is about to give back."""
    return {key: _off_gpu(jobs[key], task) for key, task in parked_tasks().items() if key in jobs}


def _off_gpu(job: scheduling.Job, task: ParkedTask) -> scheduling.Job:
    more_mb = 0 if task.wanted else task.parked_mb
    roles = tuple(
        replace(role, memory_mb=role.memory_mb + more_mb) if role.name == task.role else role for role in job.roles
    )
    return job._replace(roles=roles, wanted=(scheduling.TaskRef(task.role, task.number),), paused=not task.wanted)


def _others(
    builder: JobBuilder, rows: Mapping[int, JobRow], facts: Mapping[int, Facts], needs: Dependencies
) -> dict[int, scheduling.Job]:
    firm = builder.firm((row, facts[key]) for key, row in rows.items() if facts[key].firm)
    wanted = _wanted([key for key, row in rows.items() if not row.gang or _may_grow(row, facts[key])], builder.now)
    grow_from = _grow_from([key for key, row in rows.items() if _may_grow(row, facts[key])])
    return {
        key: builder.job(
            row,
            facts[key],
            facts[key].tasks if row.waits_whole else tuple(wanted.get(key, ())),
            needs.after.get(key, ()),
            preemptible=key not in firm,
            grow_from=grow_from.get(key),
        )
        for key, row in rows.items()
    }


def _may_grow(row: JobRow, facts: Facts) -> bool:
    return facts.elastic and row.state == JobState.RUNNING


def _without_owners(builder: JobBuilder, owners: Mapping[int, Owner]) -> dict[int, HeldBack]:
    """Those of these jobs whose owners may no longer run jobs in their team."""
    gone = owners_gone(owners={*owners.values()})
    return {
        key: HeldBack(OWNER_GONE, wordings.OWNER_HELD(user=builder.users[user], vc=builder.vc_names[vc]))
        for key, (vc, user) in (owners.items() if gone else ())
        if (vc, user) in gone
    }


def _storages_away(
    builder: JobBuilder, waiting: Iterable[scheduling.Job], facts: Mapping[int, Facts]
) -> dict[int, HeldBack]:
    """Waiting jobs whose storages are on no node that they may run on."""
    found = {job.order_id: builder.place(facts[job.order_id])[1] for job in waiting} if builder.ties.apart else {}
    return {key: away for key, away in found.items() if away is not None}


def _barred(
    builder: JobBuilder, ports: Mapping[int, Short], jobs: Mapping[int, scheduling.Job], facts: Mapping[int, Facts]
) -> dict[int, scheduling.Job]:
    """Jobs that found too few ports on nodes, without these nodes."""
    barred = {}
    for key, short in ports.items():
        job = jobs.get(key)
        if job is not None and job.wanted and facts[key].submitted_ms == short.submitted_ms:
            allowed = builder.nodes if job.only_nodes is None else job.only_nodes
            barred[key] = job._replace(only_nodes=allowed - short.nodes)
    return barred


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


def _told(row: JobRow) -> Told:
    return Told(row.waiting_code, None if row.waiting_at is None else ms_of(row.waiting_at), row.not_before)


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


def _grow_from(jobs: Collection[int]) -> dict[int, datetime]:
    """When these elastic jobs may grow again: some time after they grew or shrank, since at each change of size all of
    their tasks go on from what they saved last. A job that has not grown yet is not among them. One query; none without
    jobs."""
    every = timedelta(seconds=settings.GROW_EVERY_S)
    return {job: max(filter(None, times)) + every for job, *times in (_RESIZED(jobs=jobs) if jobs else ())}


def _resized() -> QuerySet[TaskAttempt, Any]:
    extra = TaskAttempt.objects.filter(Among("job_attempt__job", "jobs"), task__index__gte=F("task__role__least"))
    now = extra.exclude(job_attempt__state=AttemptState.ENDED).order_by()
    # The GPUs of a lost task are given back only when its node is there again.
    return now.values_list("job_attempt__job").annotate(Max("created_at"), Max("lost_at"), Max("released_at"))


_RESIZED = Prepared(_resized)


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
