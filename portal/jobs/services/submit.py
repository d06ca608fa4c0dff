"""Submission: a job file becomes rows."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, User
from portal.code.services import code_hold
from portal.common.errors import Conflict, TooManyAtOnce
from portal.common.sealing import seal
from portal.common.wake import scheduler_wake
from portal.hardware.models import Sku
from portal.job_file.model import JobSpec
from portal.job_file.problems import Problem, SpecInvalid
from portal.job_file.secrets import mask_secrets
from portal.jobs import wordings
from portal.jobs.models import Job, Task, TaskRole
from portal.jobs.services.admission import job_check, job_hints
from portal.jobs.services.storages import storages_keep
from portal.jobs.services.tags import tags_store
from portal.jobs.services.transitions import job_event
from portal.jobs.states import JOB_LIVE, TaskState
from portal.teams.models import VirtualCluster


class NameTaken(Conflict):
    """The user asked for a new name but already has a job of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(gettext("You have a job named %(name)s already.") % {"name": name})
        self.name = name


def job_submit(*, user: User, text: str | bytes, now: datetime, submit_key: str = "", new_name: bool = False) -> Job:
    """Validates the file against what the user may use, stores the job, wakes the scheduler.

    If ``submit_key`` was used before, returns that job and stores nothing. Raises SpecInvalid with every problem;
    NameTaken if ``new_name`` was asked for and the name is taken; TooManyAtOnce if too many of the user's tasks would
    wait.
    """
    if submit_key and (earlier := _submitted(user, submit_key)):
        return earlier
    spec = job_check(user=user, text=text)
    source = mask_secrets(text.decode() if isinstance(text, bytes) else text)
    hints = job_hints(spec=spec, text=source, user=user)  # within the transaction nothing of the cluster is cached
    with transaction.atomic():
        # One submission of a user at a time: run numbers follow each other, a key is used once, the limit holds.
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if submit_key and (earlier := _submitted(user, submit_key)):
            return earlier
        _check_waiting(user, spec.task_count)
        return _store(user, spec, source, hints, submit_key, now, new_name)


def _submitted(user: User, submit_key: str) -> Job | None:
    return Job.objects.filter(user=user, submit_key=submit_key).first()


def job_draft(*, user: User, spec: JobSpec, now: datetime) -> tuple[Job, list[TaskRole]]:
    """The rows that this file would become if submitted now, as its first run; nothing is stored."""
    job = Job(
        user=user,
        vc=_check_present(spec),
        name=spec.name,
        run=1,
        priority=spec.priority,
        gang=spec.gang,
        spec=spec.to_json(),
        submitted_at=now,
    )
    return job, _roles(job, spec)


def _check_waiting(user: User, tasks: int) -> None:
    """Limits the user's waiting tasks, since every cycle reads each one."""
    waiting = Task.objects.filter(job__user=user, job__state__in=JOB_LIVE, state=TaskState.WAITING).count()
    if waiting + tasks > settings.WAITING_TASKS:
        words = gettext(
            "No more than %(most)s tasks of one user may wait at once: %(waiting)s of yours do, and this job would add "
            "%(tasks)s. Submit it when enough of them have begun, or stop jobs that wait."
        )
        numbers = {"tasks": tasks, "waiting": waiting, "most": settings.WAITING_TASKS}
        raise TooManyAtOnce(words % {name: f"{number:,}" for name, number in numbers.items()})


def _check_present(spec: JobSpec) -> VirtualCluster:
    """The virtual cluster. Raises SpecInvalid if it is gone by now."""
    vc = VirtualCluster.objects.filter(name=spec.vc).first()
    if vc is None:
        message = f"there is no virtual cluster {spec.vc} any more"
        raise SpecInvalid([Problem("defaults.virtualCluster", message, "unknown")])
    return vc


def _store(
    user: User, spec: JobSpec, config: str, hints: list[str], submit_key: str, now: datetime, new_name: bool
) -> Job:
    newest = Job.objects.filter(user=user, name=spec.name).aggregate(run=Max("run"))["run"] or 0
    if newest and new_name:
        raise NameTaken(spec.name)
    job, roles = job_draft(user=user, spec=spec, now=now)
    job.run, job.config, job.submit_key = newest + 1, config, submit_key
    job.code = code_hold(name=spec.berth.code, now=now) if spec.berth.code else None
    job.secrets_sealed = seal(dict(spec.secrets)) if spec.secrets else ""
    job.save(force_insert=True)
    _check_present(spec)  # may have been removed while the job was checked
    for role in roles:
        role.job = job
    tags_store(job=job, names=spec.tags)
    roles = TaskRole.objects.bulk_create(roles)
    Task.objects.bulk_create(Task(job=job, role=role, index=index) for role in roles for index in range(role.instances))
    told = {"job": job.label, "vc": spec.vc, "tasks": wordings.TASKS(number=spec.task_count)}
    message = (
        wordings.SUBMITTED_GPUS(**told, gpus=wordings.GPUS(number=spec.gpu_count))
        if spec.gpu_count
        else wordings.SUBMITTED(**told)
    )
    job_event(job=job, code="submitted", now=now, actor=user.username, message=message)
    audit_write(
        Audited.JOB_SUBMIT, actor=user.username, target=job.label, vc=spec.vc, now=now,
        after={"priority": spec.priority, "tasks": spec.task_count, "gpus": spec.gpu_count},
    )  # fmt: skip
    for hint in hints:
        job_event(job=job, code="hint", message=hint, now=now)
    transaction.on_commit(scheduler_wake)
    storages_keep(spec=spec)
    return job


def _roles(job: Job, spec: JobSpec) -> list[TaskRole]:
    skus = {sku.name: sku for sku in Sku.objects.all()}
    return [
        TaskRole(
            job=job,
            position=position,
            name=role.name,
            instances=role.instances,
            least=role.elastic.least if role.elastic else None,
            gpus=role.resources.gpu,
            cpu_milli=role.resources.cpu * 1000,
            memory_mb=role.resources.memory_mb,
            sku=skus[role.sku] if role.sku else None,
            pinned_cell=role.pinned_cell or "",
            affinity_group=role.affinity_group or "",
            min_failed=role.completion.min_failed,
            min_succeeded=role.completion.min_succeeded,
            task_retry_count=role.task_retry_count,
        )
        for position, role in enumerate(spec.roles)
    ]
