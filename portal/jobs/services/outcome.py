"""What an end makes of the task, its attempt and the job (FrameworkController's completion and retry)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from nodes.protocol.states import Cause, StopReason
from portal.common.priorities import OPPORTUNISTIC
from portal.hardware.services.outages import node_start_failed
from portal.job_file.model import FANCY_RETRY_OFF, RETRY_ALWAYS, JobSpec
from portal.jobs import wordings
from portal.jobs.exits import OOM_SEEN, Verdict
from portal.jobs.models import Demotion, Job, JobAttempt, JobEvent, Task, TaskAttempt, TaskRole
from portal.jobs.services.attempts import LIVE, attempt_end
from portal.jobs.services.avoided_nodes import node_avoid
from portal.jobs.services.claims import CLAIMS_KEPT, claims_keep
from portal.jobs.services.retry_backoff import at_start, failed_at_start, gave_way, job_backoff, task_backoff
from portal.jobs.services.retry_counting import judged, tried_again
from portal.jobs.services.transitions import attempt_move, job_event, job_move, tasks_move, tasks_resume, tasks_running
from portal.jobs.states import (
    AFTER,
    TASK_OVER,
    AttemptState,
    Behaviour,
    EndReason,
    JobState,
    Next,
    TaskState,
)


def task_attempt_ended(*, row: TaskAttempt, now: datetime, given_up: str = "") -> None:
    """Decides the task, then its attempt, after a container ended or was given up for the reason ``given_up``. Inside a
    transaction.

    Only the current attempt decides: if it has an end reason already, the task just joins it.
    """
    attempt = row.job_attempt
    attempt.refresh_from_db(fields=["end_reason", "state"])
    if attempt.end_reason:
        tasks_move(Task.objects.filter(pk=row.task_id), _joined_state(row))
    elif given_up:
        _given_up(row, attempt, given_up, now)
    elif row.cause == Cause.EXITED and row.exit_code == 0:
        tasks_move(Task.objects.filter(pk=row.task_id), TaskState.SUCCEEDED)
        _memory_hint(row, now)
    elif row.alone and gave_way(row):  # its other tasks go on
        _task_again(row, wordings.TASK_ON(task=_name(row), node=row.node.name, why=row.stop_message), now)
    else:
        _failed(row, attempt, judged(row), now)
    attempt_decide(attempt=attempt, now=now)


def _memory_hint(row: TaskAttempt, now: datetime) -> None:
    """Notes that a task lost a process for want of memory although it succeeded."""
    if row.oom_seen:
        job_event(
            job=row.job_attempt.job, job_attempt=row.job_attempt, task_attempt=row, code="hint", now=now,
            message=wordings.OF_TASK(task=_name(row), why=OOM_SEEN()),
        )  # fmt: skip


def _name(row: TaskAttempt) -> str:
    return f"{row.task.role.name}/{row.task.index}"


def _joined_state(row: TaskAttempt) -> TaskState:
    return TaskState.SUCCEEDED if (row.cause, row.exit_code) == (Cause.EXITED, 0) else TaskState.STOPPED


def _given_up(row: TaskAttempt, attempt: JobAttempt, why: str, now: datetime) -> None:
    if row.alone:
        _task_again(row, why, now)
    else:
        tasks_move(Task.objects.filter(pk=row.task_id), TaskState.STOPPED)
        attempt_end(attempt=attempt, reason=EndReason.NODE_LOST, message=why, now=now)


def _failed(row: TaskAttempt, attempt: JobAttempt, why: Verdict, now: datetime) -> None:
    message: str = wordings.TASK_ON(task=_name(row), node=row.node.name, why=why.sentence)
    if why.node_fault and at_start(row):
        node_avoid(job=attempt.job, node=row.node.name, cause=row.cause, now=now)
        if row.alone:
            _task_again(row, message, now)
        else:
            tasks_move(Task.objects.filter(pk=row.task_id), TaskState.STOPPED)
            away = row.cause == Cause.STORAGE_MISSING  # usually a file server's fault
            attempt_end(
                attempt=attempt, reason=EndReason.START_FAILED if away else EndReason.NODE_FAULT, message=message,
                now=now, behaviour=why.behaviour, stop=StopReason.START_FAILED,
            )  # fmt: skip
        # After the attempt's end, which locks several nodes' rows in order.
        node_start_failed(node=row.node, user=attempt.job.user.username, cause=row.cause, now=now)
        return
    if row.cause == Cause.IMAGE_AWAY:  # another node may reach the registry
        node_avoid(job=attempt.job, node=row.node.name, cause=row.cause, now=now)
    if why.over_limit:
        job_event(
            job=attempt.job, job_attempt=attempt, task_attempt=row, code="faults_counted", message=message, now=now
        )
    if row.alone and _task_retries(row, why):
        _task_again(row, message, now, counted=why.behaviour is not Behaviour.TRANSIENT)
        return
    tasks_move(Task.objects.filter(pk=row.task_id), TaskState.FAILED)
    if row.task.extra:
        _shrank(row, message, now)
    elif row.started_at is None:
        attempt_end(
            attempt=attempt, reason=EndReason.START_FAILED, message=message, now=now, behaviour=why.behaviour,
            exit_code=row.exit_code, stop=StopReason.START_FAILED,
        )  # fmt: skip


def _task_retries(row: TaskAttempt, why: Verdict) -> bool:
    return _retry_allowed(row.task.role.task_retry_count, row.task.retries_counted, why.behaviour)


def _retry_allowed(most: int, used: int, behaviour: Behaviour) -> bool:
    """FrameworkController: transient always, permanent never, unknown while accountable retries are left."""
    if most == FANCY_RETRY_OFF:
        return True
    if behaviour is not Behaviour.UNKNOWN:
        return behaviour is Behaviour.TRANSIENT
    return most == RETRY_ALWAYS or used < most


def _task_again(row: TaskAttempt, message: str, now: datetime, *, counted: bool = False) -> None:
    counted_now = F("retries_counted") + int(counted)  # PostgreSQL cannot add booleans
    again = tried_again(row=row, pause=task_backoff(row=row), now=now)
    task = Task.objects.filter(pk=row.task_id)
    tasks_move(task, TaskState.WAITING, retries_counted=counted_now, not_before=again)
    if row.task.extra:
        _shrank(row, message, now)
        return
    told = wordings.AGAIN_AT(why=message, time=f"{again:%H:%M:%S}") if again else wordings.AGAIN(why=message)
    job_event(
        job=row.job_attempt.job, job_attempt=row.job_attempt, task_attempt=row, code="task_retried", now=now,
        message=told,
    )  # fmt: skip


def _shrank(row: TaskAttempt, why: str, now: datetime) -> None:
    """Says of an elastic job that an extra task has left it."""
    attempt = row.job_attempt
    tasks = wordings.TASKS(number=tasks_running([attempt.job_id]).get(attempt.job_id, 0))
    message = wordings.SHRANK(why=why, tasks=tasks)
    job_event(job=attempt.job, job_attempt=attempt, task_attempt=row, code="shrank", message=message, now=now)


# ---------------------------------------------------------------- the attempt


def attempt_decide(*, attempt: JobAttempt, now: datetime) -> None:
    """Applies the roles' completion bounds, which count no extra tasks; closes the attempt when its last container has
    ended."""
    if not attempt.end_reason:
        _completion(attempt, now)
    if attempt.state == AttemptState.ENDING and not TaskAttempt.objects.filter(LIVE, job_attempt=attempt).exists():
        attempt_close(attempt=attempt, now=now)


def _completion(attempt: JobAttempt, now: datetime) -> None:
    counts: dict[int, Counter[str]] = {}
    for role_id, state in tasks_at_least(attempt.job).values_list("role_id", "state"):
        counts.setdefault(role_id, Counter())[state] += 1
    roles = list(TaskRole.objects.filter(job=attempt.job))
    for role in roles:
        failed = counts[role.pk][TaskState.FAILED]
        if 1 <= role.min_failed <= failed:
            _end_failed(attempt, role, failed, now)
            return
    for role in roles:
        succeeded = counts[role.pk][TaskState.SUCCEEDED]
        if 1 <= role.min_succeeded <= succeeded:
            message = wordings.ENOUGH_DONE(number=succeeded, instances=role.at_least, role=role.name)
            attempt_end(attempt=attempt, reason=EndReason.SUCCEEDED, message=message, now=now, exit_code=0)
            return
    if all(state in TASK_OVER for count in counts.values() for state in count):
        attempt_end(attempt=attempt, reason=EndReason.SUCCEEDED, message=wordings.ALL_DONE(), now=now, exit_code=0)


def tasks_at_least(job: Job) -> QuerySet[Task]:
    """The job's tasks that it does not run without."""
    return Task.objects.filter(job=job).exclude(index__gte=F("role__least"))


