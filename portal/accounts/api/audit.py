"""REST: the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.audit import audit_entries
from portal.accounts.audit_filter import AuditFilter
from portal.accounts.credentials import still_may
from portal.accounts.models import Audited, AuditEntry
from portal.accounts.rest import ApiView
from portal.common.filters import unknown_refuse
from portal.common.negotiation import Unnegotiated
from portal.common.serializers import Answer, Body
from portal.common.streaming import DOWNLOADS, Download
from portal.common.tables import csv_rows, csv_text

LINES, CSV = "application/x-ndjson", "text/csv"
AT_ONCE = 1_000


class AuditAnswer(Answer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(allow_blank=True, help_text="user name; empty: the portal itself")
    via = serializers.CharField(help_text="`web`, `token berth_…` (how it begins), `socket` or `system`")
    address = serializers.IPAddressField(allow_null=True)
    action = serializers.ChoiceField(Audited.choices)
    target = serializers.CharField(help_text="what it was done to: a job, a user, a virtual cluster …")
    vc = serializers.CharField(allow_blank=True)
    before = serializers.DictField(allow_null=True, help_text="what has changed, as it was; null: nothing was there")
    after = serializers.DictField(allow_null=True, help_text="the same as it is; null: nothing is there any more")


class ExportParameters(Body):
    format = serializers.ChoiceField(["jsonl", "csv"], required=False, help_text="else JSON lines")


class AuditView(ApiView):
    """Who did what. For administrators and auditors."""

    filterset_class = AuditFilter

    @extend_schema(operation_id="audit_list", responses=AuditAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Entries, newest first. Nothing changes or deletes them."""
        return self.page(audit_entries(user=self.user), AuditAnswer)


class AuditExportView(ApiView):
    """The same to take away."""

    filterset_class = AuditFilter
    content_negotiation_class = Unnegotiated
    pagination_class = None
    problems = (429,)

    @extend_schema(
        operation_id="audit_export", parameters=[ExportParameters], responses={(200, LINES): str, (200, CSV): str}
    )
    def get(self, request: Request) -> HttpResponseBase:
        """All entries that the filters leave, oldest first: one JSON document a line, or as CSV where `format` asks,
        in which `before` and `after` are JSON."""
        unknown_refuse(request, {*AuditFilter.base_filters, "format"})
        wanted = ExportParameters(data={name: text for name, text in request.query_params.items() if name == "format"})
        wanted.is_valid(raise_exception=True)
        form = wanted.validated_data.get("format", "jsonl")
        found = _pieces(self.filter_queryset(audit_entries(user=self.user)).order_by("id"))
        parts = _table(found) if form == "csv" else (msgspec.json.Encoder().encode_lines(rows) for rows in found)
        kind = f"{CSV}; charset=utf-8" if form == "csv" else LINES
        still = still_may(request, lambda user: audit_entries(user=user))
        answer = Download(parts, seat=DOWNLOADS.take(self.user.pk), still=still, content_type=kind)
        answer.headers["Content-Disposition"] = f'attachment; filename="audit.{form}"'
        return answer


Rows = list[dict[str, Any]]


def _pieces(entries: QuerySet[AuditEntry]) -> Iterator[Rows]:
    """So many at a time: no transaction stays open over a slow download."""
    last, columns = 0, list(AuditAnswer().fields)
    while rows := list(entries.filter(pk__gt=last).values(*columns)[:AT_ONCE]):
        last = rows[-1]["id"]
        yield rows


def _table(pieces: Iterator[Rows]) -> Iterator[bytes]:
    columns = list(AuditAnswer().fields)
    yield csv_text(columns, ()).encode()
    for rows in pieces:
        yield csv_rows([_cell(row[name]) for name in columns] for row in rows).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value
