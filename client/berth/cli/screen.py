"""Output of the command: tables and sentences for people, JSON for programs. Text by others (names, reasons) can
neither control the terminal nor reorder what stands beside it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

HOSTILE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and those that change the direction of text."""
UNCUT = 100_000
COLOURS = {
    "running": "green",
    "succeeded": "green",
    "healthy": "green",
    "waiting": "yellow",
    "starting": "cyan",
    "stopping": "yellow",
    "draining": "yellow",
    "cordoned": "yellow",
    "failed": "red",
    "lost": "red",
}


def clean(text: str) -> str:
    """The text on one line, with what could control a terminal made visible."""
    return HOSTILE.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    found = match[0]
    return " " if found in "\n\t" else f"\\u{ord(found):04x}" if ord(found) > 0xFF else f"\\x{ord(found):02x}"


def console(*, errors: bool = False) -> Console:
    """Rich's console; off a terminal, lines are never cut."""
    stream = sys.stderr if errors else sys.stdout
    seen = stream.isatty()
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=None if seen else UNCUT)


def say(text: str) -> None:
    """Prints a sentence about progress to standard error."""
    print(clean(text), file=sys.stderr, flush=True)


def show_json(value: Any) -> None:
    """Prints one JSON document."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_json_line(value: Any) -> None:
    """Prints one JSON document on a line of its own."""
    print(msgspec.json.encode(value).decode(), flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Plain columns; a column whose name begins with ``>`` holds numbers, one with ``*`` may take several lines."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        number, long = column.startswith(">"), column.startswith("*")
        made.add_column(
            column.lstrip(">*"),
            justify="right" if number else "left",
            no_wrap=not long,
            overflow="fold" if long else "ellipsis",
        )
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made


def cell(value: object) -> Text:
    """A value as text; None is empty."""
    shown = clean("" if value is None else when(value) if isinstance(value, datetime) else str(value))
    return Text(shown, style=COLOURS.get(shown, ""))


def show(*things: object) -> None:
    """Prints tables and lines to standard output."""
    out = console()
    for thing in things:
        out.print(cell(thing) if isinstance(thing, str) else thing, soft_wrap=isinstance(thing, str))


def when(at: datetime | None, *, now: datetime | None = None) -> str:
    """A time in the reader's zone: of today only the hour."""
    if at is None:
        return ""
    here, today = at.astimezone(), (now or datetime.now(UTC)).astimezone().date()
    return here.strftime("%H:%M" if here.date() == today else "%Y-%m-%d %H:%M")


def span(seconds: float) -> str:
    """A duration in its two largest units."""
    whole = max(0, int(seconds))
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    parts: list[str] = []
    for size, letter in units:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count}{letter}")
    return " ".join(parts[:2]) or "0s"


def memory(megabytes: int) -> str:
    """An amount of memory: `64G`, `1.5G`, `512M`."""
    return f"{megabytes / 1024:.3g}G" if megabytes >= 1024 else f"{megabytes}M"


def cores(milli: int) -> str:
    """An amount of CPU in cores."""
    return f"{milli / 1000:g}"