def _end_failed(attempt: JobAttempt, role: TaskRole, failed: int, now: datetime) -> None:
    later = TaskAttempt.objects.filter(task=OuterRef("task"), number__gt=OuterRef("number"))
    tasks = tasks_at_least(attempt.job).filter(role=role, state=TaskState.FAILED)
    row = (
        TaskAttempt.objects.filter(~Exists(later), job_attempt=attempt, task__in=tasks)
        .select_related("task__role", "node")
        .order_by("ended_at", "id")
        .first()
    )
    if row is None:
        return
    why = judged(row)
    message = wordings.TASK_FAILED(task=_name(row), node=row.node.name, why=why.sentence)
    if failed > 1:
        message = wordings.OTHERS_FAILED(why=message, failed=failed, instances=role.at_least)
    attempt_end(
        attempt=attempt, reason=EndReason.FAILED, message=message, now=now, behaviour=why.behaviour,
        exit_code=row.exit_code,
    )  # fmt: skip


def attempt_close(*, attempt: JobAttempt, now: datetime) -> None:
    """Closes the attempt after its last container ended; ``AFTER`` says what the job becomes."""
    with transaction.atomic():
        attempt.refresh_from_db(fields=["end_message", "end_reason", "exit_code"])
        end = {"end_reason": attempt.end_reason, "end_message": attempt.end_message, "exit_code": attempt.exit_code}
        if _done_before_preempted(attempt):
            end = {"end_reason": EndReason.SUCCEEDED, "end_message": wordings.DONE_BEFORE_PREEMPTED(), "exit_code": 0}
        closed = attempt_move(
            attempt, AttemptState.ENDED, now=now, code="attempt_ended",
            message=wordings.ATTEMPT_ENDED(number=attempt.number, why=end["end_message"]), ended_at=now, **end,
        )  # fmt: skip
        if closed:
            Demotion.objects.filter(job=attempt.job_id).delete()
            attempt.refresh_from_db()
            if attempt.own_priority is not None:
                Job.objects.filter(pk=attempt.job_id, priority=OPPORTUNISTIC).update(priority=attempt.own_priority)
            job = Job.objects.select_related("user").get(pk=attempt.job_id)
            _job_after(job, attempt, now)


