"""OpenPAI's exit codes for our ends: the one table. Codes, phrases and classes are its contract, to which a test
compares them (k8s-job-exit-spec.yaml), the words are ours.

A program's own exit status is handed on as it is, but for the two that OpenPAI keeps for itself; what ended for a
reason of the cluster's has a negative code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nodes.protocol.states import Cause, StopReason
from portal.jobs.exits import verdict
from portal.jobs.models import TaskAttempt
from portal.jobs.states import Behaviour, EndReason, JobState


class Kind(NamedTuple):
    """An exit code's phrase, who is to blame, its type, and whether trying again can help."""

    phrase: str
    causer: str
    type: str
    behaviour: Behaviour
    reason: str


_T, _P, _U = Behaviour.TRANSIENT, Behaviour.PERMANENT, Behaviour.UNKNOWN
_USER, _PLATFORM = "USER_FAILURE", "PLATFORM_FAILURE"

SUCCEEDED, STOPPED, STOPPED_WITH_JOB, PREEMPTED = 0, -210, -220, -101
IMAGE_MISSING, PORT_TAKEN, UNRECOGNISED = 254, 253, 255
REFUSED, LAYER_FULL, UNDEFINED = -1005, -1206, -8000
NODE_FAULT, CANNOT_START, NO_STATUS = -120, -200, -300

_KINDS: Mapping[int, Kind] = {
    0: Kind("Succeeded", "USER_CONTAINER", "USER_SUCCESS", _U, "It succeeded."),
    -101: Kind("PodExternalDeleted", "PAI_UNKNOWN", _PLATFORM, _T, "Its GPUs were taken back; it is tried again."),
    -120: Kind("PodCreationTransientError", "PAI_UNKNOWN", _PLATFORM, _T, "Its node did not run it; tried again."),
    -200: Kind("PodCreationPermanentError", "USER_SUBMISSION", _USER, _P, "It cannot be started as it is."),
    -210: Kind("StopFrameworkRequested", "USER_STOP", "USER_STOP", _P, "Somebody stopped the job."),
    -220: Kind("FrameworkAttemptCompletion", "USER_STOP", "USER_STOP", _P, "It was stopped together with its job."),
    -300: Kind("PodFailedWithoutFailedContainer", "UNKNOWN", "UNKNOWN_FAILURE", _U, "It failed without a status."),
    -1000: Kind("PodEvicted", "PAI_K8S", _PLATFORM, _T, "Its node was drained; it is tried again."),
    -1001: Kind("PodNodeLost", "PAI_K8S", _PLATFORM, _T, "Its node was lost; it is tried again."),
    -1004: Kind("PodDeadlineExceeded", "USER_STOP", "USER_STOP", _P, "Its time limit was reached."),
    -1005: Kind("PodNodeAdmissionForbidden", "USER_SUBMISSION", _USER, _P, "The node's own policy forbids it."),
    -1200: Kind("UserContainerDockerOOMKilled", "USER_CONTAINER", _USER, _P, "It used more memory than its memoryMB."),
    -1205: Kind("ContainerGpuDeviceNotFoundError", "PAI_HW", _PLATFORM, _T, "The node could not give it its GPUs."),
    -1206: Kind("ContainerLayerFull", "USER_CONTAINER", _USER, _P, "It wrote too much outside all storages."),
    126: Kind("UserCommandExitWithError", "USER_CONTAINER", _USER, _P, "A command of it cannot be executed."),
    127: Kind("UserCommandExitWithError", "USER_CONTAINER", _USER, _P, "A command of it was not found."),
    128: Kind("ContainerMayFailDueToGpuDeviceEccError", "UNKNOWN", "UNKNOWN_FAILURE", _U, "It gave up by itself."),
    130: Kind("ContainerSigIntReceived", "PAI_OS", _PLATFORM, _T, "It was interrupted from outside."),
    131: Kind("ContainerSigQuitReceived", "PAI_OS", _PLATFORM, _T, "It was told to quit from outside."),
    132: Kind("ContainerSigIllReceived", "USER_CONTAINER", _USER, _P, "It ran an instruction this CPU does not know."),
    134: Kind("ContainerSigAbrtReceived", "UNKNOWN", "UNKNOWN_FAILURE", _U, "It aborted."),
    135: Kind("ContainerSigBusReceived", "USER_CONTAINER", _USER, _P, "It touched memory that is not there."),
    136: Kind("ContainerSigFpeReceived", "USER_CONTAINER", _USER, _P, "It divided by zero or the like."),
    137: Kind("ContainerSigKillReceived", "PAI_OS", _PLATFORM, _T, "It was killed from outside."),
    139: Kind("ContainerSigSegvReceived", "UNKNOWN", "UNKNOWN_FAILURE", _U, "It touched memory that is not its own."),
    141: Kind("ContainerSigPipeReceived", "USER_CONTAINER", _USER, _P, "It wrote into a closed pipe."),
    143: Kind("ContainerSigTermReceived", "PAI_OS", _PLATFORM, _T, "It was asked to end from outside."),
    253: Kind("ContainerPortConflict", "PAI_RUNTIME", _PLATFORM, _T, "A port it was given is in use."),
    254: Kind("ContainerImageNotExists", "PAI_RUNTIME", _USER, _P, "Its image was not found."),
}
_OTHER = Kind("PAIRuntimeUnknownFailed", "UNKNOWN", "UNKNOWN_FAILURE", _U, "Its program failed; see its log.")
_OTHER_NEGATIVE = Kind("ContainerUndefinedNegativeExitCode", "UNKNOWN", "UNKNOWN_FAILURE", _U, "It failed.")

