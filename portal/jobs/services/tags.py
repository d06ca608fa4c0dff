"""Tags that people give jobs to find them again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.common.errors import Conflict, Fault, Invalid
from portal.jobs.models import TAG_LENGTH, Job, JobTag
from portal.jobs.services.transitions import job_announce, job_hold

MOST = 50


def job_tag(
    *, job: Job, add: Collection[str] = (), remove: Collection[str] = (), actor: User, now: datetime
) -> list[str]:
    """Adds and removes tags of the job; duplicates count once. Returns its tags, oldest first.

    Raises Invalid for what cannot be a tag, Conflict when it would have too many.
    """
    if faults := [Fault("add", tag_fault(name), "invalid") for name in add if tag_fault(name)]:
        raise Invalid(faults)
    with transaction.atomic():
        job_hold(job.pk)
        before = list(job.tags.values_list("name", flat=True))
        left = [name for name in before if name not in remove]
        after = [*left, *(name for name in dict.fromkeys(add) if name not in left)]
        if len(after) > max(MOST, len(before)):
            raise Conflict(gettext("A job has %(most)s tags at most.") % {"most": MOST})
        if after != before:
            JobTag.objects.filter(job=job, name__in={*before} - {*after}).delete()
            tags_store(job=job, names=[name for name in after if name not in before])
            audit_write(
                Audited.JOB_TAG, actor=actor.username, target=job.label, vc=job.vc.name, now=now,
                before={"tags": before}, after={"tags": after},
            )  # fmt: skip
            job_announce(job)
    return after


def tags_store(*, job: Job, names: Iterable[str]) -> None:
    """Stores tags that the job does not have yet, inside the caller's transaction."""
    JobTag.objects.bulk_create(JobTag(job=job, name=name) for name in names)


def tag_fault(name: str) -> str:
    """What is wrong with a tag: any text without commas, which separate tags in filters. Empty: nothing."""
    if not name.strip() or "," in name or "\0" in name or len(name) > TAG_LENGTH:
        return gettext("A tag has 1 to %(most)s characters and no comma.") % {"most": TAG_LENGTH}
    return ""
