"""Programs beside a task in its container: ``docker exec``, as the container's own user, never privileged.

The Engine leaves such a program running when its caller is gone, so each is ended by its host process id, and carries a
mark by which a restarted agent finds it.
"""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import time
from typing import Any

import docker
import structlog
from docker.errors import APIError, NotFound

from nodes.agent.runtimes.base import AttemptFailed, RuntimeUnavailable, ShellEnded
from nodes.agent.runtimes.docker.faults import engine_errors
from nodes.agent.runtimes.shells import END_WITHIN_S, MARK, READ, shell_command, shell_variables, tree_end
from nodes.protocol.logs import STDERR, STDOUT
from nodes.protocol.names import container_name
from nodes.protocol.sessions import ShellRequest
from nodes.protocol.states import Cause

TERMINAL_WITHIN_S = 0.3
_FRAME = struct.Struct(">BxxxL")

log = structlog.get_logger(__name__)


class DockerShell:
    """``Shell`` over one exec. ``client`` is its own; its timeout is not for the program's output."""

    def __init__(self, client: docker.APIClient, request: ShellRequest) -> None:
        self._client, self._tty = client, request.tty
        with engine_errors():
            try:
                self._id = self._create(request)
                self._socket, self._output = self._start()
            except APIError as error:
                client.close()
                raise AttemptFailed(Cause.ENGINE_FAULT, f"The Engine refused: {error.explanation}") from error
        if request.tty:
            self._first_size(request.rows, request.columns)

    def _create(self, request: ShellRequest) -> str:
        made = self._client.exec_create(
            container_name(request.attempt),
            shell_command(request.command),
            stdin=True,
            tty=request.tty,
            environment=shell_variables(request),
        )
        return str(made["Id"])

    def _start(self) -> tuple[socket.socket, io.BufferedReader]:
        raw: Any = self._client.exec_start(self._id, tty=self._tty, socket=True)
        raw._sock.settimeout(None)
        # Not from the socket itself: what came along with the answer's head lies in the reader's buffer already.
        return raw._sock, raw._response.raw._fp.fp

    def _first_size(self, rows: int, columns: int) -> None:
        """Sets the size once the program has its terminal: the Engine answers before."""
        deadline = time.monotonic() + TERMINAL_WITHIN_S
        while not self._resized(rows, columns) and time.monotonic() < deadline:
            time.sleep(0.01)

    def read(self) -> tuple[int, bytes] | None:
        try:
            if self._tty:
                data = self._output.read1(READ)
                return (STDOUT, data) if data else None
            return self._read_frame()
        except (OSError, ValueError):
            return None

    def _read_frame(self) -> tuple[int, bytes] | None:
        head = self._output.read(_FRAME.size)
        if len(head) < _FRAME.size:
            return None
        stream, length = _FRAME.unpack(head)
        return (STDERR if stream == STDERR else STDOUT, self._output.read(length))

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ShellEnded from error

    def finish(self) -> None:
        if not self._tty:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def resize(self, rows: int, columns: int) -> None:
        self._resized(rows, columns)

    def _resized(self, rows: int, columns: int) -> bool:
        """False where the program has ended meanwhile, or has not begun yet."""
        with contextlib.suppress(APIError, RuntimeUnavailable), engine_errors():
            self._client.exec_resize(self._id, height=rows, width=columns)
            return True
        return False

    def wait(self) -> int | None:
        deadline = time.monotonic() + END_WITHIN_S
        while True:
            facts = exec_facts(self._client, self._id)
            if facts is None or not facts["Running"] or time.monotonic() > deadline:
                code = None if facts is None else facts["ExitCode"]
                return None if code is None else int(code)
            time.sleep(0.01)

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        try:
            exec_end(self._client, self._id)
        except RuntimeUnavailable as away:
            log.warning("a shell may be left behind", error=str(away))
        finally:
            self._output.close()
            self._socket.close()
            self._client.close()


def left_behind(client: docker.APIClient, container: str) -> list[str]:
    """Ids of our programs in a container."""
    with engine_errors():
        try:
            listed = client.inspect_container(container)["ExecIDs"] or ()
        except NotFound:
            return []
    found = ((one, exec_facts(client, one)) for one in listed)
    return [one for one, facts in found if facts is not None and MARK in (facts["ProcessConfig"]["arguments"] or ())]


def exec_facts(client: docker.APIClient, exec_id: str) -> dict[str, Any] | None:
    """Facts of a program; None when the Engine has forgotten it."""
    with engine_errors():
        try:
            facts: dict[str, Any] = client.exec_inspect(exec_id)
        except NotFound:
            return None
        except APIError as error:
            raise RuntimeUnavailable(f"the Docker Engine failed: {error.explanation}") from error
    return facts


def exec_end(client: docker.APIClient, exec_id: str) -> None:
    """Ends a program: SIGHUP, as when a terminal is lost, and SIGKILL for what remains. Raises RuntimeUnavailable."""
    facts = exec_facts(client, exec_id)
    if facts is None or not facts["Running"] or not facts["Pid"]:
        return
    tree_end(facts["Pid"])
