"""A node whose agent's door is real and whose programs are not: what is typed comes back, in this very process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from nodes.agent.clock import SystemClock
from nodes.agent.config.policy import Policy
from nodes.agent.runtimes.base import Runtime, RuntimeContainer, ShellEnded, Status
from nodes.agent.sessions.proof_writer import ProofWriter
from nodes.agent.sessions.server import SessionServer
from nodes.protocol.envelope import NodeKey
from nodes.protocol.logs import STDERR, STDOUT
from nodes.protocol.sessions import ProofRequest, ShellRequest


class EchoShell:
    """Says what was typed; ``exit N`` ends it, ``error TEXT`` is for its standard error, ``deaf`` takes no more, and
    ``wait`` waits for ``gate``."""

    def __init__(self, request: ShellRequest) -> None:
        self.request = request
        self.sizes: list[tuple[int, int]] = []
        self.closed, self.gate = threading.Event(), threading.Event()
        self._hung_up = threading.Event()
        self._output: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._code: int | None = None

    def read(self) -> tuple[int, bytes] | None:
        return self._output.get()

    def write(self, data: bytes) -> None:
        words = data.split()
        if words[:1] == [b"exit"]:
            self._code = int(words[1])
            self._output.put(None)
        elif words[:1] == [b"deaf"]:
            self._hung_up.wait()
            raise ShellEnded
        elif words[:1] == [b"wait"]:
            self.gate.wait(30)
        elif words[:1] == [b"error"]:
            self._output.put((STDERR, data[6:]))
        else:
            self._output.put((STDOUT, data))

    def finish(self) -> None:
        if self._code is None:  # as with a program that has ended: the end of its input changes nothing
            self._code = 0
            self._output.put(None)

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    def wait(self) -> int | None:
        return self._code

    def hang_up(self) -> None:
        self._hung_up.set()
        self._output.put(None)

    def close(self) -> None:
        self.closed.set()


class EchoRuntime:
    """Every task runs, unless ``running`` says otherwise."""

    def __init__(self) -> None:
        self.running = True
        self.shells: list[EchoShell] = []

    def find(self, attempt: str) -> RuntimeContainer | None:
        status = Status.RUNNING if self.running else Status.ENDED
        return RuntimeContainer(attempt=attempt, container="echo", spec_hash="", status=status)

    def shell(self, request: ShellRequest) -> EchoShell:
        self.shells.append(EchoShell(request))
        return self.shells[-1]

    def end_leftover_shells(self) -> None:
        """None was left."""


class _Elsewhere(ProofWriter):
    """Writes what it shall write in a storage in another folder: on one machine two servers see the same ones."""

    def __init__(self, root: Path) -> None:
        super().__init__(roots=(str(root),))
        self._root = str(root)

    def write(self, request: ProofRequest) -> None:
        mount = replace(request.mount, root=self._root, source=self._root)
        super().write(replace(request, mount=mount))


@contextmanager
def echo_door(
    *, node: str, key: NodeKey, portal_public_key: str, boot: int, redis_url: str, root: Path | None = None,
    elsewhere: Path | None = None,
) -> Iterator[EchoRuntime]:  # fmt: skip
    """The door of that node's agent, open. ``elsewhere``: where it has the storages, though it calls them the same."""
    runtime = EchoRuntime()
    door = SessionServer(
        node=node,
        key=key,
        portal_public_key=portal_public_key,
        boot=boot,
        redis_url=redis_url,
        runtime=cast(Runtime, cast(Any, runtime)),
        policy=Policy(mount_roots=(str(root),) if root else ()),
        shells=4,
        lease_still_s=0.1,
        clock=SystemClock(),
    )
    if elsewhere is not None:
        door._proofs = _Elsewhere(elsewhere)
    door.open()
    try:
        yield runtime
    finally:
        door.close()
