"""Deletions of job folders for the portal: a process for each, and answers about its progress."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import structlog

from nodes.agent.sessions.channel import SessionChannel
from nodes.agent.sessions.files import answering
from nodes.agent.sessions.folders import FilesFailed
from nodes.agent.storage.delete_job_folder import KEPT, Removal
from nodes.protocol.sessions import DeleteRequest, SessionAnswer, SessionEnd, SessionFault

AT_ONCE = 16
"""Deletions at once; most of the time they wait, to see that nobody writes."""
REMEMBERED = 256
GONE, GOING = "gone", "going"

_HOME = Path(__file__).parents[3]
"""Where Python finds this package."""

log = structlog.get_logger(__name__)


class JobFolderDeletions:
    """Runs deletions of job folders. ``roots``: the mount roots of the server's policy; ``still_s``: how long a
    folder's leases must not change.

    The result of a deletion goes to the next request for it, and is forgotten; a later request begins anew, and finds
    nothing to do.
    """

    def __init__(self, *, roots: tuple[str, ...], still_s: float) -> None:
        self._roots, self._still_s = roots, still_s
        self._lock = threading.Lock()
        self._begun: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, channel: SessionChannel, request: DeleteRequest) -> None:
        """Serves one request."""
        with answering(channel):
            channel.answer(SessionAnswer(kind=self.ask(request)))
            channel.end(SessionEnd())

    def ask(self, request: DeleteRequest) -> str:
        """``gone`` or ``going``. Never waits for a storage. Raises FilesFailed where the folder is kept."""
        source = request.mount.source
        with self._lock:
            process = self._begun.get(source)
            if process is None:
                self._begin(request)
                return GOING
            if process.poll() is None:
                return GOING
            del self._begun[source]
        output = _output(process)
        log.info("a job's folder was to be deleted", folder=source, status=process.returncode, kept=output)
        if process.returncode == 0:
            return GONE
        otherwise = f"The process that deletes {source} ended with status {process.returncode}."
        raise FilesFailed(SessionFault.UNFIT, output if process.returncode == KEPT else otherwise)

    def close(self) -> None:
        """Ends running deletions; another process continues when the portal asks again."""
        with self._lock:
            for process in self._begun.values():
                process.kill()

    def _begin(self, request: DeleteRequest) -> None:
        going = {source: one for source, one in self._begun.items() if one.poll() is None}
        if len(going) >= AT_ONCE:
            raise FilesFailed(SessionFault.BUSY, f"{AT_ONCE} folders are being deleted, as many as it may be at once.")
        if len(self._begun) >= REMEMBERED:
            self._begun = going
        removal = Removal(
            mount=request.mount, roots=self._roots, still_s=self._still_s, unwritten_s=request.unwritten_s
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "nodes.agent.storage.delete_job_folder"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True, cwd=_HOME,
        )  # fmt: skip
        self._begun[request.mount.source] = process
        assert process.stdin is not None, "it was asked for"
        process.stdin.write(msgspec.json.encode(removal))
        process.stdin.close()


def _output(process: subprocess.Popen[bytes]) -> str:
    """Output of a process that has ended."""
    with process:
        assert process.stdout is not None, "it was asked for"
        return process.stdout.read().decode(errors="replace")
