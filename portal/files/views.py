"""The files section of a job's page: its folder, previews of small files, downloads."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _

from nodes.protocol.messages import Mount
from nodes.protocol.sessions import FileEntry, FolderListing, ListRequest, ReadRequest, SessionAnswer
from portal.accounts.pages import PageRequest, page_view
from portal.common.errors import Absent, Conflict, NotFound, Refused, TooManyAtOnce, Unavailable
from portal.files.downloads import NEVER_SHOWN, download, files_still, folder_open
from portal.files.ranges import Asked
from portal.files.selectors import folder_fate
from portal.jobs.models import Job
from portal.node_sessions.calling import SessionFailed
from portal.node_sessions.folders import WAITING, Answered, JobFolder, folder_ask
from portal.node_sessions.paths import path_bytes, path_text

T = TypeVar("T")
NAMES_LISTED = 500
TEXT_SHOWN = 64 * 1024
IMAGE_SHOWN = 8 << 20
LATEST_MS = 253_402_300_799_999
MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""Formats that a browser renders without running anything in them. File names are not trusted."""
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that are not printable, or change the text direction: a name must not look like another."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of the folder. ``path``: its query; empty if it can be neither opened nor downloaded."""

    name: str
    kind: str
    size: int
    changed_at: datetime
    path: str


@dataclass(frozen=True, slots=True)
class Step:
    """A breadcrumb from the job's folder to what is shown."""

    name: str
    path: str


def files_shown(request: PageRequest, job: Job) -> dict[str, Any]:
    """Context of ``files/parts/files.html``: a folder, a file, or why neither can be shown."""
    text = request.GET.get("path", "")
    try:
        path, after = path_bytes(text), path_bytes(request.GET.get("after", ""))
    except ValueError as error:
        return {"steps": [], "trouble": _("There is no such path."), "why": str(error)}
    fate = folder_fate(job=job, now=timezone.now())
    place: dict[str, Any] = {"steps": _steps(path), "path": _query(path), "fate": fate}
    try:
        return {**place, **_looked(request, job, path, after)}
    except (Absent, Conflict, TooManyAtOnce, Unavailable) as refused:
        return {**place, "trouble": _trouble(refused, path), "why": refused.detail}


def _looked(request: PageRequest, job: Job, path: bytes, after: bytes) -> dict[str, Any]:
    folder = folder_open(user=request.user, job_id=job.pk, now=timezone.now())
    with WAITING.take(request.user.pk):
        return _found(folder, path, after)


def _found(folder: JobFolder, path: bytes, after: bytes) -> dict[str, Any]:
    found = folder_ask(folder, lambda mount: ListRequest(mount=mount, path=path, after=after, limit=NAMES_LISTED))
    if found.there.kind != "folder":
        found.session.close()
        return {"file": _file(folder, found.there, path)}
    listing = _answered(found.session.listing)
    more = urlencode({"path": path_text(path), "after": path_text(listing.entries[-1].name)}) if listing.more else ""
    return {"rows": _rows(listing, path, whole=not after), "more": more, "beginning": not after, "listed": True}


def _rows(listing: FolderListing, path: bytes, whole: bool) -> list[Row]:
    """Sorts folders first, if all entries are there to be sorted."""
    entries = list(listing.entries)
    if whole and not listing.more:
        entries.sort(key=lambda entry: (entry.kind != "folder", entry.name.lower(), entry.name))
    return [_row(entry, path) for entry in entries]


def _row(entry: FileEntry, parent: bytes) -> Row:
    opened = entry.kind in {"file", "folder", "link"}
    path = _query(b"/".join(filter(None, (parent, entry.name)))) if opened else ""
    return Row(_name(entry.name), entry.kind, entry.size, _moment(entry.changed_ms), path)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(ms, 0), LATEST_MS) / 1000, UTC)


def _name(name: bytes) -> str:
    return UNSEEN.sub("\ufffd", name.decode(errors="replace").replace("\n", "\ufffd").replace("\t", "\ufffd"))


def _query(path: bytes) -> str:
    return urlencode({"path": path_text(path)}) if path else ""


def _steps(path: bytes) -> list[Step]:
    names = path.split(b"/") if path else []
    return [Step(_name(name), _query(b"/".join(names[: place + 1]))) for place, name in enumerate(names)]


def _trouble(refused: Refused, path: bytes) -> str:
    if isinstance(refused, TooManyAtOnce):
        return _("You have asked for more files at once than the servers can be asked for. Wait a little.")
    if isinstance(refused, Unavailable):
        return _("The files cannot be reached now. Try again in a while.")
    if isinstance(refused, Conflict):
        return _("This cannot be opened.")
    if path:
        return _("There is nothing at this path (any more).")
    return _("There are no files of this job.")


# ------------------------------------------------------------ preview of a file


def _file(folder: JobFolder, there: SessionAnswer, path: bytes) -> dict[str, Any]:
    """A file's size and time, its beginning if that is text, and whether it is a picture to show."""
    head = _read(folder, path, TEXT_SHOWN)
    text = _text(head)
    return {
        "name": _name(path.rpartition(b"/")[2]),
        "size": there.size,
        "changed_at": _moment(there.changed_ms),
        "image": _image_type(head) is not None and there.size <= IMAGE_SHOWN,
        "text": text,
        "cut": text is not None and there.size > TEXT_SHOWN,
    }


def _read(folder: JobFolder, path: bytes, length: int) -> bytes:
    found = _ask(folder, lambda mount: ReadRequest(mount=mount, path=path, length=length))
    with found.session:
        return _answered(lambda: b"".join(found.session.pieces()))


def _answered(answer: Callable[[], T]) -> T:
    """The node's answer; raises Unavailable if it breaks off."""
    try:
        return answer()
    except SessionFailed as failed:
        raise Unavailable(failed.message) from failed


def _ask(folder: JobFolder, asked: Callable[[Mount], ReadRequest]) -> Answered:
    found = folder_ask(folder, asked)
    if found.there.kind != "file":
        found.session.close()
        raise Conflict(_("This is not a file any more."))
    return found


def _text(head: bytes) -> str | None:
    """The beginning as text, without a character cut at the end; None if it is not text."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else UNSEEN.sub("\ufffd", text.replace("\r\n", "\n"))


def _image_type(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


# ------------------------------------------------------------ URLs of their own


@page_view
def job_file_download(request: PageRequest, job_id: int) -> HttpResponseBase:
    """Sends a file, or a folder as an archive, to be saved."""
    folder, path = _asked(request, job_id)
    return download(request.user, folder, path, still=files_still(request, job_id), asked=Asked.of(request))


@page_view
def job_file_image(request: PageRequest, job_id: int) -> HttpResponse:
    """Sends a picture for the file's page; opened by itself, it is an attachment."""
    folder, path = _asked(request, job_id)
    with WAITING.take(request.user.pk):
        content = _read(folder, path, IMAGE_SHOWN)
    kind = _image_type(content)
    if kind is None:
        raise NotFound("picture", "")
    return HttpResponse(content, content_type=kind, headers={**NEVER_SHOWN, "Content-Disposition": "attachment"})


def _asked(request: PageRequest, job_id: int) -> tuple[JobFolder, bytes]:
    """The job's folder and the path in it. Raises NotFound, Denied."""
    try:
        path = path_bytes(request.GET.get("path", ""))
    except ValueError:
        raise NotFound("file", "") from None
    return folder_open(user=request.user, job_id=job_id, now=timezone.now()), path
