"""Writes a value into a storage, in a folder of the agent's own: another server that reads it sees the same storage. A
process of its own, since touching a dead file server hangs.

``python -m nodes.agent.storage.proof`` takes a ``Proof`` as JSON from standard input. The folder is root's and nobody
else's: jobs neither read nor write there. See ``docs/decisions/acceptance.md``.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from dataclasses import dataclass, replace

from nodes.agent.config.policy import Policy
from nodes.agent.runtimes.base import AttemptFailed
from nodes.agent.storage.folders import FOLDER, mount_open
from nodes.protocol.decoding import decoded
from nodes.protocol.messages import Mount
from nodes.protocol.sessions import PROOFS

KEPT_S = 600
MOST = 64
"""Most values at a time; none is kept longer than ``KEPT_S`` once another is written."""
REFUSED = 3
"""Exit status when nothing is written; standard output says why."""
_NAME, _VALUE = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{64}")


class ProofRefused(Exception):
    """Nothing is written. Its text is one sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The value to write. ``mount``: the storage; ``roots``: the mount roots of the server's policy."""

    mount: Mount
    roots: tuple[str, ...]
    name: str
    value: str


def proof_write(proof: Proof) -> None:
    """Writes the value. Raises ProofRefused."""
    root = proof.mount.root
    if not Policy(mount_roots=proof.roots).allows_root(root):
        raise ProofRefused(f"The node's policy does not allow files from {root}.")
    if not (_NAME.fullmatch(proof.name) and _VALUE.fullmatch(proof.value)):
        raise ProofRefused("The portal's value is none.")
    try:
        with mount_open(replace(proof.mount, source=root, create=False), uid=0, gid=0) as storage:
            _write(storage, proof)
    except AttemptFailed as failed:
        raise ProofRefused(f"{failed.message[:1].upper()}{failed.message[1:]}.") from failed
    except OSError as error:
        raise ProofRefused(f"Nothing can be written in {root}/{PROOFS}: {error.strerror}.") from error


def _write(storage: int, proof: Proof) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(PROOFS, 0o700, dir_fd=storage)
    folder = os.open(PROOFS, FOLDER, dir_fd=storage)
    try:
        facts = os.fstat(folder)
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) != 0o700:
            raise ProofRefused(f"{proof.mount.root}/{PROOFS} is not the agent's own folder (0700); remove it.")
        _make_room(folder)
        file = os.open(proof.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            os.write(file, proof.value.encode())
            os.fsync(file)
        finally:
            os.close(file)
    finally:
        os.close(folder)


def _make_room(folder: int) -> None:
    """Deletes old values. Raises ProofRefused where too many are left."""
    left = 0
    for name in os.listdir(folder):
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < time.time() - KEPT_S:
            os.unlink(name, dir_fd=folder)
        else:
            left += 1
    if left >= MOST:
        raise ProofRefused(f"{MOST} values were written within {KEPT_S // 60} minutes; try again later.")


def main() -> int:
    proof = decoded(sys.stdin.buffer.read(), Proof)
    try:
        proof_write(proof)
    except ProofRefused as refused:
        sys.stdout.write(str(refused))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
