"""``manage.py simulate --cluster FILE --jobs FILE``: a trace of jobs through the scheduling engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from portal.scheduler.management.simulation import additions
from portal.scheduler.management.simulation.chart import NoPlots, draw, ensure_drawing
from portal.scheduler.management.simulation.inputs import InputError, cluster_of, told, trace_of
from portal.scheduler.management.simulation.outputs import table_of, write_events, write_results
from scheduling import Cluster, Order
from scheduling.simulator.metrics import Summary, summary
from scheduling.simulator.policies import Result, Settings, Sharing, compare, simulate
from scheduling.simulator.timeline import timeline
from scheduling.simulator.trace import TraceError, TraceJob


class Command(BaseCommand):
    help = "Run a trace of jobs through the scheduling engine and print what became of them."
    requires_system_checks = []  # it asks nothing of the portal but the engine

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--cluster", type=Path, required=True, help="YAML in HiveD's style, or JSON of node counts")
        parser.add_argument("--jobs", type=Path, required=True, help="CSV, packed with gzip or not")
        parser.add_argument("--policy", choices=[one.value for one in Sharing], default=Sharing.CAPACITY.value)
        parser.add_argument("--order", choices=[one.value for one in Order], default=Order.SUBMISSION.value)
        parser.add_argument("--backfill", choices=["on", "off"], default="off")
        parser.add_argument(
            "--preemption", choices=["keep", "restart"], default="keep", help="work kept, or lost and run again"
        )
        parser.add_argument(
            "--promotion", choices=["on", "off"], default="on", help="whether borrowers move into their quota in turn"
        )
        parser.add_argument("--quota", choices=["node", "gpu"], default="node", help="what a share is made of")
        parser.add_argument("--grace", type=float, default=0.0, metavar="SECONDS", help="before a victim is gone")
        additions.add_arguments(parser)
        parser.add_argument("--out", type=Path, metavar="FILE", help="figures and jobs as JSON")
        parser.add_argument("--events", type=Path, metavar="FILE", help="what happened, one JSON object a line")
        parser.add_argument("--plot", type=Path, metavar="FILE", help="a chart, PNG or SVG by its name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except (InputError, NoPlots, OSError) as error:
            raise CommandError(str(error)) from None

    def _handle(self, options: dict[str, Any]) -> None:
        settings = _settings(options)
        _check_outputs(options)
        cluster = cluster_of(options["cluster"])
        trace = trace_of(options["jobs"], cluster)
        try:
            result, private, wall_s = _run(cluster, trace, settings)
        except TraceError as error:
            raise InputError(told(options["jobs"], error)) from None
        found = summary(cluster, result.outcomes, private.outcomes)
        self._tell(options, settings, cluster, result, found, wall_s)

    def _tell(
        self,
        options: dict[str, Any],
        settings: Settings,
        cluster: Cluster,
        result: Result,
        found: Summary,
        wall_s: float,
    ) -> None:
        if options["out"]:
            write_results(options["out"], settings, found, wall_s, result.outcomes)
        if options["events"]:
            write_events(options["events"], result.events)
        if options["plot"]:
            title = f"{options['jobs'].name} on {options['cluster'].name}: {settings.sharing}"
            draw(options["plot"], timeline(result.events), len(cluster.leaf_types), title)
        self.stdout.write(table_of(settings, found, wall_s))


def _settings(options: dict[str, Any]) -> Settings:
    if not 0 <= options["grace"] < float("inf"):
        raise InputError(f"--grace {options['grace']} is no number of seconds from 0")
    return Settings(
        sharing=Sharing(options["policy"]),
        order=Order(options["order"]),
        backfill=options["backfill"] == "on",
        work_kept=options["preemption"] == "keep",
        quota_in_gpus=options["quota"] == "gpu",
        grace_ms=round(options["grace"] * 1000),
        promotion=options["promotion"] == "on",
        **additions.additions_of(options),
    )


def _check_outputs(options: dict[str, Any]) -> None:
    """What would fail after a long run fails before it."""
    for name in ("out", "events", "plot"):
        path: Path | None = options[name]
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise InputError(f"--{name} {path} is no file in a folder that is there")
    if options["plot"]:
        ensure_drawing()


def _run(cluster: Cluster, trace: Sequence[TraceJob], settings: Settings) -> tuple[Result, Result, float]:
    """The simulation, the one with each team alone to compare it with, and the seconds the first took."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(settings.sharing.value, total=len(trace))
        begin = perf_counter()
        result = simulate(cluster, trace, settings, lambda: progress.advance(task))
        wall_s = perf_counter() - begin
        if settings.sharing == Sharing.PRIVATE:
            return result, result, wall_s
        task = progress.add_task("private, to compare", total=len(trace))
        return result, compare(cluster, trace, settings, lambda: progress.advance(task)), wall_s
