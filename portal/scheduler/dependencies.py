"""Dependencies of jobs: ``extras.berth.after`` names runs that must have succeeded first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models.expressions import RawSQL

from portal.accounts.models import User
from portal.common.bulk import rows_listed
from portal.jobs.models import Job
from portal.jobs.selectors.labels import JobLabel
from portal.jobs.states import JOB_OVER, JobState
from portal.jobs.wordings import NEEDS

UNSUCCESSFUL = JOB_OVER - {JobState.SUCCEEDED}
NEWEST = (1 << 63) - 1
"""An id above every row's."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why a job is kept out of the queue: code and sentence, like a wait's reason."""

    code: str
    message: str


def job_key(job_id: int) -> str:
    """The engine's id of a job row."""
    return str(job_id)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """By row id: the live jobs a job waits for (engine ids), the same in words, and what can no longer be met."""

    after: dict[int, tuple[str, ...]]
    words: dict[int, str]
    broken: dict[int, HeldBack]


def dependencies(wanted: Mapping[int, Sequence[JobLabel]]) -> Dependencies:
    """Resolves what each of these live jobs (row ids) waits for.

    A name without a run means the newest run before the job itself: so a job's own name never means itself, and two
    names that alternate never wait for each other. If that run ended without success, another job's name means the
    newest run there is: rerunning it lets the job go on. One query, whatever the number of jobs; none without
    dependencies.
    """
    runs = _runs(wanted)
    result = Dependencies({}, {}, {})
    for job_id, labels in wanted.items():
        found = [other for label in labels if (other := runs[label.named].meant(label.run, job_id)) is not None]
        live = [other for other in found if other.state not in JOB_OVER]
        result.after[job_id] = tuple(job_key(other.pk) for other in live)
        if live:
            result.words[job_id] = f"it waits for {', '.join(other.label for other in live)} to succeed"
        bad = next((other for other in found if other.state in UNSUCCESSFUL), None)
        if bad is not None:
            result.broken[job_id] = _broken(bad)
    return result


class _Runs:
    """Runs of one name of one user, ordered by id."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.jobs: list[Job] = []
        self.by_run: dict[int, Job] = {}

    def add(self, job: Job) -> None:
        """Appends a run newer than all before."""
        self.ids.append(job.pk)
        self.jobs.append(job)
        self.by_run[job.run] = job

    def meant(self, run: int | None, asking: int) -> Job | None:
        """The run that a job (row id) refers to by this number, or by none."""
        if run is not None:
            return self.by_run.get(run)
        place = bisect_left(self.ids, asking)
        before = self.jobs[place - 1] if place else None
        own_name = self.ids[place : place + 1] == [asking]
        if own_name or (before is not None and before.state not in UNSUCCESSFUL):
            return before
        return self.jobs[-1] if self.jobs else None


def _runs(wanted: Mapping[int, Sequence[JobLabel]]) -> dict[JobLabel, _Runs]:
    """The runs of each name (labels without a run) that these jobs can refer to: the named ones, the newest before each
    job that asks, that job itself if the name is its own, and the newest of all. A name may have thousands of others,
    before the first of these jobs and since."""
    runs = {label.named: _Runs() for labels in wanted.values() for label in labels}
    if not runs:
        return runs
    asked = {(label.user, label.name, job, label.run) for job, labels in wanted.items() for label in labels}
    asked |= {(name.user, name.name, NEWEST, None) for name in runs}
    rows = Job.objects.filter(pk__in=_meant(sorted(asked, key=str))).select_related("user").order_by("pk")
    for job in rows.only("id", "name", "run", "state", "user__username"):
        runs[JobLabel(job.user.username, job.name)].add(job)
    return runs


def _meant(asked: Sequence[tuple[str, str, int, int | None]]) -> RawSQL:
    """Ids of these runs, by user, name, the asking job and, if named, the run. Each is an index lookup."""
    fields = (User, "username"), (Job, "name"), (Job, "id"), (Job, "id")  # a run in a label may be any number
    names = "owner", "name", "job", "run"
    columns = {name: model._meta.get_field(field) for name, (model, field) in zip(names, fields, strict=True)}
    listed, parameters = rows_listed(columns, asked)
    jobs, users = Job._meta.db_table, User._meta.db_table
    sql = f"""
        WITH asked AS ({listed}), known AS (
            SELECT {users}.id AS user_id, asked.name, asked.job, asked.run
            FROM asked JOIN {users} ON {users}.username = asked.owner
        )
        SELECT (
            SELECT one.id FROM {jobs} AS one
            WHERE one.user_id = known.user_id AND one.name = known.name AND one.id < known.job
            ORDER BY one.id DESC LIMIT 1
        ) FROM known WHERE known.run IS NULL
        UNION ALL
        SELECT one.id FROM known JOIN {jobs} AS one
        ON one.user_id = known.user_id AND one.name = known.name AND one.run = known.run
        UNION ALL
        SELECT one.id FROM known JOIN {jobs} AS one
        ON one.user_id = known.user_id AND one.name = known.name AND one.id = known.job
    """  # noqa: S608
    return RawSQL(sql, parameters)  # noqa: S611


def _broken(other: Job) -> HeldBack:
    state = other.state
    return HeldBack("dependency", NEEDS(job=other.label, state=state))
