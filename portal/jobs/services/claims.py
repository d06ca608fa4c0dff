"""Claims: leaf cells kept for a job while their last holders leave them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import DateTimeField, F, Q, Subquery, Value
from django.db.models.functions import Coalesce

from portal.common.bulk import rows_insert
from portal.common.prepared import Among, Prepared
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, Preemption, Task
from portal.jobs.services.placement import Overtaken, Placed
from portal.jobs.services.retry_backoff import NODE_START_WINDOW
from portal.jobs.states import AttemptState, JobState, TaskState

CLAIMS_KEPT = timedelta(minutes=1)
"""Claims are not kept through a longer pause: others use the cells meanwhile."""

_MAY_CLAIM = {
    True: [JobState.WAITING],
    False: [JobState.WAITING, JobState.STARTING, JobState.RUNNING],
}
"""By gang: a gang claims as a whole; any other job may also claim while some of its tasks run."""


def claims_make(wants: Sequence[tuple[Job, Sequence[Placed]]], *, now: datetime) -> None:
    """Claims the leaves of these places for each job, replacing all claims on them and the job's own for these tasks.

    Inside the caller's transaction, which has checked the nodes' versions. Raises Overtaken when one of the jobs or
    tasks no longer waits; IntegrityError when two want one leaf.
    """
    _check_waiting([job for job, _ in wants])
    places = [place for _, placed in wants for place in placed]
    tasks = {place.task_id for place in places}
    if Task.objects.filter(pk__in=tasks, state=TaskState.WAITING).count() != len(tasks):
        raise Overtaken
    leaves = [leaf.gpu_id for place in places for leaf in place.leaves]
    Claim.objects.filter(Q(leaf__in=leaves) | Q(task__in=tasks)).delete()
    held = Allocation.objects.filter(leaf__in=leaves, released_at__isnull=True).order_by()
    holders = dict(held.values_list("leaf", "task_attempt__job_attempt__job"))
    made = [
        (leaf.gpu_id, job.pk, place.task_id, leaf.virtual_cell, holders.get(leaf.gpu_id), now)
        for job, placed in wants
        for place in placed
        for leaf in place.leaves
    ]
    rows_insert(Claim, ("leaf", "claimant", "task", "virtual_cell", "victim", "created_at"), made)


def _check_waiting(jobs: Sequence[Job]) -> None:
    keys = {job.pk for job in jobs}
    may = Q(gang=True, state__in=_MAY_CLAIM[True]) | Q(gang=False, state__in=_MAY_CLAIM[False])
    if Job.objects.filter(may, pk__in=keys, paused=False).count() != len(keys):
        raise Overtaken
    if JobAttempt.objects.filter(job__in=keys, state=AttemptState.ENDING).exists():
        raise Overtaken


def claims_convert(starts: Mapping[int, Sequence[Placed]]) -> None:
    """Deletes the claims of starting jobs (row ids) for these tasks: they are fulfilled. Raises Overtaken where another
    job has claimed one of the leaves, and does not lend it while it is parked."""
    own = {leaf.gpu_id: job for job, placed in starts.items() for place in placed for leaf in place.leaves}
    tasks = {place.task_id for placed in starts.values() for place in placed}
    found = _CLAIMS(leaves=own, tasks=tasks)
    if any(own.get(leaf, claimant) != claimant and not parked for _, leaf, claimant, _, parked in found):
        raise Overtaken
    if done := [key for key, _, _, task, _ in found if task in tasks]:
        Claim.objects.filter(pk__in=done).delete()


_CLAIMS = Prepared(
    lambda: (
        Claim.objects.filter(Q(Among("leaf", "leaves")) | Q(Among("task", "tasks")))
        .order_by()
        .values_list("pk", "leaf_id", "claimant_id", "task_id", "parked")
    )
)


def claims_keep(*, attempt: JobAttempt, now: datetime) -> None:
    """Claims the cells of a gang whose start failed through its pause, if GPUs were taken back for it: otherwise the
    victims would get them back meanwhile, only to be preempted again.

    Inside the caller's transaction. Does nothing if another job has one of them by now.
    """
    job, held = attempt.job, Allocation.objects.filter(task_attempt__job_attempt=attempt)
    rows = list(held.order_by("leaf").values_list("leaf", "task_attempt__task", "virtual_cell"))
    leaves, cells = {leaf for leaf, _, _ in rows}, {cell for _, _, cell in rows if cell}
    others = Allocation.objects.filter(Q(leaf__in=leaves) | Q(virtual_cell__in=cells), released_at__isnull=True)
    if not rows or not _took_back(job) or others.exclude(pk__in=held.values("pk")).exists():
        return
    made = [(leaf, job.pk, task, cell, None, now) for leaf, task, cell in rows]
    with suppress(IntegrityError), transaction.atomic():  # another job claims one of them
        rows_insert(Claim, ("leaf", "claimant", "task", "virtual_cell", "victim", "created_at"), made)


def _took_back(job: Job) -> bool:
    """Whether GPUs were taken back for the job since its last attempt that got past its start."""
    ran = job.attempts.filter(ended_at__gt=F("started_at") + NODE_START_WINDOW).order_by("-number").values("ended_at")
    since = Coalesce(Subquery(ran[:1]), Value(job.submitted_at), output_field=DateTimeField())
    return Preemption.objects.filter(preemptor=job, at__gte=since).exists()


def claims_release(*, claims: Collection[int]) -> int:
    """Deletes these claims (row ids); one taken over by another job stays. Returns how many."""
    return Claim.objects.filter(pk__in=claims).delete()[0]
