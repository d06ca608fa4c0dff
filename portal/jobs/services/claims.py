"""Leaf cells kept for a job while their last holders leave them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from django.db.models import Q

from portal.common.bulk import rows_insert
from portal.jobs.models import Allocation, Claim, Job, JobAttempt, Task
from portal.jobs.services.placing import Overtaken, Placed
from portal.jobs.states import AttemptState, JobState, TaskState

_MAY_CLAIM = {
    True: [JobState.WAITING],
    False: [JobState.WAITING, JobState.STARTING, JobState.RUNNING],
}
"""By gang: a gang claims as a whole, any other job also while some of its tasks run."""


def claims_make(wants: Sequence[tuple[Job, Sequence[Placed]]], *, now: datetime) -> None:
    """Keep the leaves of these places for each job: in place of all claims on them, and of its own for these tasks.

    Inside the caller's transaction, which has checked the nodes' versions. Raises Overtaken when one of the jobs or
    tasks does not wait any more; IntegrityError when two want one leaf.
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
    """These jobs (row ids) start: their claims for these tasks have done their work. Raises Overtaken where another
    job has claimed one of the leaves."""
    own = {leaf.gpu_id: job for job, placed in starts.items() for place in placed for leaf in place.leaves}
    tasks = {place.task_id for placed in starts.values() for place in placed}
    claims = Claim.objects.filter(Q(leaf__in=own) | Q(task__in=tasks)).order_by()
    found = list(claims.values_list("pk", "leaf_id", "claimant_id", "task_id"))
    if any(own.get(leaf, claimant) != claimant for _, leaf, claimant, _ in found):
        raise Overtaken
    if done := [key for key, _, _, task in found if task in tasks]:
        Claim.objects.filter(pk__in=done).delete()


def claims_release(*, claims: Collection[int]) -> int:
    """Give up these claims (row ids); one that another has taken over since stays. How many there were."""
    return Claim.objects.filter(pk__in=claims).delete()[0]
