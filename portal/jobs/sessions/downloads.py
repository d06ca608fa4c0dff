"""What lies in a job's folder, for whoever may see it: found, listed and sent, for pages and the API alike."""

from __future__ import annotations

import math
import re
from datetime import datetime

from django.utils.http import content_disposition_header

from nodes.protocol import FileEntry, FolderListing, ReadRequest
from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Unavailable
from portal.common.streaming import DOWNLOADS, Download
from portal.jobs.selectors import JobFolder, job_folder, job_with_right
from portal.jobs.services import files_read
from portal.jobs.sessions.calling import SessionFailed
from portal.jobs.sessions.folders import WAITING, Answered, folder_ask

ARCHIVE, BYTES = "application/x-tar", "application/octet-stream"
NEVER_SHOWN = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}


def folder_open(*, user: User, job_id: int, now: datetime) -> JobFolder:
    """The job's folder, once the audit log knows of it where it is another's. Raises NotFound, Denied, Absent,
    Unavailable."""
    job = job_with_right(user=user, job_id=job_id, action=Action.JOB_FILES)
    folder = job_folder(job=job)
    files_read(user=user, job=job, now=now)
    return folder


def listing_of(found: Answered, path: bytes) -> FolderListing:
    """What is in the folder; of a file, that file alone. Raises Unavailable."""
    if found.there.kind == "folder":
        try:
            return found.session.listing()
        except SessionFailed as failed:
            raise Unavailable(failed.message) from failed
    found.session.close()
    there = found.there
    entry = FileEntry(name=path.rpartition(b"/")[2], kind=there.kind, size=there.size, changed_ms=there.changed_ms)
    return FolderListing(entries=(entry,), more=False)


def download(user: User, folder: JobFolder, path: bytes) -> Download:
    """A file as it is, or a folder as an archive, to be saved and never shown. Raises Absent, Conflict, Unavailable,
    TooManyAtOnce."""
    seat = DOWNLOADS.take(user.pk)
    try:
        with WAITING.take(user.pk):
            found = folder_ask(folder, lambda mount: ReadRequest(mount=mount, path=path))
    except BaseException:
        seat.give_back()
        raise
    session, is_folder = found.session, found.there.kind == "folder"
    session.until = math.inf  # as long as the seat
    answer = Download(
        session.pieces(), seat=seat, let_go=session.close,
        content_type=ARCHIVE if is_folder else BYTES, headers=NEVER_SHOWN,
    )  # fmt: skip
    answer.headers["Content-Disposition"] = content_disposition_header(True, _name(folder, path, is_folder))
    if not is_folder:
        answer.headers["Content-Length"] = str(found.there.size)
    return answer


def _name(folder: JobFolder, path: bytes, is_folder: bool) -> str:
    last = path.rpartition(b"/")[2] or folder.mount.source.rpartition("/")[2].encode()
    name = re.sub(r"[\x00-\x1f\x7f-\x9f\ufffd/\\]", "_", last.decode(errors="replace"))
    return f"{name}.tar" if is_folder else name
