"""`berth usage`: GPU hours held beside those really used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import typer
from rich.table import Table

from berth.cli import completion
from berth.cli.jobs import AsJson, session
from berth.cli.screen import show, show_json, table
from berth.errors import Misused
from berth.model.usage import Usage, UsageRow, UsageSums

DAY = ["%Y-%m-%d"]
BAR = 24
"""Characters of the longest bar."""
PERIODS = ("day", "week", "month")


def usage(
    ctx: typer.Context,
    first: Annotated[
        datetime | None, typer.Option("--from", formats=DAY, help="First day (UTC); else the first of this month.")
    ] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=DAY, help="Last day, included; else today.")] = None,
    by: Annotated[str, typer.Option(help="Some of vc, user, sku and one of day, week, month, with commas.")] = "vc",
    vc: Annotated[
        str | None, typer.Option(help="Of this virtual cluster alone.", autocompletion=completion.virtual_clusters)
    ] = None,
    user: Annotated[str | None, typer.Option(help="Of this user alone.")] = None,
    sku: Annotated[str | None, typer.Option(help="On this kind of GPU alone.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show GPU hours held and really used, idle and lost, and what they cost.

    GROWN, where there are any: of those on loan, the hours of extra tasks of elastic jobs.
    """
    if as_csv and as_json:
        raise Misused("take one of --csv and --json")
    days = (first.date() if first else None, last.date() if last else None)
    groups = [name.strip() for name in by.split(",")]
    with session(ctx).client() as client:
        if as_csv:
            text = client.usage_csv(first=days[0], last=days[1], by=groups, vc=vc, user=user, sku=sku)
            typer.echo(text, nl=False)
            return
        found = client.usage(first=days[0], last=days[1], by=groups, vc=vc, user=user, sku=sku)
    show_json(found) if as_json else show(*usage_lines(found))


def usage_lines(found: Usage) -> Iterator[str | Table]:
    """The report: a row for each group with a bar of what was held, its filled part what was used."""
    yield f"GPU hours from {found.first} to {found.last} (UTC)"
    if not found.rows:
        yield "Nobody held a GPU."
        return
    groups = [name.upper() for name in found.by]
    grown = (">GROWN",) if found.total.grown_gpu_hours else ()
    cost = f">COST {found.currency}".rstrip()
    numbers = (">HELD", ">ON LOAN", *grown, ">USED", ">IDLE", ">LOST", cost, "USED OF HELD")
    rows = [(*_group(found, row), *_numbers(row, found)) for row in found.rows]
    total = ("total", *[""] * (len(groups) - 1), *_numbers(found.total, found)[:-1], "")
    yield table((*groups, *numbers), [*rows, total])


def _group(found: Usage, row: UsageRow) -> Iterator[object]:
    for name in found.by:
        value = row.period if name in PERIODS else getattr(row, name)
        yield "others" if name == "user" and value is None else value


def _numbers(sums: UsageSums, found: Usage) -> tuple[object, ...]:
    grown = (_hours(sums.grown_gpu_hours),) if found.total.grown_gpu_hours else ()
    return (
        _hours(sums.gpu_hours), _hours(sums.opportunistic_gpu_hours), *grown, _used(sums), _hours(sums.idle_gpu_hours),
        _hours(sums.wasted_gpu_hours), _money(sums.cost), _bar(sums, max(row.gpu_hours for row in found.rows)),
    )  # fmt: skip


def _hours(hours: float) -> str:
    return f"{hours:,.2f}" if hours < 10 else f"{hours:,.1f}"


def _money(cost: Decimal | None) -> str:
    return "" if cost is None else f"{cost:,.2f}"


def _used(sums: UsageSums) -> str:
    """Used hours, and their share of what was measured: nothing is known of the rest."""
    if not sums.measured_gpu_hours:
        return "-"
    return f"{_hours(sums.used_gpu_hours)} ({sums.used_gpu_hours / sums.measured_gpu_hours:.0%})"


def _bar(sums: UsageSums, longest: float) -> str:
    if not longest:
        return ""
    held = round(BAR * sums.gpu_hours / longest)
    used = min(held, round(BAR * sums.used_gpu_hours / longest))
    return "█" * used + "░" * (held - used)