def _done_before_preempted(attempt: JobAttempt) -> bool:
    """Whether its tasks were already ending by themselves when it was chosen: nothing was taken from it."""
    if attempt.end_reason != EndReason.PREEMPTED:
        return False
    return not tasks_at_least(attempt.job).exclude(state=TaskState.SUCCEEDED).exists()


def _job_after(job: Job, attempt: JobAttempt, now: datetime) -> None:
    step = next_step(job=job, attempt=attempt)
    if step is Next.REQUEUE or step is Next.RETRY:
        _requeue(job, attempt, now, counted=step is Next.RETRY)
        return
    message = _stop_words(job, attempt) if step is Next.STOP else attempt.end_message
    state, reason = {
        Next.SUCCEED: (JobState.SUCCEEDED, EndReason.SUCCEEDED),
        Next.STOP: (JobState.STOPPED, EndReason.IDLE if attempt.end_reason == EndReason.IDLE else EndReason.STOPPED),
        Next.FAIL: (JobState.FAILED, EndReason(attempt.end_reason)),
    }[step]
    job_move(
        job, state, now=now, code=str(state), message=message, ended_at=now, end_reason=reason,
        end_message=message, exit_code=attempt.exit_code,
    )  # fmt: skip
    waiting = Task.objects.filter(job=job).exclude(state__in=TASK_OVER)
    tasks_move(waiting, TaskState.STOPPED)


def _stop_words(job: Job, attempt: JobAttempt) -> str:
    """Who stopped it, even if its attempt was already ending for another reason."""
    ended: str = attempt.end_message
    if attempt.end_reason in {EndReason.STOPPED, EndReason.IDLE}:
        return ended
    asked = JobEvent.objects.filter(job=job, code="stopping").order_by("-id").first()
    return asked.message if asked else ended


def next_step(*, job: Job, attempt: JobAttempt) -> Next:
    """The step from ``AFTER``, adjusted for the job's retry count and a person's stop."""
    if job.state == JobState.STOPPING and attempt.end_reason != EndReason.SUCCEEDED:
        return Next.STOP
    step = AFTER[attempt.end_reason]
    if isinstance(step, dict):
        step = step[Behaviour(attempt.end_behaviour or Behaviour.UNKNOWN)]
    most = JobSpec.from_json(job.spec).job_retry_count
    if most == FANCY_RETRY_OFF and step in {Next.FAIL, Next.SUCCEED} and job.state != JobState.STOPPING:
        return Next.RETRY
    if step is Next.RETRY and not _retry_allowed(most, job.retries_counted, Behaviour.UNKNOWN):
        return Next.FAIL
    return step


def _requeue(job: Job, attempt: JobAttempt, now: datetime, *, counted: bool) -> None:
    pause, away = job_backoff(job=job), None
    if attempt.end_reason == EndReason.START_FAILED:
        runs = attempt.tasks.filter(cause=Cause.IMAGE_AWAY).select_related("job_attempt__job")
        away = runs.defer("spec_sealed").first()
    tasks_move(Task.objects.filter(job=job), TaskState.WAITING)
    if not job.gang:
        tasks_resume(job=job)
    job_move(
        job, JobState.WAITING, now=now, code="requeued",
        not_before=tried_again(row=away, pause=pause, now=now),
        retries_counted=job.retries_counted + counted,
        message=wordings.REQUEUED(why=attempt.end_message),
    )  # fmt: skip
    if job.gang and pause and pause <= CLAIMS_KEPT and failed_at_start(attempt):
        claims_keep(attempt=attempt, now=now)
