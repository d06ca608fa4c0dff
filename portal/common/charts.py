"""Charts of the pages: the data that a script draws, and a table with the same numbers for readers without script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Value = float | None


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a chart, a value for each time or name; None where unknown. ``colour``: a token of ``tokens.css``
    such as ``running``; empty: the next of the palette. ``mean`` and ``most`` are set where more is known than the
    points show."""

    name: str
    values: Sequence[Value]
    colour: str = ""
    mean: Value = None
    most: Value = None

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values if value is not None]

    @property
    def now(self) -> str:
        """The newest known value."""
        return number_words(self.known[-1] if self.known else None)

    @property
    def average(self) -> str:
        """The mean, over the points shown unless ``mean`` is set."""
        if self.mean is not None:
            return number_words(self.mean)
        return number_words(sum(self.known) / len(self.known) if self.known else None)

    @property
    def peak(self) -> str:
        """The largest value, of the points shown unless ``most`` is set."""
        return number_words(max(self.known, default=None) if self.most is None else self.most)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its table, rendered by ``parts/chart.html``. ``key``: its id, unique on the page. ``times``: seconds
    since 1970, one for each value; or ``names``, a bar for each. ``top``: the least upper end of the axis. ``span``:
    the times at its ends. Charts of one ``group`` share pointer and zoom. ``note``: what it does not show, and why."""

    key: str
    title: str
    unit: str
    lines: Sequence[Line]
    times: Sequence[int] = ()
    names: Sequence[str] = ()
    kind: Literal["line", "area", "bar"] = "line"
    stacked: bool = False
    top: float | None = None
    span: tuple[int, int] | None = None
    group: str = ""
    note: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The data for the script (``frontend/src/charts/data.ts``)."""
        lines = [{"name": one.name, "values": list(one.values), "colour": one.colour} for one in self.lines]
        ends = {"top": self.top, "span": self.span}
        places = {"times": list(self.times), "names": list(self.names)}
        return {"kind": self.kind, "stacked": self.stacked, "unit": self.unit, "lines": lines, **places, **ends}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(line.known for line in self.lines)

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """Table rows of a chart with ``names``: each name with its values."""
        columns = [[number_words(value) for value in line.values] for line in self.lines]
        return [(name, [column[place] for column in columns]) for place, name in enumerate(self.names)]


def number_words(value: float | None) -> str:
    """Formats ``1234.56`` as ``1235``, ``12.34`` as ``12.3``, ``1.234`` as ``1.23``, None as a dash."""
    if value is None:
        return "–"
    size = abs(value)
    text = f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
