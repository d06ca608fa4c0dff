"""Preemptions: whose GPUs were taken back for whom, when, and by when they must be free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from nodes.protocol.states import Phase
from portal.accounts.models import User
from portal.common.prepared import Among, Prepared, Slot
from portal.job_file.model import JobSpec
from portal.jobs.models import Job, JobAttempt, Preemption, TaskAttempt
from portal.teams.selectors.visible import job_sight

_RELATED = ("preemptor__user", "preemptor__vc", "victim__job__user", "victim__job__vc")


@dataclass(frozen=True, slots=True)
class OtherJob:
    """The other job of a preemption. Without the right to see it, only owner, team and GPUs; ``job`` is its row id."""

    user: str
    vc: str
    gpus: int
    job: int | None
    label: str | None


@dataclass(frozen=True, slots=True)
class PreemptionShown:
    """A preemption as one of its two jobs sees it; ``lost``: this job was the victim. ``other`` None: the other job is
    deleted."""

    row: Preemption
    lost: bool
    other: OtherJob | None


def preemptions_of(*, job: Job) -> QuerySet[Preemption]:
    """Preemptions by the job or of it, newest first. The job's attempts are read first: a condition on a joined table
    beside one on its own would make the database read every preemption there ever was."""
    attempts = _ATTEMPTS(job=job.pk)
    return Preemption.objects.filter(Q(preemptor=job) | Q(victim__in=attempts)).order_by("-id")


def preemptions_read(*, ids: Sequence[int]) -> list[Preemption]:
    """The preemptions with these ids, with both jobs, in this order. One query; none for no ids."""
    rows = {row.pk: row for row in _READ(rows=ids)} if ids else {}
    return [rows[one] for one in ids if one in rows]


_ATTEMPTS = Prepared(lambda: JobAttempt.objects.filter(job_id=Slot("job", int)).order_by().values_list("pk", flat=True))


def preemptions_shown(*, rows: Iterable[Preemption], job: Job, user: User) -> list[PreemptionShown]:
    """Preemptions of the job for this reader; rights are read once."""
    sight = job_sight(user=user)

    def other(row: Preemption) -> OtherJob | None:
        one = row.preemptor if row.victim.job_id == job.pk else row.victim.job
        if one is None:
            return None
        seen = sight.covers(user_id=one.user_id, vc_id=one.vc_id)
        gpus = JobSpec.from_json(one.spec).gpu_count
        return OtherJob(one.user.username, one.vc.name, gpus, one.pk if seen else None, one.label if seen else None)

    return [PreemptionShown(row, row.victim.job_id == job.pk, other(row)) for row in rows]


def preemptions_leaving(*, job: Job) -> QuerySet[Preemption]:
    """Preemptions of the job whose tasks have not all ended yet."""
    return _preemptions().filter(_still_there(), victim__job=job).order_by("id")


def preemptions_open(*, jobs: Iterable[int]) -> dict[int, list[Preemption]]:
    """Preemptions by preemptor whose victims still hold something. One query."""
    rows = _preemptions().filter(_still_there(), preemptor__in=list(jobs)).order_by("id")
    found: dict[int, list[Preemption]] = defaultdict(list)
    for row in rows:
        if row.preemptor_id is not None:
            found[row.preemptor_id].append(row)
    return dict(found)


def _preemptions() -> QuerySet[Preemption]:
    heavy = [f"{job}__{name}" for job in ("preemptor", "victim__job") for name in ("config", "secrets_sealed")]
    return Preemption.objects.select_related(*_RELATED).defer(*heavy)


_READ = Prepared(lambda: _preemptions().filter(Among("id", "rows")).order_by())


def _still_there() -> Exists:
    tasks = TaskAttempt.objects.filter(job_attempt=OuterRef("victim"), stop_reason="preempted", phase=Phase.STOP)
    return Exists(tasks.filter(released_at__isnull=True))
