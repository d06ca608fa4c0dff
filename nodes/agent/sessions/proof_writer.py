"""Writes the portal's values into storages, each in a process of its own with a timeout."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from nodes.agent.sessions.channel import SessionChannel
from nodes.agent.sessions.files import answering
from nodes.agent.sessions.folders import FilesFailed
from nodes.agent.storage.probe import AWAY
from nodes.agent.storage.proof import REFUSED, Proof
from nodes.protocol.sessions import ProofRequest, SessionAnswer, SessionEnd, SessionFault

WRITTEN = "written"
TIMEOUT_S = 4.0

_HOME = Path(__file__).parents[3]
"""Where Python finds this package."""


class ProofWriter:
    """Writes proofs, one at a time, and none while a dead file server keeps one from its end. ``roots``: the mount
    roots of the server's policy."""

    def __init__(self, *, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._lock = threading.Lock()
        self._last: subprocess.Popen[bytes] | None = None

    def serve(self, channel: SessionChannel, request: ProofRequest) -> None:
        """Serves one request."""
        with answering(channel):
            self.write(request)
            channel.answer(SessionAnswer(kind=WRITTEN))
            channel.end(SessionEnd())

    def write(self, request: ProofRequest) -> None:
        """Writes the value. Raises FilesFailed."""
        root = request.mount.root
        with self._lock:
            if self._last is not None and self._last.poll() is None:
                raise FilesFailed(SessionFault.BUSY, "Another value is being written on this server.")
            process = self._last = subprocess.Popen(
                [sys.executable, "-m", "nodes.agent.storage.proof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                start_new_session=True, cwd=_HOME,
            )  # fmt: skip
        proof = Proof(mount=request.mount, roots=self._roots, name=request.name, value=request.value)
        try:
            output, _ = process.communicate(msgspec.json.encode(proof), timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            process.kill()  # in vain where the kernel waits for the server
            raise FilesFailed(SessionFault.UNFIT, f"{root} {AWAY}") from error
        if process.returncode:
            otherwise = f"The process that writes in {root} ended with status {process.returncode}."
            message = output.decode(errors="replace") if process.returncode == REFUSED else otherwise
            raise FilesFailed(SessionFault.UNFIT, message)
