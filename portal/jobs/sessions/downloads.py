"""What lies in a job's folder, for whoever may see it: found, listed and sent, for pages and the API alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from nodes.protocol import FileEntry, FolderListing
from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.streaming import aside
from portal.jobs.selectors import JobFolder, job_folder, job_with_right
from portal.jobs.services import files_read
from portal.jobs.sessions.folders import Answered

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
    """What is in the folder; of a file, that file alone. Raises SessionFailed."""
    if found.there.kind == "folder":
        return found.session.listing()
    found.session.close()
    there = found.there
    entry = FileEntry(name=path.rpartition(b"/")[2], kind=there.kind, size=there.size, changed_ms=there.changed_ms)
    return FolderListing(entries=(entry,), more=False)


def download(found: Answered, folder: JobFolder, path: bytes) -> StreamingHttpResponse:
    """A file as it is, or a folder as an archive, to be saved and never shown."""
    is_folder = found.there.kind == "folder"
    pieces = aside(_pieces(found))
    answer = StreamingHttpResponse(pieces, content_type=ARCHIVE if is_folder else BYTES, headers=NEVER_SHOWN)
    last = path.rpartition(b"/")[2] or folder.mount.source.rpartition("/")[2].encode()
    name = re.sub(r"[\x00-\x1f\x7f-\x9f\ufffd/\\]", "_", last.decode(errors="replace"))
    answer.headers["Content-Disposition"] = content_disposition_header(True, f"{name}.tar" if is_folder else name)
    if not is_folder:
        answer.headers["Content-Length"] = str(found.there.size)
    return answer


def _pieces(found: Answered) -> Iterator[bytes]:
    """The session is closed with the download, also where nobody reads it to its end."""
    with found.session:
        yield from found.session.pieces()
