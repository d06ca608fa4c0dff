"""Jobs in the fields that OpenPAI's clients read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from nodes.protocol.states import Cause
from portal.common.priorities import PRIORITY_CLASSES
from portal.jobs.models import Job, JobEvent, Task, TaskAttempt
from portal.jobs.states import EndReason, JobState
from portal.openpai.exits import container_code, container_sentence, ended_code, exit_spec, exit_type, job_code
from portal.openpai.names import framework_name, ms, pai_name
from portal.openpai.selectors.jobs import AttemptSeen
from portal.openpai.states import JOBS, PENDING, TASKS, Shown, attempt_shown, container_shown

_CLASSES = {number: str(name) for name, number in PRIORITY_CLASSES.items()}
WARNINGS = (
    *("demoted", "failed", "hint", "preempted", "requeued", "task_drained", "task_given_up", "task_late", "task_lost"),
    *("task_preempted", "task_retried", "preempting"),
)
"""The kinds of events that OpenPAI would call warnings."""


def job_row(job: Job, tags: Sequence[str], cause: str) -> dict[str, Any]:
    """A job as in lists. ``cause``: of the end of the task that made a failed one fail."""
    return {
        "name": pai_name(job),
        "frameworkName": framework_name(job),
        "debugId": str(job.pk),
        "tags": list(tags),
        **_job_state(job),
        "appExitCode": job_code(state=job.state, end_reason=job.end_reason, exit_code=job.exit_code, cause=cause),
        "totalGpuNumber": job.__dict__["gpu_count"],
        "totalTaskNumber": job.__dict__["task_count"],
        "totalTaskRoleNumber": job.__dict__["roles_count"],
        "jobPriority": _CLASSES.get(job.priority),
    }


def _job_state(job: Job) -> dict[str, Any]:
    shown = JOBS[job.state]
    stopped = job.state in {JobState.STOPPING, JobState.STOPPED}
    return {
        "username": job.user.username,
        "state": shown.state,
        "subState": shown.sub_state,
        "executionType": "STOP" if stopped else "START",
        "retries": job.retries,
        "retryDetails": {
            "user": job.retries_counted, "platform": max(job.retries - job.retries_counted, 0), "resource": 0,
        },
        "retryDelayTime": None,
        "submissionTime": ms(job.submitted_at),
        "createdTime": ms(job.submitted_at),
        "launchedTime": ms(job.started_at),
        "completedTime": ms(job.ended_at),
        "virtualCluster": job.vc.name,
    }  # fmt: skip


def job_near(job: Job, tags: Sequence[str], attempt: AttemptSeen) -> dict[str, Any]:
    """A job with one of its runs, task by task."""
    row, code = attempt.row, _attempt_code(job, attempt)
    status = {
        **_job_state(job),
        "attemptId": attempt.index,
        "attemptState": _attempt_state(job, attempt).state,
        "appId": framework_name(job),
        "appProgress": None,
        "appTrackingUrl": "",
        "appCreatedTime": ms(row.created_at if row else job.submitted_at),
        "appLaunchedTime": ms(row.started_at) if row else None,
        "appCompletedTime": ms(row.ended_at if row else job.ended_at),
        **_exit(job, attempt, code),
        "appExitType": exit_type(code),
        "jobPriority": _CLASSES.get(job.priority),
    }
    return {
        "name": pai_name(job),
        "frameworkName": framework_name(job),
        "debugId": str(job.pk),
        "tags": list(tags),
        "jobStatus": status,
        "taskRoles": task_roles(job, attempt),
    }


def _attempt_state(job: Job, attempt: AttemptSeen) -> Shown:
    if attempt.row is None:
        return PENDING if job.state == JobState.WAITING else JOBS[job.state]
    return attempt_shown(state=attempt.row.state, end_reason=attempt.row.end_reason)


def _attempt_code(job: Job, attempt: AttemptSeen) -> int | None:
    if attempt.row is None:
        return job_code(state=job.state, end_reason=job.end_reason, exit_code=job.exit_code)
    row = attempt.row
    if row.ended_at is None:
        return None
    found = _trigger(attempt)
    cause = found.run.cause if found and found.run.exit_code == row.exit_code else ""
    return ended_code(end_reason=row.end_reason, exit_code=row.exit_code, cause=cause)


def _exit(job: Job, attempt: AttemptSeen, code: int | None) -> dict[str, Any]:
    told = (attempt.row.end_message if attempt.row else job.end_message) or None
    found = _trigger(attempt)
    return {
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": told,
        "appExitMessages": {"container": None, "runtime": None, "launcher": told} if told else None,
        "appExitTriggerMessage": told,
        "appExitTriggerTaskRoleName": found.role if found else None,
        "appExitTriggerTaskIndex": found.task if found else None,
    }


class _Trigger(NamedTuple):
    """The run of a task that ended a run of its job."""

    at: datetime
    role: str
    task: int
    run: TaskAttempt


def _trigger(attempt: AttemptSeen) -> _Trigger | None:
    """The task whose end ended a failed run: the first that ended by itself, and not well."""
    if attempt.row is None or attempt.row.end_reason not in {EndReason.FAILED, EndReason.START_FAILED}:
        return None
    failed = [
        _Trigger(run.ended_at or run.created_at, role.name, task.index, run)
        for role in attempt.roles
        for task in attempt.named(role)
        if (run := attempt.newest.get(task.pk)) and run.cause != Cause.STOPPED and container_code(run)
    ]
    return min(failed, key=lambda one: one[:3], default=None)


def task_roles(job: Job, attempt: AttemptSeen) -> dict[str, Any]:
    """Each role with its tasks, as they are or were in this run of the job. Those that did not run in an earlier one
    are not named: of many runs of many tasks they would be most of the answer."""
    return {
        role.name: {
            "taskRoleStatus": {"name": role.name},
            "taskStatuses": [_task(job, attempt, task) for task in attempt.named(role)],
        }
        for role in attempt.roles
    }


def _task(job: Job, attempt: AttemptSeen, task: Task) -> dict[str, Any]:
    """Without ``taskUid``, which OpenPAI may leave out: the document inside its SDK wants a number there, its newest a
    text."""
    run = attempt.newest.get(task.pk)
    index = attempt.run_index(run) if run else 0
    state = TASKS[task.state] if attempt.latest or run is None else _run_state(run)
    return {
        "taskIndex": task.index,
        "taskState": state,
        "retries": index,
        "accountableRetries": min(task.retries_counted, index),
        "createdTime": ms(attempt.row.created_at if attempt.row else job.submitted_at),
        "launchedTime": ms(run.started_at) if run else None,
        "completedTime": ms(run.ended_at) if run else None,
        "attemptId": index,
        "attemptState": _run_state(run) if run else state,
        **_container(job, attempt.index, task, run, index),
    }


def task_history(job: Job, attempt: AttemptSeen, task: Task, runs: Sequence[TaskAttempt]) -> dict[str, Any]:
    """A task with all its runs in one run of the job."""
    last = runs[-1] if runs else None
    return {
        "taskIndex": task.index,
        "taskUid": str(task.pk),
        "taskState": TASKS[task.state] if attempt.latest or last is None else _run_state(last),
        "retries": max(len(runs) - 1, 0),
        "accountableRetries": min(task.retries_counted, max(len(runs) - 1, 0)),
        "createdTime": ms(attempt.row.created_at if attempt.row else job.submitted_at),
        "launchedTime": ms(last.started_at) if last else None,
        "completedTime": ms(last.ended_at) if last else None,
        "username": job.user.username,
        "jobName": pai_name(job),
        "jobAttemptId": attempt.index,
        "taskRoleName": task.role.name,
        "attempts": [
            {"attemptId": index, "attemptState": _run_state(run), **_container(job, attempt.index, task, run, index)}
            for index, run in enumerate(runs)
        ],
    }


def _run_state(run: TaskAttempt) -> str:
    code = container_code(run)
    return container_shown(
        state=run.state, lost=run.lost_at is not None, code=code, stopped=code is not None and code in {-210, -220}
    )


def _container(job: Job, job_index: int, task: Task, run: TaskAttempt | None, index: int) -> dict[str, Any]:
    log = (
        f"/api/v2/jobs/{framework_name(job)}/attempts/{job_index}/taskRoles/{task.role.name}"
        f"/taskIndex/{task.index}/attempts/{index}/logs"
    )
    code = container_code(run) if run else None
    gpus = ",".join(dict.fromkeys(str(held.leaf.index) for held in run.allocations.all())) if run else ""
    return {
        "currentAttemptCreatedTime": ms(run.created_at) if run else None,
        "currentAttemptLaunchedTime": ms(run.started_at) if run else None,
        "currentAttemptCompletedTime": ms(run.ended_at) if run else None,
        "containerId": str(run.pk) if run else None,
        "containerIp": run.node.address if run else None,
        "containerNodeName": run.node.name if run else None,
        "containerPorts": {label: _ports(numbers) for label, numbers in run.ports.items()} if run else {},
        "containerGpus": gpus or None,
        "containerLog": log,
        "containerExitCode": code,
        "containerExitSpec": exit_spec(code),
        "containerExitDiagnostics": container_sentence(run) if run else None,
        "hived": {
            "affinityGroupName": task.role.affinity_group or None, "lazyPreempted": None, "lazyPreemptionStatus": None,
        },
    }  # fmt: skip


def _ports(numbers: Sequence[int]) -> int | str:
    """One port is a number, several are a list in a text, as in OpenPAI."""
    return numbers[0] if len(numbers) == 1 else ",".join(map(str, numbers))


SSH_KEY_PAIR = {"folderPath": "", "publicKeyFileName": "", "privateKeyFileName": "", "privateKeyDirectDownloadLink": ""}
"""OpenPAI kept a pair of keys for each job; here everybody's own keys open their jobs."""


