"""Finds, lists and sends files of a job's folder, for pages and the API."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.utils.http import content_disposition_header
from rest_framework.request import Request

from nodes.protocol.sessions import FileEntry, FolderListing, ListRequest, ReadRequest, SessionAnswer
from portal.accounts.credentials import still_may
from portal.accounts.models import User
from portal.accounts.rights import Action
from portal.common.errors import Unavailable
from portal.common.problems import MEDIA_TYPE, problem
from portal.common.streaming import DOWNLOADS, Download
from portal.files.ranges import Asked, Outside, Part, mark_of, part_of
from portal.files.selectors import job_folder
from portal.jobs.selectors.visible import job_with_right
from portal.jobs.services.read_audit import files_read
from portal.node_sessions.calling import SessionFailed
from portal.node_sessions.folders import WAITING, Answered, JobFolder, folder_ask

ARCHIVE, BYTES = "application/x-tar", "application/octet-stream"
WHOLE = Asked()
NEVER_SHOWN = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}


def folder_open(*, user: User, job_id: int, now: datetime) -> JobFolder:
    """The job's folder; access to another user's is audited first. Raises NotFound, Denied, Absent, Unavailable."""
    job = job_with_right(user=user, job_id=job_id, action=Action.JOB_FILES)
    folder = job_folder(job=job)
    files_read(user=user, job=job, now=now)
    return folder


def listing_of(found: Answered, path: bytes) -> FolderListing:
    """The folder's entries; of a file, that file alone. Raises Unavailable."""
    if found.there.kind == "folder":
        try:
            return found.session.listing()
        except SessionFailed as failed:
            raise Unavailable(failed.message) from failed
    found.session.close()
    there = found.there
    entry = FileEntry(name=path.rpartition(b"/")[2], kind=there.kind, size=there.size, changed_ms=there.changed_ms)
    return FolderListing(entries=(entry,), more=False)


def files_still(request: HttpRequest | Request, job_id: int) -> Callable[[], bool]:
    """A callable to poll during a download: whether the requester may still see the job's files."""
    return still_may(request, lambda user: job_with_right(user=user, job_id=job_id, action=Action.JOB_FILES))


def download(
    user: User, folder: JobFolder, path: bytes, *, still: Callable[[], bool], asked: Asked = WHOLE
) -> HttpResponseBase:
    """Sends a file, the requested part of it, or a folder as an archive; always as an attachment, never rendered.
    Raises Absent, Conflict, Unavailable, TooManyAtOnce."""
    seat = DOWNLOADS.take(user.pk)
    try:
        with WAITING.take(user.pk):
            found, part = _opened(folder, path, asked)
    except Outside as outside:
        seat.give_back()
        return _outside(outside.size)
    except BaseException:
        seat.give_back()
        raise
    session, is_folder = found.session, found.there.kind == "folder"
    session.until = math.inf  # limited by the seat
    answer = Download(
        session.pieces(), seat=seat, still=still, let_go=session.close, status=200 if part is None else 206,
        content_type=ARCHIVE if is_folder else BYTES, headers=NEVER_SHOWN,
    )  # fmt: skip
    answer.headers["Content-Disposition"] = content_disposition_header(True, _name(folder, path, is_folder))
    if not is_folder:
        _tell_size(answer, found.there, part)
    return answer


def _opened(folder: JobFolder, path: bytes, asked: Asked) -> tuple[Answered, Part | None]:
    """What to send, and which part of the file; None: all. A part is of the version that was looked at: a file that is
    written to meanwhile is sent whole."""
    part = None
    if asked.span:
        looked = folder_ask(folder, lambda mount: ListRequest(mount=mount, path=path, limit=1))
        looked.session.close()
        part = part_of(asked, looked.there)
    if part is not None:
        first, length = part.first, part.length
        found = folder_ask(folder, lambda mount: ReadRequest(mount=mount, path=path, offset=first, length=length))
        if (found.there.kind, mark_of(found.there)) == (looked.there.kind, mark_of(looked.there)):
            return found, part
        found.session.close()
    return folder_ask(folder, lambda mount: ReadRequest(mount=mount, path=path)), None


def _tell_size(answer: HttpResponseBase, there: SessionAnswer, part: Part | None) -> None:
    answer.headers["Accept-Ranges"], answer.headers["ETag"] = "bytes", mark_of(there)
    answer.headers["Content-Length"] = str(there.size if part is None else part.length)
    if part is not None:
        answer.headers["Content-Range"] = f"bytes {part.first}-{part.first + part.length - 1}/{there.size}"


def _outside(size: int) -> HttpResponse:
    told = problem(416, f"The file has {size} bytes, none of them there.")
    return JsonResponse(told, status=416, content_type=MEDIA_TYPE, headers={"Content-Range": f"bytes */{size}"})


def _name(folder: JobFolder, path: bytes, is_folder: bool) -> str:
    last = path.rpartition(b"/")[2] or folder.mount.source.rpartition("/")[2].encode()
    name = re.sub(r"[\x00-\x1f\x7f-\x9f\ufffd/\\]", "_", last.decode(errors="replace"))
    return f"{name}.tar" if is_folder else name
