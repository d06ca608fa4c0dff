"""OpenPAI's words for our states: the one table. Left are ours, right what its clients read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from nodes.protocol.states import ContainerState
from portal.jobs.states import AttemptState, EndReason, JobState, TaskState


class PaiState(StrEnum):
    """How OpenPAI shows a job, an attempt or a task."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class Shown(NamedTuple):
    """``state`` for people, ``sub_state`` as OpenPAI's framework controller names it."""

    state: PaiState
    sub_state: str


JOBS: Mapping[str, Shown] = {
    JobState.WAITING: Shown(PaiState.WAITING, "AttemptCreationPending"),
    JobState.STARTING: Shown(PaiState.WAITING, "AttemptPreparing"),
    JobState.RUNNING: Shown(PaiState.RUNNING, "AttemptRunning"),
    JobState.STOPPING: Shown(PaiState.STOPPING, "AttemptDeleting"),
    JobState.SUCCEEDED: Shown(PaiState.SUCCEEDED, "Completed"),
    JobState.FAILED: Shown(PaiState.FAILED, "Completed"),
    JobState.STOPPED: Shown(PaiState.STOPPED, "Completed"),
}

TASKS: Mapping[str, PaiState] = {
    TaskState.WAITING: PaiState.WAITING,
    TaskState.STARTING: PaiState.WAITING,
    TaskState.RUNNING: PaiState.RUNNING,
    TaskState.SUCCEEDED: PaiState.SUCCEEDED,
    TaskState.FAILED: PaiState.FAILED,
    TaskState.STOPPED: PaiState.STOPPED,
}

PENDING = Shown(PaiState.WAITING, "AttemptCreationPending")
"""An attempt that OpenPAI counts already and that has no row yet: its job waits."""

_ENDED: Mapping[str, PaiState] = {
    EndReason.SUCCEEDED: PaiState.SUCCEEDED,
    EndReason.STOPPED: PaiState.STOPPED,
    EndReason.IDLE: PaiState.STOPPED,
}
"""How an attempt that ended is shown; for every other reason: failed."""


def attempt_shown(*, state: str, end_reason: str) -> Shown:
    """A run of a job, by its state and why it ends."""
    if state == AttemptState.ENDED:
        return Shown(_ENDED.get(end_reason, PaiState.FAILED), "AttemptCompleted")
    if state == AttemptState.ENDING:
        stopping = end_reason in {EndReason.STOPPED, EndReason.IDLE}
        return Shown(PaiState.STOPPING if stopping else PaiState.RUNNING, "AttemptDeleting")
    if state == AttemptState.RUNNING:
        return Shown(PaiState.RUNNING, "AttemptRunning")
    return Shown(PaiState.WAITING, "AttemptPreparing")


def container_shown(*, state: str, lost: bool, code: int | None, stopped: bool) -> PaiState:
    """A run of a task, by its container; ``stopped``: it was told to end, ``lost``: given up with its node."""
    if state == ContainerState.TERMINATED or lost:
        if code == 0 and not lost:
            return PaiState.SUCCEEDED
        return PaiState.STOPPED if stopped and not lost else PaiState.FAILED
    return PaiState.RUNNING if state == ContainerState.RUNNING else PaiState.WAITING


def states_of(shown: PaiState) -> list[str]:
    """Our states of jobs that are shown like this."""
    return [ours for ours, one in JOBS.items() if one.state == shown]
