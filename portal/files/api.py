"""REST: the files of a job's folder. The portal mounts no storage: an agent that does answers."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as BadText
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from nodes.protocol.sessions import FileEntry, ListRequest
from portal.accounts.rest import ApiView
from portal.common.filters import unknown_refuse
from portal.common.negotiation import Unnegotiated
from portal.common.pagination import Cursor
from portal.common.serializers import Answer
from portal.files.downloads import ARCHIVE, BYTES, download, files_still, folder_open, listing_of
from portal.files.ranges import Asked
from portal.node_sessions.folders import WAITING, folder_ask
from portal.node_sessions.paths import LONGEST, path_bytes, path_text

LATEST_MS = 253_402_300_799_999
"""The last moment that a time in an answer can be."""
PATH = OpenApiParameter(
    "path",
    {"type": "string", "maxLength": LONGEST},
    description="Below the job folder, as `path` of an answer has it; without it, the folder itself.",
)
PART = [
    OpenApiParameter(
        "Range", str, OpenApiParameter.HEADER,
        description="One part of a file: `bytes=100-199`, `bytes=100-`, or `bytes=-100` for its end. Where several are "
        "asked for, or a part of a folder, all of it comes, with 200.",
    ),
    OpenApiParameter(
        "If-Range", str, OpenApiParameter.HEADER,
        description="The `ETag` of an earlier answer: the part only of that version, else the whole file.",
    ),
]  # fmt: skip


class FileAnswer(Answer):
    """What lies in a folder."""

    name = serializers.CharField(help_text="for people: what is no UTF-8 is replaced")
    path = serializers.CharField(help_text="for programs: below the job folder; `%25` is a percent sign, `%FF` a byte")
    kind = serializers.ChoiceField(
        ["file", "folder", "link", "other"], help_text="a link is followed where it stays in the job's folder"
    )
    size = serializers.IntegerField(help_text="bytes")
    changed_at = serializers.DateTimeField(help_text="by the clock of the storage, as its owner set it")


class FolderPages(Cursor):
    """By name. ``limit`` sets the length of a page (default 200, at most 1000)."""

    page_size = 200
    max_page_size = 1000

    def after(self, request: Request) -> bytes:
        """The name behind which the page begins. Raises ValidationError."""
        text = request.query_params.get("cursor")
        try:
            return b"" if text is None else b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (ValueError, BadText):
            raise ValidationError({"cursor": "This is not a cursor of this list."}) from None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [one for one in super().get_schema_operation_parameters(view) if one["name"] != "ordering"]

    def answer(self, request: Request, rows: list[Any], last: bytes | None) -> Response:
        """The page; ``last`` is its last name where there are more."""
        cursor = None if last is None else urlsafe_b64encode(last).decode()
        forth = cursor and replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        return Response({"next": forth, "previous": None, "results": rows})


class FilesView(ApiView):
    """What lies in a job's folder."""

    pagination_class = FolderPages
    parameters = ("path",)
    problems = (409, 429, 503)

    @extend_schema(operation_id="job_file_list", parameters=[PATH], responses=FileAnswer(many=True))
    def get(self, request: Request, job_id: int) -> Response:
        """Names in `$BERTH_JOB_DIR` or in a folder below it, by name; of a file, that file alone. While the job runs
        and for as long as its folder is kept. 503 where no node that has the storage answers. For the job's owner,
        leads of its virtual cluster, administrators and auditors."""
        unknown_refuse(request, self._parameters())
        path, pages = _path(request), FolderPages()
        limit, after = pages.get_page_size(request), pages.after(request)
        folder = folder_open(user=self.user, job_id=job_id, now=timezone.now())
        with WAITING.take(self.user.pk):
            found = folder_ask(folder, lambda mount: ListRequest(mount=mount, path=path, after=after, limit=limit))
            listing = listing_of(found, path)
        parent = path if found.there.kind == "folder" else path.rpartition(b"/")[0]
        context = {**self.get_serializer_context(), "choose_fields": True}
        rows = FileAnswer([_row(entry, parent) for entry in listing.entries], many=True, context=context)
        return pages.answer(request, list(rows.data), listing.entries[-1].name if listing.more else None)


class FileContentView(ApiView):
    """A file of a job's folder."""

    content_negotiation_class = Unnegotiated
    pagination_class = None
    problems = (409, 416, 429, 503)

    @extend_schema(
        operation_id="job_file_content",
        parameters=[PATH, *PART],
        responses={(200, BYTES): bytes, (200, ARCHIVE): bytes, (206, BYTES): bytes},
    )
    def get(self, request: Request, job_id: int) -> HttpResponseBase:
        """A file as it is, or a folder as a tar archive (files, folders and links; whatever else there is is left
        out), to be saved: never shown by a browser. A download that breaks off has too few bytes for its
        `Content-Length`, or an archive without its end. That of a file goes on with `Range: bytes=1048576-` and, in
        `If-Range`, the `ETag` that it had: 206 with the rest, or 200 with the whole file where it is another by now.
        For those who may list the files."""
        unknown_refuse(request, ["path"])
        path = _path(request)
        folder = folder_open(user=self.user, job_id=job_id, now=timezone.now())
        return download(self.user, folder, path, still=files_still(request, job_id), asked=Asked.of(request))


def _path(request: Request) -> bytes:
    try:
        return path_bytes(request.query_params.get("path", ""))
    except ValueError as error:
        raise ValidationError({"path": str(error)}) from None


def _row(entry: FileEntry, parent: bytes) -> dict[str, Any]:
    return {
        "name": entry.name.decode(errors="replace"),
        "path": path_text(b"/".join(filter(None, (parent, entry.name)))),
        "kind": entry.kind,
        "size": entry.size,
        "changed_at": datetime.fromtimestamp(min(max(entry.changed_ms, 0), LATEST_MS) / 1000, UTC),
    }
