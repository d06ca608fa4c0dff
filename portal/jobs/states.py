"""States of jobs, attempts and tasks, their legal moves, and what an attempt's end makes of its job.

The reason is stored, the state follows: an attempt gets its end reason once, its tasks are told to stop, and once the
last container has ended, ``AFTER`` says what the job becomes. Diagram: ``docs/decisions/job-states.md``.
"""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    STARTING = "starting", _("Starting")  # placed; containers are being prepared
    RUNNING = "running", _("Running")
    STOPPING = "stopping", _("Stopping")  # stop requested; containers are ending
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")


JOB_OVER = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
JOB_LIVE = frozenset(set(JobState) - JOB_OVER)
CLASS_CHANGES = frozenset({JobState.WAITING, JobState.STARTING, JobState.RUNNING})
"""States in which a job's priority class can be changed."""
JOB_MOVES: dict[str, frozenset[str]] = {
    JobState.WAITING: frozenset({JobState.STARTING, JobState.STOPPED, JobState.FAILED}),
    JobState.STARTING: frozenset({JobState.RUNNING, JobState.WAITING, JobState.STOPPING, *JOB_OVER}),
    JobState.RUNNING: frozenset({JobState.WAITING, JobState.STOPPING, *JOB_OVER}),
    JobState.STOPPING: frozenset({JobState.STOPPED, JobState.SUCCEEDED, JobState.FAILED}),
}


class AttemptState(models.TextChoices):
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    ENDING = "ending", _("Ending")  # end reason is set; containers are being stopped
    ENDED = "ended", _("Ended")


ATTEMPT_MOVES: dict[str, frozenset[str]] = {
    AttemptState.STARTING: frozenset({AttemptState.RUNNING, AttemptState.ENDING}),
    AttemptState.RUNNING: frozenset({AttemptState.ENDING}),
    AttemptState.ENDING: frozenset({AttemptState.ENDED}),
}


class TaskState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")


TASK_OVER = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED})
TASK_MOVES: dict[str, frozenset[str]] = {
    TaskState.WAITING: frozenset({TaskState.STARTING, TaskState.STOPPED}),
    TaskState.STARTING: frozenset({TaskState.RUNNING, TaskState.WAITING, *TASK_OVER}),
    TaskState.RUNNING: frozenset({TaskState.WAITING, *TASK_OVER}),
    # a gang's new attempt runs all its tasks again
    TaskState.SUCCEEDED: frozenset({TaskState.WAITING}),
    TaskState.FAILED: frozenset({TaskState.WAITING}),
    TaskState.STOPPED: frozenset({TaskState.WAITING}),
}


class EndReason(models.TextChoices):
    """Why a job attempt ended. Set once."""

    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("A task failed")
    STOPPED = "stopped", _("Stopped by a person")
    START_FAILED = "start_failed", _("Could not be started")
    NODE_FAULT = "node_fault", _("A node was at fault")
    NODE_LOST = "node_lost", _("A node was lost")
    DRAINED = "drained", _("Its node was drained")
    PREEMPTED = "preempted", _("Preempted")
    TIME_LIMIT = "time_limit", _("Its time limit was reached")
    IDLE = "idle", _("Its GPUs did nothing")


class Behaviour(StrEnum):
    """A failure's class for retries (FrameworkController's classes)."""

    TRANSIENT = "transient"  # always retried, not counted
    PERMANENT = "permanent"  # never retried
    UNKNOWN = "unknown"  # retried while retries are left


class Next(StrEnum):
    """What the job becomes after an attempt."""

    SUCCEED = "succeed"
    FAIL = "fail"
    STOP = "stop"
    REQUEUE = "requeue"  # keeps its place; no retry is used up
    RETRY = "retry"  # uses up one retry when one is left, else FAIL


AFTER: dict[str, Next | dict[Behaviour, Next]] = {
    EndReason.SUCCEEDED: Next.SUCCEED,
    EndReason.STOPPED: Next.STOP,
    EndReason.NODE_FAULT: Next.REQUEUE,
    EndReason.NODE_LOST: Next.REQUEUE,
    EndReason.DRAINED: Next.REQUEUE,
    EndReason.PREEMPTED: Next.REQUEUE,
    EndReason.TIME_LIMIT: Next.FAIL,
    EndReason.IDLE: Next.STOP,
    EndReason.START_FAILED: {
        Behaviour.TRANSIENT: Next.REQUEUE,
        Behaviour.PERMANENT: Next.FAIL,
        Behaviour.UNKNOWN: Next.RETRY,
    },
    EndReason.FAILED: {
        Behaviour.TRANSIENT: Next.REQUEUE,
        Behaviour.PERMANENT: Next.FAIL,
        Behaviour.UNKNOWN: Next.RETRY,
    },
}


class IdleAction(models.TextChoices):
    """What to do with a job that holds GPUs and does not use them."""

    OFF = "off", _("Nothing")
    WARN = "warn", _("Warn its owner")
    STOP = "stop", _("Warn, then stop it")
    OPPORTUNISTIC = "opportunistic", _("Warn, then make it opportunistic")
    PARK = "park", _("Warn, then park it")


IDLE_ENDS = frozenset({IdleAction.STOP, IdleAction.OPPORTUNISTIC, IdleAction.PARK})
"""Actions that follow up on the warning."""


class IdleEnd(models.TextChoices):
    """Why a warning about idle GPUs ended."""

    WORKED = "worked", _("Its GPUs work again")
    UNKNOWN = "unknown", _("Nothing is known of its GPUs")
    EXEMPT = "exempt", _("It was exempted")
    POLICY = "policy", _("The policy was changed")
    STOPPED = "stopped", _("It was stopped for it")
    PARKED = "parked", _("It was parked")
    OVER = "over", _("The attempt ended")


class IllegalMove(Exception):
    """A state change that the table does not allow: our bug, never a user's mistake."""

    def __init__(self, table: str, old: str, new: str) -> None:
        super().__init__(f"{table} cannot move from {old} to {new}")
        self.table, self.old, self.new = table, old, new


OWNER_GONE = "owner"
"""Waiting code of a job whose owner may no longer run jobs in its team."""
