"""CSV files of accounts: columns, template, parsing."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterator
from typing import Any

from django.utils.translation import gettext
from rest_framework.exceptions import ValidationError

from portal.common.errors import Fault, Invalid
from portal.common.problems import faults_in
from portal.people.bodies import UserBody
from portal.people.services.people_import import Row as ImportRow

COLUMNS = ("username", "password", "email", "role", "uid", "gid", "extra_gids", "groups", "virtual_clusters")
LISTS = frozenset({"extra_gids", "groups", "virtual_clusters"})
NUMBERS = frozenset({"uid", "gid"})
EXAMPLE = ("alice", "", "alice@example.org", "user", "1001", "1001", "2001;2002", "", "vision;audio")
MOST_ROWS = 200


def table_template() -> str:
    """A CSV file with all columns and an example row."""
    out = io.StringIO()
    csv.writer(out).writerows([COLUMNS, EXAMPLE])
    return out.getvalue()


def table_of(content: bytes, lines: Container[int]) -> str:
    """The same table with only the rows on these lines."""
    text = content.decode("utf-8-sig")
    out = io.StringIO()
    writer = csv.writer(out, delimiter=_separator(text), lineterminator="\n")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    writer.writerow(next(reader))
    writer.writerows(cells for cells in reader if reader.line_num in lines)
    return out.getvalue()


def table_rows(content: bytes) -> Iterator[ImportRow]:
    """Parses the file's rows, each with the faults of its format. Raises Invalid if the file is not valid."""
    try:
        text = content.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
        header = list(reader.fieldnames or ())
        if faults := list(_header_faults(header)):
            raise Invalid(faults)
        for number, cells in enumerate(reader, 1):
            if number > MOST_ROWS:
                message = gettext("at most %(most)s rows at a time; send the rest by itself") % {"most": MOST_ROWS}
                raise Invalid([Fault("", message, "too_many")])
            yield _row(reader.line_num, cells)
    except UnicodeDecodeError as error:
        message = gettext("this is no UTF-8 text (byte %(byte)s)") % {"byte": error.start}
        raise Invalid([Fault("", message, "encoding")]) from None
    except csv.Error as error:
        message = gettext("this is no CSV: %(why)s") % {"why": error}
        raise Invalid([Fault("", message, "syntax", reader.line_num)]) from None


def _separator(text: str) -> str:
    """The delimiter in the header: spreadsheets write semicolons in locales with decimal commas."""
    first = text.partition("\n")[0]
    return ";" if ";" in first and "," not in first else ","


def _header_faults(header: list[str]) -> Iterator[Fault]:
    known = ", ".join(COLUMNS)
    for name in dict.fromkeys(header):
        if name not in COLUMNS:
            message = gettext("there is no such column; there are: %(known)s") % {"known": known}
            yield Fault(name[:100], message, "unknown", 1)
        elif header.count(name) > 1:
            yield Fault(name, gettext("this column is there twice"), "twice", 1)
    if "username" not in header:
        message = gettext("the first line must name the columns, this one at least; there are: %(known)s")
        yield Fault("username", message % {"known": known}, "missing", 1)


def _row(line: int, cells: dict[Any, Any]) -> ImportRow:
    more = cells.pop(None, None)
    given = {name: _value(name, text) for name, text in cells.items() if text}
    body, name = UserBody(data=given), str(given.get("username", ""))
    faults = []
    if more:
        message = gettext("%(number)s cells more than the header has columns") % {"number": len(more)}
        faults = [Fault("", message, "too_long", line)]
    try:
        body.is_valid(raise_exception=True)
    except ValidationError as error:
        faults += [Fault(one.path, one.message, one.code, line) for one in faults_in(error)]
        given = {name: value for name, value in given.items() if name not in body.errors}
        body = UserBody(data=given, partial=True)
        body.is_valid()
    about = {field: value for field, value in body.validated_data.items() if field != "username"}
    return ImportRow(line, name, about, faults)


def _value(name: str, text: str) -> Any:
    if name in LISTS:
        parts = [part.strip() for part in text.split(";") if part.strip()]
        return [_number(part) for part in parts] if name == "extra_gids" else parts
    return _number(text) if name in NUMBERS else text


def _number(text: str) -> Any:
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 20 else text
