"""Asks nodes to delete expired job folders."""

from __future__ import annotations

import time
from datetime import datetime

from django.conf import settings

from nodes.protocol.sessions import DeleteRequest, SessionFault
from portal.files.selectors import folders_due, nobody_up
from portal.files.services import folder_going, folder_gone, folder_stays
from portal.node_sessions.calling import TOGETHER_S, SessionFailed
from portal.node_sessions.folders import FolderSession, JobFolder

AT_ONCE = 100
WITHIN_S = 30.0
DAY_S = 86_400
GONE = "gone"


def folders_expire(*, now: datetime) -> int:
    """Asks one node for each folder that is due, and records the answer. Safe in several processes at once. Returns how
    many folders are now known to be gone."""
    gone, busy, until = 0, set[int](), time.monotonic() + WITHIN_S
    for row, folder in folders_due(now=now, limit=AT_ONCE):
        if not folder.nodes:
            folder_stays(folder=row, why=nobody_up(folder), now=now)
            continue
        node = next((node for node in folder.nodes if node.pk not in busy), None)
        if node is None or time.monotonic() > until:
            continue  # nodes busy, or out of time: left to the next round
        try:
            said = _ask(FolderSession(node, _request(folder), min(until, time.monotonic() + TOGETHER_S)))
        except SessionFailed as failed:
            if failed.fault in (SessionFault.BUSY, SessionFault.BROKEN):
                busy.add(node.pk)
            if failed.fault is not SessionFault.BUSY:
                folder_stays(folder=row, why=failed.message, now=now)
        else:
            if said == GONE:
                gone += folder_gone(folder=row, now=now)
            else:
                folder_going(folder=row, now=now)
    return gone


def _request(folder: JobFolder) -> DeleteRequest:
    return DeleteRequest(mount=folder.mount, unwritten_s=settings.JOB_FOLDER_DAYS * DAY_S)


def _ask(session: FolderSession) -> str:
    """The node's answer. Raises SessionFailed."""
    with session:
        return session.open().kind
