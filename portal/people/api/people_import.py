"""REST: many accounts from one CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.negotiation import Unnegotiated
from portal.common.parameters import DRY_RUN, dry_run, truth, truth_parameter
from portal.common.parsers import read_limited
from portal.common.serializers import FaultAnswer
from portal.common.shapes import Shape
from portal.people.selectors.people import manage_right
from portal.people.services.people_import import people_import
from portal.people.table import table_rows, table_template

CSV = "text/csv"
ALL_OR_NOTHING = truth_parameter(
    "all_or_nothing", default=True, description="One row that cannot be leaves no account; else the others are made."
)


class CsvFile(BaseParser):
    """A CSV file as it was sent."""

    media_type = CSV

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return read_limited(stream, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


class ImportRowAnswer(Shape):
    """What became of a row."""

    line = serializers.IntegerField(help_text="of the file, from 1")
    username = serializers.CharField(allow_blank=True)
    created = serializers.BooleanField()
    role = serializers.CharField(
        allow_blank=True, help_text="`user` where the cell is empty; empty: not known, since the row cannot be"
    )
    password = serializers.BooleanField(
        source="has_password", help_text="false: nobody signs in by a password until an administrator gives one"
    )
    errors = FaultAnswer(source="faults", many=True, help_text="why it cannot be; empty: nothing is in the way")  # type: ignore[assignment]  # a field, which DRF takes out of the class


class ImportAnswer(Shape):
    """What became of a file, row by row."""

    dry_run = serializers.BooleanField()
    created = serializers.IntegerField(help_text="accounts made")
    refused = serializers.IntegerField(help_text="rows that cannot be")
    rows = ImportRowAnswer(many=True)


class UsersImportView(ApiView):
    """Many accounts at once."""

    content_negotiation_class = Unnegotiated
    parser_classes = (CsvFile,)

    @extend_schema(operation_id="user_import_template", responses={(200, CSV): str})
    def get(self, request: Request) -> HttpResponse:
        """A CSV file with every column and one row as an example."""
        answer = HttpResponse(table_template(), content_type=f"{CSV}; charset=utf-8")
        answer.headers["Content-Disposition"] = 'attachment; filename="users.csv"'
        return answer

    @extend_schema(
        operation_id="user_import",
        request={CSV: {"type": "string", "description": "a header, then a row for each account"}},
        parameters=[DRY_RUN, ALL_OR_NOTHING],
        responses=ImportAnswer,
    )
    def post(self, request: Request) -> Response:
        """Makes an account of each row of a CSV file (UTF-8, at most 200 rows). Its header names some of the columns
        of the template, `username` at least; several values of one cell are separated by `;`, an empty cell is as if
        the column were not there. 400 with every fault and its line where `all_or_nothing` holds and some row cannot
        be. A name that is taken is such a fault: an account that is there is never changed. For administrators."""
        manage_right(user=self.user, action=Action.USER_MANAGE)
        rows = list(table_rows(request.data if isinstance(request.data, bytes) else b""))
        dry = dry_run(request)
        people_import(rows=rows, dry_run=dry, all_or_nothing=truth(request, "all_or_nothing", default=True), **self.by)
        created, refused = sum(row.created for row in rows), sum(bool(row.faults) for row in rows)
        return Response(ImportAnswer({"dry_run": dry, "created": created, "refused": refused, "rows": rows}).data)
