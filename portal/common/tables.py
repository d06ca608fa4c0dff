"""CSV tables (RFC 4180, UTF-8), safe to open in spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a cell with such a start for a formula, and some formulas run programs."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A header line, then one line per row. A text that a spreadsheet would evaluate gets a leading apostrophe; None is
    empty."""
    return csv_rows([columns]) + csv_rows(rows)


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """The lines without a header, for a table that is streamed."""
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
