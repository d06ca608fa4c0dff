"""Exit causes: from what a runtime says of an ended container to what the portal is told."""

from __future__ import annotations

import re
import signal
from dataclasses import replace

from nodes.agent.attempts.journal import Stopping
from nodes.agent.runtimes.base import RuntimeContainer
from nodes.protocol import wordings
from nodes.protocol.messages import Exit
from nodes.protocol.states import Cause
from nodes.protocol.wording import told

_SIGNALS = {number.value: number.name for number in signal.Signals if number.value < 32}
_NOT_EXECUTABLE, _NOT_FOUND, _ENGINE = 126, 127, 128
_UNBEGUN = re.compile(
    r"^\[FATAL tini \(\d+\)\] exec /bin/sh failed: (No such file or directory|Exec format error)\s*\Z", re.MULTILINE
)


def exit_of(found: RuntimeContainer, stopping: Stopping | None, *, rebooted: bool = False) -> Exit:
    """The exit of an ended container.

    OOM only when the container was killed and the kernel killed for memory; after another end, an OOM kill inside it is
    mentioned beside the cause. STOPPED when a stop was recorded before the end. ``rebooted``: the machine was restarted
    since the container was seen running.
    """
    ending = found.ending
    if ending is None:
        return Exit(cause=Cause.VANISHED, message=wordings.NOBODY_SAW())
    if rebooted and ending.unsure:
        ending = replace(ending, code=None, error=ending.unsure)
    code, number = ending.code, None if ending.code is None else _signal_of(ending.code)
    if stopping is not None and stopping.term_at is not None and not _ended_before(found, stopping):
        return Exit(
            cause=stopping.cause, code=code, signal=number, stop_reason=stopping.reason, message=stopping.words,
            oom_seen=ending.oom,
        )  # fmt: skip
    if code is None and ending.error:
        return Exit(cause=Cause.ENGINE_FAULT, message=ending.error)
    if code is None:
        return Exit(cause=Cause.VANISHED, message=wordings.NOBODY_SAW())
    if number == signal.SIGKILL and ending.oom:
        return Exit(cause=Cause.OOM, code=code, signal=number, message=wordings.TOO_MUCH_MEMORY())
    cause = Cause.EXITED if number is None else Cause.SIGNALLED
    message = _sentence(code) if number is None else wordings.KILLED(signal=_SIGNALS[number])
    if ending.oom:
        message = wordings.ONE_TOO_MUCH_MEMORY(end=message)
    return Exit(cause=cause, code=code, signal=number, message=message, oom_seen=ending.oom)


def blames_nobody(exit: Exit) -> bool:
    """Whether a program failed by itself: a GPU that failed under it may be the reason."""
    return exit.cause is Cause.SIGNALLED or (exit.cause is Cause.EXITED and exit.code != 0)


def exit_of_fault(exit: Exit, fault: str) -> Exit:
    """The exit of a program whose GPU turned sick while it ran: the node's fault, not the job's."""
    return replace(
        exit, cause=Cause.DEVICE_FAULT, message=wordings.FAULTY_GPU(fault=fault, end=told(exit.said) or exit.message)
    )


def exit_unbegun(exit: Exit, tail: str) -> Exit:
    """The exit of a container whose shell could not be started, as its init process says at the end of the log; any
    other exit unchanged."""
    found = _UNBEGUN.search(tail) if exit.cause is Cause.EXITED and exit.code != 0 else None
    if found is None:
        return exit
    if found[1] == "Exec format error":
        return replace(exit, cause=Cause.IMAGE_PLATFORM, message=wordings.OTHER_SHELL())
    return replace(exit, cause=Cause.NO_SHELL, message=wordings.NO_SHELL())


def exit_stopped_before_start(stopping: Stopping) -> Exit:
    """The exit of an attempt that was stopped before its container ran."""
    return Exit(cause=Cause.STOPPED, stop_reason=stopping.reason, message=stopping.message or wordings.STOPPED_BEFORE())


def exit_unkillable(stopping: Stopping) -> Exit:
    """The exit of a container that survived SIGKILL."""
    return Exit(cause=Cause.UNKILLABLE, stop_reason=stopping.reason, message=wordings.STILL_THERE())


def _ended_before(found: RuntimeContainer, stopping: Stopping) -> bool:
    return found.ended_ms is not None and found.ended_ms < stopping.asked_ms


def _signal_of(code: int) -> int | None:
    number = code - 128
    return number if number in _SIGNALS else None


def _sentence(code: int) -> str:
    known = {
        0: wordings.ENDED_WELL,
        _NOT_EXECUTABLE: wordings.NOT_EXECUTABLE,
        _NOT_FOUND: wordings.NOT_FOUND,
        _ENGINE: wordings.NOT_STARTED,
    }
    return known[code]() if code in known else wordings.FAILED(code=code)
