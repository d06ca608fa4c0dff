"""REST: many accounts from one CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import IO, Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.clusters.api.people import UserBody
from portal.clusters.selectors import manage_right
from portal.clusters.services import ImportRow, people_import
from portal.common.errors import Fault, Invalid
from portal.common.negotiation import Unnegotiated
from portal.common.parameters import DRY_RUN, dry_run, truth, truth_parameter
from portal.common.parsers import read_limited
from portal.common.problems import faults_in
from portal.common.serializers import FaultAnswer

CSV = "text/csv"
COLUMNS = ("username", "password", "email", "role", "uid", "gid", "extra_gids", "groups", "virtual_clusters")
LISTS = frozenset({"extra_gids", "groups", "virtual_clusters"})
NUMBERS = frozenset({"uid", "gid"})
EXAMPLE = ("alice", "", "alice@example.org", "user", "1001", "1001", "2001;2002", "", "vision;audio")
MOST_ROWS = 200
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


class ImportRowAnswer(serializers.Serializer[Any]):
    """What became of a row."""

    line = serializers.IntegerField(help_text="of the file, from 1")
    username = serializers.CharField(allow_blank=True)
    created = serializers.BooleanField()
    errors = FaultAnswer(source="faults", many=True, help_text="why it cannot be; empty: nothing is in the way")  # type: ignore[assignment]  # a field, which DRF takes out of the class


class ImportAnswer(serializers.Serializer[Any]):
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
        out = io.StringIO()
        csv.writer(out).writerows([COLUMNS, EXAMPLE])
        answer = HttpResponse(out.getvalue(), content_type=f"{CSV}; charset=utf-8")
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
        rows = list(_rows(request.data if isinstance(request.data, bytes) else b""))
        dry = dry_run(request)
        people_import(
            rows=rows, dry_run=dry, all_or_nothing=truth(request, "all_or_nothing", default=True),
            now=timezone.now(), actor=self.user.username,
        )  # fmt: skip
        created, refused = sum(row.created for row in rows), sum(bool(row.faults) for row in rows)
        return Response(ImportAnswer({"dry_run": dry, "created": created, "refused": refused, "rows": rows}).data)


def _rows(content: bytes) -> Iterator[ImportRow]:
    """The file's rows, each with what is wrong with its shape. Raises Invalid for a file that is none."""
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = list(reader.fieldnames or ())
        if faults := list(_header_faults(header)):
            raise Invalid(faults)
        for number, cells in enumerate(reader, 1):
            if number > MOST_ROWS:
                raise Invalid([Fault("", f"at most {MOST_ROWS} rows at a time; send the rest by itself", "too_many")])
            yield _row(reader.line_num, cells)
    except UnicodeDecodeError as error:
        raise Invalid([Fault("", f"this is no UTF-8 text (byte {error.start})", "encoding")]) from None
    except csv.Error as error:
        raise Invalid([Fault("", f"this is no CSV: {error}", "syntax", reader.line_num)]) from None


def _header_faults(header: list[str]) -> Iterator[Fault]:
    known = ", ".join(COLUMNS)
    for name in dict.fromkeys(header):
        if name not in COLUMNS:
            yield Fault(name[:100], f"there is no such column; there are: {known}", "unknown", 1)
        elif header.count(name) > 1:
            yield Fault(name, "this column is there twice", "twice", 1)
    if "username" not in header:
        yield Fault("username", f"the first line must name the columns, this one at least; there are: {known}",
                    "missing", 1)  # fmt: skip


def _row(line: int, cells: dict[Any, Any]) -> ImportRow:
    more = cells.pop(None, None)
    given = {name: _value(name, text) for name, text in cells.items() if text}
    body = UserBody(data=given)
    faults = [Fault("", f"{len(more)} cells more than the header has columns", "too_long", line)] if more else []
    try:
        body.is_valid(raise_exception=True)
    except ValidationError as error:
        faults += [Fault(one.path, one.message, one.code, line) for one in faults_in(error)]
        return ImportRow(line, str(given.get("username", "")), {}, faults)
    about = dict(body.validated_data)
    return ImportRow(line, about.pop("username"), about, faults)


def _value(name: str, text: str) -> Any:
    if name in LISTS:
        parts = [part.strip() for part in text.split(";") if part.strip()]
        return [_number(part) for part in parts] if name == "extra_gids" else parts
    return _number(text) if name in NUMBERS else text


def _number(text: str) -> Any:
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 20 else text
