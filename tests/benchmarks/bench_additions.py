"""What parked victims, elastic jobs, idle sessions, parts of GPUs and turns would change on a real trace.

`python -m tests.benchmarks.bench_additions [--rows WORDS] [--without SEED] [--images FOLDER]`: Philly on a quarter of
its nodes, as in bench_simulator. `--without` leaves out a random 2 % of the jobs, to see how far a figure is chance.
Nothing here is asserted. Charts are drawn of the rows with elastic jobs.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time
from typing import NamedTuple

from portal.scheduler.management.simulation.chart import draw
from scheduling import Cluster
from scheduling.simulator.clusters import of_equal_nodes
from scheduling.simulator.elastic import ElasticRule
from scheduling.simulator.guests import MOST_TURNS, GroupRule, Idle, SessionRule
from scheduling.simulator.loop import Outcome
from scheduling.simulator.metrics import Figures, spread, summary
from scheduling.simulator.parking import Home, ParkRule, Price, Queueing
from scheduling.simulator.policies import Settings, compare, simulate
from scheduling.simulator.timeline import timeline
from scheduling.simulator.trace import TraceJob
from scheduling.simulator.trace import read as read_trace
from tests.benchmarks.bench_simulator import HEADINGS, TRACES, figures_of

LEFT_OUT = 0.02
HOUR_MS = 3_600_000
PLENTY = 1_000_000
MORE = ("lost by one-GPU jobs", "parked", "went on", "resized", "idle GPU hours", "GPU back p50, p95 s")
ALSO = ("one-GPU jobs: mean queueing delay s", "first output p50, p95 s")


class Case(NamedTuple):
    """A row: its name begins with what is added."""

    name: str
    settings: Settings


KEPT, LOST = Settings(), Settings(work_kept=False)


def parked(name: str, rule: ParkRule) -> Case:
    """A row of parked victims, where work is lost."""
    return Case(f"park, {name}", replace(LOST, park=rule))


QUEUED = ParkRule(1, Home.NODE, queueing=Queueing.QUEUE, room=PLENTY)
PRICED = replace(QUEUED, price=Price.SWITCH)
FIRST = ParkRule(1)
ASIDE = ParkRule(1, queueing=Queueing.ASIDE)
AS_LONG = replace(ASIDE, patience=1.0)
QUARTER = replace(ASIDE, patience=0.25)

IN_THE_QUEUE = (
    parked("anywhere, priced as lost", replace(QUEUED, home=Home.ANY)),
    parked("own node, priced as lost", QUEUED),
    parked("anywhere, priced by the switch", replace(PRICED, home=Home.ANY)),
    parked("own node, priced by the switch", PRICED),
    parked("up to 8 GPUs, own nodes, priced by the switch", replace(PRICED, gpus=8)),
    *(
        parked(
            f"up to {gpus} GPUs, own nodes, priced by the switch, {wait} s",
            replace(PRICED, gpus=gpus, patience_ms=wait * 1000),
        )
        for gpus in (8, 1)
        for wait in (0, 300, 1800)
    ),
)

ON_THE_OWN_GPU = (
    parked("own GPU first", FIRST),
    parked("own GPU aside, as long as its work", AS_LONG),
    parked("own GPU aside", ASIDE),
    parked("own GPU first, priced by the switch", replace(FIRST, price=Price.SWITCH)),
    parked("own GPU first, priced by the wait", replace(FIRST, price=Price.WAIT)),
    parked("own GPU first, from an hour of work", replace(FIRST, least_ms=HOUR_MS)),
    parked("own GPU first, one for each node", replace(FIRST, room=1)),
    parked("own GPU aside, taken by right", replace(ASIDE, by_right=True)),
    parked("own GPU aside, priced by the wait", replace(ASIDE, price=Price.WAIT)),
    parked("own GPU aside, as long as its work, priced by the wait", replace(AS_LONG, price=Price.WAIT)),
    parked("own GPU aside, a quarter of its work", QUARTER),
    parked("own GPU aside, a quarter of its work, by right", replace(QUARTER, by_right=True)),
    parked("own GPU aside, a quarter of its work, from 4 hours", replace(QUARTER, least_ms=4 * HOUR_MS)),
    parked("own GPU aside, 300 s", replace(ASIDE, patience_ms=300_000)),
    parked("own GPU aside, preemptor up to 10 minutes", replace(ASIDE, longest_ms=600_000)),
    parked("own GPU aside, as long as its work, preemptor up to 1 hour", replace(AS_LONG, longest_ms=HOUR_MS)),
)
"""Rules for one-GPU jobs, which is what can be parked; how long a preemptor runs is foresight that no portal has."""

CASES = (
    Case("nothing added, work lost", LOST),
    Case("nothing added, work kept", KEPT),
    *(Case(f"{share} % elastic", replace(KEPT, elastic=ElasticRule(share / 100))) for share in (20, 50, 80)),
    *ON_THE_OWN_GPU,
    *IN_THE_QUEUE,
    *(Case(f"sessions, {idle}", replace(KEPT, sessions=SessionRule(0.2, idle=idle))) for idle in Idle),
    Case("turns", replace(KEPT, groups=GroupRule(MOST_TURNS, turns=True))),
    *(
        Case(f"{parts} parts, {slower} % slower", replace(KEPT, groups=GroupRule(parts, slower / 100)))
        for parts in (2, 4)
        for slower in (0, 10, 30)
    ),
)


def trace_of(cluster: Cluster, without: int | None) -> tuple[TraceJob, ...]:
    """Three weeks of Philly, less some jobs."""
    with gzip.open(TRACES / "philly_3w.csv.gz", "rt", newline="") as file:
        header, *lines = file
    chance = Random(without)
    return read_trace([header, *(line for line in lines if without is None or chance.random() >= LEFT_OUT)], cluster)


def more_of(overall: Figures, outcomes: Sequence[Outcome]) -> list[str]:
    """The figures that only additions have."""
    single = [one for one in outcomes if one.job.gpus == 1]
    first = overall.first_output_s
    delay = spread(one.queue_ms for one in single)
    lost = sum(one.lost_ms for one in single) / HOUR_MS
    return [
        f"{lost:,.0f}",
        f"{overall.parked:,}",
        f"{overall.resumed:,}",
        f"{overall.resizes:,}",
        f"{overall.gpu_hours_idle:,.0f}",
        f"{overall.returns_s.p50 or 0:,.0f}, {overall.returns_s.p95 or 0:,.0f}",
        f"{delay.mean or 0:,.1f}",
        f"{first.p50 or 0:,.0f}, {first.p95 or 0:,.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", nargs="+", default=[""], metavar="WORDS", help="only rows whose name has one of these"
    )
    parser.add_argument("--without", type=int, metavar="SEED", help="leave out some of the jobs")
    parser.add_argument("--images", type=Path, help="write charts into this folder")
    options = parser.parse_args()
    cluster = of_equal_nodes(json.loads((TRACES / "philly_3w.quarter.cluster.json").read_text()))
    trace = trace_of(cluster, options.without)
    private = compare(cluster, trace, Settings()).outcomes
    headings = (*HEADINGS[1:-1], *MORE, *ALSO, HEADINGS[-1])
    print("|", " | ".join(headings), "|")
    print("|" + " --- |" * len(headings), flush=True)
    for case in [one for one in CASES if any(word in one.name for word in options.rows)]:
        begin = process_time()
        result = simulate(cluster, trace, case.settings)
        seconds = process_time() - begin
        overall = summary(cluster, result.outcomes, private).overall
        cells = [*figures_of(overall), *more_of(overall, result.outcomes), f"{seconds:.1f}"]
        print("|", " | ".join([case.name, *cells]), "|", flush=True)
        if options.images and case.settings.elastic is not None:
            share = round(case.settings.elastic.share * 100)
            image = options.images / f"simulation-quarter-elastic-{share}.png"
            draw(image, timeline(result.events), len(cluster.leaf_types), f"Philly, three weeks: {case.name}")


if __name__ == "__main__":
    main()
