"""The results of a simulation: JSON for programs, a table for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scheduling.simulator.loop import Event, Outcome
from scheduling.simulator.metrics import Figures, Summary
from scheduling.simulator.policies import Settings


def write_results(path: Path, settings: Settings, summary: Summary, wall_s: float, jobs: Iterable[Outcome]) -> None:
    """Writes `{"summary": {...}, "jobs": [...]}`, jobs in the order of submission."""
    document = {
        "summary": {
            "settings": told_settings(settings),
            **asdict(summary.overall),
            "per_vc": {vc: asdict(figures) for vc, figures in summary.per_vc.items()},
            "wall_s": round(wall_s, 3),
        },
        "jobs": [_job(outcome) for outcome in jobs],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def told_settings(settings: Settings) -> dict[str, Any]:
    """The settings by the names of the command's options."""
    return {
        "policy": settings.sharing.value,
        "order": settings.order.value,
        "backfill": "on" if settings.backfill else "off",
        "preemption": "keep" if settings.work_kept else "restart",
        "promotion": "on" if settings.promotion else "off",
        "quota": "gpu" if settings.quota_in_gpus else "node",
        "grace_s": settings.grace_ms / 1000,
        **{name: _told_rule(rule) for name, rule in _rules_of(settings).items()},
    }


def _rules_of(settings: Settings) -> dict[str, Any]:
    """What is added to the engine's own sharing, if anything."""
    rules = {name: getattr(settings, name) for name in ("park", "elastic", "sessions", "groups")}
    return {name: rule for name, rule in rules.items() if rule is not None}


def _told_rule(rule: Any) -> dict[str, Any]:
    return {name: getattr(value, "value", value) for name, value in asdict(rule).items()}


def _job(outcome: Outcome) -> dict[str, Any]:
    placements = [
        {
            "start_s": one.start_ms / 1000,
            "end_s": _seconds(one.end_ms),
            "standing": one.standing.value,
            "nodes": one.nodes,
        }
        for one in outcome.attempts
    ]
    return {
        "job_id": outcome.job.id,
        "vc": outcome.job.vc,
        "first_start_s": _seconds(outcome.first_start_ms),
        "finish_s": _seconds(outcome.finish_ms),
        "queue_s": _seconds(outcome.queue_ms),
        "preemptions": outcome.preemptions,
        "placements": placements,
    }


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Writes JSON lines, in the order of time."""
    with path.open("w") as file:
        for event in events:
            line = {
                "time_s": event.at_ms / 1000,
                "event": event.happening.value,
                "job_id": event.job.id,
                "vc": event.job.vc,
                "gpus": event.gpus,
                "standing": None if event.standing is None else event.standing.value,
                "cause": event.cause or None,
            }
            file.write(json.dumps(line) + "\n")


def table_of(settings: Settings, summary: Summary, wall_s: float) -> str:
    """A table of the figures of all jobs and of each virtual cluster."""
    words = ", ".join(f"{name} {value}" for name, value in told_settings(settings).items())
    table = Table(title=words, caption=f"simulated in {wall_s:.1f} s", title_justify="left", caption_justify="left")
    more = [one for name in _rules_of(settings) for one in MORE[name]]
    for heading in (*HEADINGS, *(heading for heading, _ in more)):
        table.add_column(heading, justify="left" if heading == "vc" else "right", no_wrap=True)
    for vc, figures in summary.per_vc.items():
        table.add_row(vc, *cells(figures), *(_number(cell(figures)) for _, cell in more))
    table.add_section()
    table.add_row("all", *cells(summary.overall), *(_number(cell(summary.overall)) for _, cell in more))
    text = StringIO()
    Console(file=text, width=TABLE_WIDTH).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


TABLE_WIDTH = 200
"""Wider than the table, so that no figure is cut; a narrow terminal breaks its lines."""

HEADINGS = (
    "vc",
    "jobs",
    "unfinished",
    "queue: mean s",
    "p95 s",
    "p99 s",
    "used",
    "preempted",
    "GPU h lost",
    "later than private",
    "started later",
)

MORE: dict[str, tuple[tuple[str, Callable[[Figures], float | None]], ...]] = {
    "park": (("parked", lambda one: one.parked), ("went on", lambda one: one.resumed)),
    "elastic": (("resized", lambda one: one.resizes),),
    "sessions": (
        ("idle GPU h", lambda one: one.gpu_hours_idle),
        ("GPU back: p50 s", lambda one: one.returns_s.p50),
        ("p95 s", lambda one: one.returns_s.p95),
    ),
    "groups": (
        ("first output: p50 s", lambda one: one.first_output_s.p50),
        ("p95 s", lambda one: one.first_output_s.p95),
    ),
}
"""The columns that each addition to the engine's own sharing has."""


def cells(figures: Figures) -> list[str]:
    """A table row without its first column."""
    later = figures.later_than_private
    return [
        f"{figures.count:,}",
        f"{figures.unfinished:,}",
        _number(figures.queue_s.mean),
        _number(figures.queue_s.p95),
        _number(figures.queue_s.p99),
        "-" if figures.gpu_utilisation is None else f"{figures.gpu_utilisation:.1%}",
        f"{figures.preemptions:,}",
        _number(figures.gpu_hours_lost),
        *(("-", "-") if later is None else (f"{later.completions:,}", f"{later.first_starts:,}")),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