_ISSUERS: Mapping[str, frozenset[int]] = {
    "PAI_FC": frozenset({-101, -120, -200, -210, -220, -300}),
    "PAI_K8S": frozenset({-1000, -1001, -1004, -1005}),
    "PAI_DOCKER": frozenset({-1200, -1205, -1206}),
    "PAI_OS": frozenset({130, 131, 137, 143}),
    "PAI_RUNTIME": frozenset({253, 254, 255}),
}
"""Which of OpenPAI's parts would have found it out; else the program itself."""

_STAGES: Mapping[str, frozenset[int]] = {
    "COMPLETING": frozenset({0}),
    "SUBMITTING": frozenset({-200}),
    "LAUNCHING": frozenset({-120, -300, -1005, -1205, 253, 254}),
    "UNKNOWN": frozenset({-101, -210, -220, 255}),
}
"""When it happened; else while it ran."""

_WAIT = ["Wait for the next try.", "Ask an administrator if it happens again."]
_LOOK = ["Look at the end of its log."]
_ADVICE: Mapping[int, list[str]] = {
    0: [],
    -200: ["Look at what is said of its end, and submit it anew without that."],
    -210: [],
    -220: [],
    -1004: ["Give it more time (timeLimit)."],
    -1200: ["Ask for more memory (memoryMB).", "Let each task do less at a time."],
    -1005: ["Ask for nothing that this node forbids, or ask an administrator."],
    -1206: ["Write to a storage or to $BERTH_JOB_DIR."],
    126: ["Check the command's mode bits and its first line."],
    127: ["Check the command's name and the image's PATH."],
    135: ["Ask for more shared memory (shmMB).", *_LOOK],
    254: ["Correct the image's name.", "Store a log-in for its registry."],
}
"""What to do about it; else what its behaviour suggests."""

_REASONS: Mapping[str, int] = {
    EndReason.SUCCEEDED: SUCCEEDED,
    EndReason.STOPPED: STOPPED,
    EndReason.NODE_FAULT: NODE_FAULT,
    EndReason.NODE_LOST: -1001,
    EndReason.DRAINED: -1000,
    EndReason.PREEMPTED: PREEMPTED,
    EndReason.TIME_LIMIT: -1004,
    EndReason.IDLE: STOPPED,
}
"""Why an attempt ended that did not fail."""

_FAILED: Mapping[str, int] = {EndReason.START_FAILED: CANNOT_START, EndReason.FAILED: NO_STATUS}
"""A failed one shows what ended the task that failed, or the status of its program, where either is known."""

