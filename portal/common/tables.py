"""Tables as CSV text (RFC 4180, UTF-8), which people open in spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a cell that begins so for a formula, and some formulas run programs."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line with the columns' names, then one for each row. A text that a spreadsheet would calculate gets an
    apostrophe in front; None is empty."""
    return csv_rows([columns]) + csv_rows(rows)


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """The same without the columns' names, for a table that is sent piece by piece."""
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