def ssh_container(run: TaskAttempt) -> dict[str, Any]:
    """By what a running container is reached."""
    return {"id": str(run.pk), "sshIp": run.node.address, "sshPort": run.ports["ssh"][0]}


def job_attempt(job: Job, attempt: AttemptSeen) -> dict[str, Any]:
    """A run of a job as OpenPAI's older history has it."""
    row, code = attempt.row, _attempt_code(job, attempt)
    shown, spec = _attempt_state(job, attempt), exit_spec(code)
    told = (row.end_message if row else job.end_message) or ""
    return {
        "jobName": pai_name(job),
        "frameworkName": framework_name(job),
        "uid": f"{job.pk}.{attempt.index}",
        "userName": job.user.username,
        "state": shown.state,
        "originState": shown.sub_state,
        "attemptIndex": attempt.index,
        "jobStartedTime": ms(job.submitted_at),
        "attemptStartedTime": ms(row.created_at) if row else None,
        "attemptCompletedTime": ms(row.ended_at) if row else ms(job.ended_at),
        "exitCode": code,
        "exitPhrase": spec["phrase"] if spec else None,
        "exitType": exit_type(code),
        "exitDiagnostics": {"diagnosticsSummary": told, "runtime": None, "launcher": told} if told else None,
        **_exit(job, attempt, code),
        "totalGpuNumber": job.__dict__["gpu_count"],
        "totalTaskNumber": job.__dict__["task_count"],
        "totalTaskRoleNumber": job.__dict__["roles_count"],
        "taskRoles": task_roles(job, attempt),
        "isLatest": attempt.latest,
    }