_CAUSES: Mapping[str, int] = {
    Cause.OOM: -1200,
    Cause.UNKILLABLE: UNDEFINED,
    Cause.VANISHED: NODE_FAULT,
    Cause.IMAGE_MISSING: IMAGE_MISSING,
    Cause.IMAGE_AWAY: NODE_FAULT,
    Cause.IMAGE_PLATFORM: CANNOT_START,
    Cause.NO_SHELL: CANNOT_START,
    Cause.IMAGE_DENIED: IMAGE_MISSING,
    Cause.IMAGE_MISMATCH: NODE_FAULT,
    Cause.REFUSED: REFUSED,
    Cause.INVALID: CANNOT_START,
    Cause.PORT_TAKEN: PORT_TAKEN,
    Cause.STORAGE_MISSING: NODE_FAULT,
    Cause.DEVICE_FAULT: -1205,
    Cause.CODE_MISSING: CANNOT_START,
    Cause.NO_SPACE: NODE_FAULT,
    Cause.LAYER_FULL: LAYER_FULL,
    Cause.ENGINE_FAULT: NODE_FAULT,
}
"""Why a container ended that did not end by itself."""

_STOPS: Mapping[str, int] = {StopReason.PREEMPTED: PREEMPTED, StopReason.DRAINED: -1000, StopReason.TIME_LIMIT: -1004}
"""Why a container was told to end; for every other reason: together with its job."""

_REACTIONS = {_T: "ALWAYS_RETRY", _P: "NEVER_RETRY", _U: "RETRY_TO_MAX"}


def exit_spec(code: int | None) -> dict[str, Any] | None:
    """What OpenPAI's clients show of an exit code; None for none."""
    if code is None:
        return None
    kind = _KINDS.get(code) or (_OTHER if code > 0 else _OTHER_NEGATIVE)
    return {
        "code": code,
        "phrase": kind.phrase,
        "issuer": _of(_ISSUERS, code) or ("USER_CONTAINER" if code >= 0 else "UNKNOWN"),
        "causer": kind.causer,
        "type": kind.type,
        "stage": _of(_STAGES, code) or ("RUNNING" if code in _KINDS or code > 0 else "UNKNOWN"),
        "behavior": str(kind.behaviour).upper(),
        "reaction": "NEVER_RETRY" if code == SUCCEEDED else _REACTIONS[kind.behaviour],
        "reason": kind.reason,
        "repro": [],
        "solution": _ADVICE.get(code, _WAIT if kind.behaviour is _T else _LOOK),
    }


def _of(table: Mapping[str, frozenset[int]], code: int) -> str | None:
    return next((name for name, codes in table.items() if code in codes), None)


def exit_type(code: int | None) -> str | None:
    """The type of an exit code, such as ``USER_FAILURE``."""
    spec = exit_spec(code)
    return str(spec["type"]) if spec else None


def ended_code(*, end_reason: str, exit_code: int | None, cause: str = "") -> int | None:
    """The exit code of a job or of one of its attempts; None while nothing has ended it. ``cause``: of the end of the
    task that made it fail."""
    if not end_reason:
        return None
    if end_reason in _FAILED:
        return _CAUSES.get(cause) or _own(exit_code) or _FAILED[end_reason]
    return _REASONS[end_reason]


def job_code(*, state: str, end_reason: str, exit_code: int | None, cause: str = "") -> int | None:
    """The exit code of a job that is over."""
    over = state in {JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED}
    return ended_code(end_reason=end_reason, exit_code=exit_code, cause=cause) if over else None


def _own(status: int | None) -> int | None:
    """A program's own status. The two by which OpenPAI tells of ends before the start are 255, as they are there."""
    return UNRECOGNISED if status in {IMAGE_MISSING, PORT_TAKEN} else status


def container_code(row: TaskAttempt) -> int | None:
    """The exit code of a run of a task; None while it is not over."""
    if row.lost_at is not None:
        return -1001
    if not row.cause:
        return None
    if row.cause in {Cause.EXITED, Cause.SIGNALLED}:
        return _own(row.exit_code)
    if row.cause == Cause.STOPPED:
        return _STOPS.get(row.stop_reason, STOPPED_WITH_JOB)
    return _CAUSES[row.cause]


def container_sentence(row: TaskAttempt) -> str | None:
    """Why a run of a task ended, in words; None while it is not over."""
    if row.lost_at is not None:
        return "Its node was lost, or did not end it when it was told to: it was given up."
    if not row.cause:
        return None
    if row.cause == Cause.EXITED and row.exit_code == 0:
        return "It succeeded."
    told = row.stop_message or row.exit_message
    return verdict(row.cause, row.exit_code, told, oom_seen=row.oom_seen).sentence
