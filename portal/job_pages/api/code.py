"""REST: folders of code that come with jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.http import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.protocol.packed import MEDIA_TYPE
from portal.accounts.credentials import still_may
from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.code.selectors import code_limits, code_uploaded
from portal.code.services import code_forget, code_read, code_upload
from portal.code.store import CodeFiles
from portal.common.errors import Fault, Invalid
from portal.common.negotiation import Unnegotiated
from portal.common.serializers import Answer
from portal.common.streaming import DOWNLOADS, Download
from portal.job_pages.api.answers import CodeAnswer
from portal.jobs.limits import UPLOADS
from portal.jobs.selectors.code import code_get

ARCHIVE = {MEDIA_TYPE: {"type": "string", "format": "binary", "description": "a gzip-compressed tar archive"}}


class CodeLimitsAnswer(Answer):
    """What is taken."""

    whole = True

    size = serializers.IntegerField(help_text="bytes of an archive")
    unpacked = serializers.IntegerField(help_text="bytes of the files in it")
    entries = serializers.IntegerField(help_text="files, folders and links in it")


class PackedFolder(BaseParser):
    """An archive as it comes: whoever takes it reads it piece by piece."""

    media_type = MEDIA_TYPE

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return stream


class CodeFoldersView(ApiView):
    """Uploading code."""

    scope = Scope.SUBMIT
    parser_classes = (PackedFolder,)
    orders = ("size", "used_at")
    problems = (409, 429, 503)

    @extend_schema(operation_id="code_list", responses=CodeAnswer(many=True))
    def get(self, request: Request) -> Response:
        """What one uploaded and what is still there, newest first."""
        return self.page(code_uploaded(user=self.user), CodeAnswer)

    @extend_schema(operation_id="code_upload", request=ARCHIVE, responses={201: CodeAnswer, 200: CodeAnswer})
    def post(self, request: Request) -> Response:
        """Uploads a packed folder: a gzip-compressed tar archive of files, folders and symbolic links that stay inside
        it. Its `id` is its SHA-256. 201 the first time, 200 when one had uploaded it before. For those who may submit
        somewhere; 409 when one's code takes too much room."""
        now = timezone.now()
        UPLOADS.take(f"user:{self.user.pk}", now=now)
        stream: Any = request.data
        if not hasattr(stream, "read"):
            raise Invalid([Fault("", "The body is empty; it must be a gzip-compressed tar archive.", "required")])
        code, first = code_upload(user=self.user, stream=stream, now=now)
        return Response(CodeAnswer(code).data, status=201 if first else 200)


class CodeLimitsView(ApiView):
    """What may be uploaded."""

    @extend_schema(operation_id="code_limits", responses=CodeLimitsAnswer)
    def get(self, request: Request) -> Response:
        """The most that an archive may take, packed and unpacked."""
        return Response(CodeLimitsAnswer(code_limits()).data)


class CodeFolderView(ApiView):
    """One folder of code."""

    scope = Scope.SUBMIT

    @extend_schema(operation_id="code", responses=CodeAnswer)
    def get(self, request: Request, code: str) -> Response:
        """Whether it is here and one may name it in a job file: uploaded by oneself, or used by a job that one may
        see."""
        return Response(CodeAnswer(code_get(user=self.user, name=code)).data)

    @extend_schema(operation_id="code_forget", request=None, responses={204: None})
    def delete(self, request: Request, code: str) -> Response:
        """Takes one's own upload back. Jobs that name it keep it."""
        code_forget(user=self.user, code=code_get(user=self.user, name=code), now=timezone.now())
        return Response(status=204)


class CodeArchiveView(ApiView):
    """The archive itself."""

    content_negotiation_class = Unnegotiated
    problems = (429,)

    @extend_schema(operation_id="code_archive", responses={(200, MEDIA_TYPE): bytes})
    def get(self, request: Request, code: str) -> HttpResponseBase:
        """Downloads the archive."""
        found = code_get(user=self.user, name=code)
        code_read(user=self.user, code=found, now=timezone.now())
        pieces = CodeFiles(settings.CODE_DIR).read(found.sha256)
        headers = {
            "Content-Length": str(found.size),
            "Content-Disposition": f'attachment; filename="code-{found.sha256[:12]}.tar.gz"',
        }
        still = still_may(request, lambda user: code_get(user=user, name=code))
        return Download(
            pieces, seat=DOWNLOADS.take(self.user.pk), still=still, content_type=MEDIA_TYPE, headers=headers
        )
