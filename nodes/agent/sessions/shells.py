"""Serves shells: the portal's input goes to a program in a task, its output to the portal."""

from __future__ import annotations

import threading
from contextlib import suppress

import structlog

from nodes.agent.runtimes.base import AttemptFailed, Runtime, RuntimeUnavailable, Shell, ShellEnded, Status
from nodes.agent.sessions.channel import ChannelClosed, Resized, SessionChannel
from nodes.protocol.logs import STDERR
from nodes.protocol.sessions import FrameKind, SessionAnswer, SessionEnd, SessionFault, ShellRequest
from nodes.protocol.states import Cause

TYPING_WITHIN_S = 5.0

log = structlog.get_logger(__name__)


def shell_serve(channel: SessionChannel, request: ShellRequest, runtime: Runtime) -> None:
    """Serves one shell to its end. Two threads: this one reads from the program, the other one writes to it."""
    try:
        shell = _open(request, runtime)
    except RuntimeUnavailable as away:
        channel.end(SessionEnd(fault=SessionFault.AWAY, message=f"{away}."))
        return
    except AttemptFailed as failed:
        channel.end(SessionEnd(fault=SessionFault.NOT_RUNNING, message=f"{failed.message}."))
        return
    channel.closed = shell.hang_up
    typing = threading.Thread(target=_type, args=(channel, shell), name="shell-input", daemon=True)
    typing.start()
    try:
        channel.answer(SessionAnswer())
        while (output := shell.read()) is not None:
            stream, data = output
            channel.send(FrameKind.ERRORS if stream == STDERR else FrameKind.DATA, data)
        if channel.over:
            raise ChannelClosed
        channel.end(SessionEnd(code=shell.wait()))
    except ChannelClosed:
        log.info("a shell ends with its session", attempt=request.attempt)
    except RuntimeUnavailable as away:
        channel.end(SessionEnd(fault=SessionFault.AWAY, message=f"{away}."))
    finally:
        channel.close()
        shell.hang_up()
        typing.join(TYPING_WITHIN_S)  # before the ends that it writes to are closed
        shell.close()


def _open(request: ShellRequest, runtime: Runtime) -> Shell:
    found = runtime.find(request.attempt)
    if found is None or found.status is not Status.RUNNING:
        raise AttemptFailed(Cause.INVALID, "The task does not run on this node any more")
    if found.paused:
        raise AttemptFailed(Cause.INVALID, "The task stands still on its server: it is parked, or its log is behind")
    return runtime.shell(request)


def _type(channel: SessionChannel, shell: Shell) -> None:
    with suppress(ChannelClosed, ShellEnded):
        while True:
            taken = channel.input()
            if isinstance(taken, Resized):
                shell.resize(taken.rows, taken.columns)
            elif taken is None:
                shell.finish()
            else:
                shell.write(taken)
                channel.took(len(taken))