def event(job: Job, row: JobEvent) -> dict[str, Any]:
    """Something that happened to a job."""
    kind = "Warning" if row.code in WARNINGS else "Normal"
    reason = "".join(word.capitalize() for word in row.code.split("_"))
    return _event(job, str(row.pk), kind, reason, row.message, row.at, row.at, row.task_attempt)


def waiting_event(job: Job) -> dict[str, Any] | None:
    """Why a job waits, as the event by which OpenPAI's users know it; None for one that does not, or of which the
    scheduler has not said it yet."""
    if job.state != JobState.WAITING or not job.waiting_message:
        return None
    last = job.waiting_written_at or job.submitted_at
    return _event(
        job, f"{job.pk}-waiting", "Warning", "FailedScheduling", job.waiting_message, job.submitted_at, last, None
    )


def _event(
    job: Job, uid: str, kind: str, reason: str, message: str, first: datetime, last: datetime, run: TaskAttempt | None
) -> dict[str, Any]:
    """``run``: what it is about; of no task in particular: index -1."""
    role = run.task.role.name if run else ""
    return {
        "uid": uid,
        "frameworkName": framework_name(job),
        "podUid": str(run.pk) if run else "",
        "taskroleName": role,
        "taskName": f"{role}-{run.task.index}" if run else "",
        "taskIndex": run.task.index if run else -1,
        "type": kind,
        "reason": reason,
        "message": message,
        "firstTimestamp": first.isoformat(),
        "lastTimestamp": last.isoformat(),
        "count": 1,
        "sourceComponent": "berth",
        "sourceHost": None,
    }
