"""Submitting, stopping and tagging jobs as OpenPAI means it."""

from __future__ import annotations

from datetime import datetime

from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Conflict, Denied
from portal.job_file.problems import SpecInvalid
from portal.job_file.validate import parse
from portal.jobs.models import Job
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.stop import job_stop
from portal.jobs.services.submit import NameTaken, job_submit
from portal.jobs.services.tags import job_tag, tag_fault
from portal.jobs.states import JOB_OVER
from portal.openpai.errors import PaiError, forbidden, invalid, no_storage, no_vc
from portal.openpai.names import framework_name, pai_name
from portal.storages.models import Storage
from portal.teams.models import VirtualCluster
from portal.teams.selectors.visible import vcs_for_submit

NOT_YOURS = "Only its owner, a lead of its virtual cluster or an administrator may do this to job {}."


def job_create(*, user: User, text: bytes, now: datetime) -> Job:
    """A job from a job file, under a name that the user has not used yet. Raises PaiError with every problem."""
    try:
        return job_submit(user=user, text=text, now=now, new_name=True)
    except NameTaken as error:
        name = f"{user.username}~{error.name}"
        raise PaiError(409, "ConflictJobError", f"Job name {name} already exists.") from error
    except SpecInvalid as error:
        raise _refusal(user, text, error) from error


def _refusal(user: User, text: bytes, error: SpecInvalid) -> PaiError:
    """OpenPAI tells a missing right by its own status and code; else every problem stands in the message."""
    told = "; ".join(str(problem) for problem in error.problems)
    codes = {problem.code for problem in error.problems}
    if codes == {"over_quota"}:
        return invalid(error.problems[0].message)
    if codes == {"vc_unknown"}:
        vc = parse(text).vc
        there = VirtualCluster.objects.filter(name=vc).exists()
        yours = sorted(vcs_for_submit(user).values_list("name", flat=True))
        told = f"User {user.username} is not allowed to do operation in {vc}; yours: {', '.join(yours) or 'none'}."
        return forbidden(told) if there else no_vc(vc, yours, 400)
    if all(problem.path.startswith("extras.storages") and problem.code == "unknown" for problem in error.problems):
        return _storage_refusal(user, {mount.name for mount in parse(text).storages or ()}, told)
    return PaiError(400, "InvalidProtocolError", told)


def _storage_refusal(user: User, named: set[str], told: str) -> PaiError:
    there = set(Storage.objects.filter(name__in=named).values_list("name", flat=True))
    if missing := sorted(named - there):
        return no_storage(missing[0])
    return forbidden(told)


def job_execute(*, user: User, job: Job, start: bool, now: datetime) -> str:
    """Stop a job; one that is over stays as it is, and none is started again. Returns what to tell."""
    name, allowed = framework_name(job), _with_right(user, job)
    if start:
        again = "; what is over is not started again" if allowed.state in JOB_OVER else ""
        return f"execute job {name} successfully{again}"
    try:
        job_stop(job=allowed, actor=user, now=now)
    except Conflict:
        return f"execute job {name} successfully; it was over already"
    return f"execute job {name} successfully"


def tag_add(*, user: User, job: Job, name: str, now: datetime) -> None:
    """Give a job a tag; twice is once."""
    allowed = _with_right(user, job)
    if fault := tag_fault(name):
        raise invalid(fault)
    try:
        job_tag(job=allowed, add=[name], actor=user, now=now)
    except Conflict as refusal:
        raise PaiError(409, "ConflictTagError", refusal.detail) from refusal


def tag_remove(*, user: User, job: Job, name: str, now: datetime) -> None:
    """Take a tag off; NoTagError when the job does not have it."""
    allowed = _with_right(user, job)
    if not allowed.tags.filter(name=name).exists():
        raise PaiError(404, "NoTagError", f"Tag {name} is not found for job {pai_name(job)} .")
    job_tag(job=allowed, remove=[name], actor=user, now=now)


def _with_right(user: User, job: Job) -> Job:
    try:
        return job_with_right(user=user, job_id=job.pk, action=Action.JOB_STOP)
    except Denied as error:
        raise forbidden(NOT_YOURS.format(pai_name(job))) from error
