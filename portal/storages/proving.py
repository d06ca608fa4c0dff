"""Storage proofs: one server writes a random value into a storage, another is asked to read it
(docs/decisions/acceptance.md)."""

from __future__ import annotations

import hmac
import secrets
import time
from datetime import datetime

from nodes.protocol.messages import Mount
from nodes.protocol.sessions import PROOFS, ProofRequest, ReadRequest, SessionFault
from portal.hardware.models import Node
from portal.node_sessions.calling import TOGETHER_S, SessionFailed
from portal.node_sessions.folders import FolderSession
from portal.storages.models import Storage
from portal.storages.selectors.ties import proofs_due
from portal.storages.services.ties import tie_proven
from portal.storages.ties import SEEN, UNSEEN, UNTRIED

AT_ONCE = 10
WITHIN_S = 40.0


def storages_prove(*, now: datetime) -> int:
    """Tries the proofs that are due, and records the results. Safe in several processes at once. Returns how many it
    tried."""
    tried, until = 0, time.monotonic() + WITHIN_S
    for due in proofs_due(now=now, limit=AT_ONCE):
        if time.monotonic() > until:
            break
        result, why = _proof(due.storage, due.node, due.writer, min(until, time.monotonic() + TOGETHER_S))
        tie_proven(storage=due.storage, node=due.node, by=due.writer.name, result=result, why=why, now=now)
        tried += 1
    return tried


def _proof(storage: Storage, node: Node, writer: Node, until: float) -> tuple[str, str]:
    """The result, and why it could not be tried if so. Each file name is new, so that no file system has cached its
    absence."""
    name, value = secrets.token_hex(16), secrets.token_hex(32)
    mount = Mount(
        storage=storage.name, root=storage.root, source=storage.root, target="", read_only=True,
        must_be_mount=storage.is_mount,
    )  # fmt: skip
    try:
        with FolderSession(writer, ProofRequest(mount=mount, name=name, value=value), until) as session:
            session.open()
    except SessionFailed as failed:
        return UNTRIED, f"{writer.name}: {failed.message}"
    asked = ReadRequest(mount=mount, path=f"{PROOFS}/{name}".encode(), length=len(value))
    try:
        with FolderSession(node, asked, until) as session:
            session.open()
            found = b""
            for piece in session.pieces():
                found += piece
                if len(found) > len(value):  # ignore whatever else it sends
                    break
    except SessionFailed as failed:
        return (UNSEEN, "") if failed.fault is SessionFault.MISSING else (UNTRIED, f"{node.name}: {failed.message}")
    return (SEEN if hmac.compare_digest(found, value.encode()) else UNSEEN), ""
