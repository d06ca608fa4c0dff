"""Three weeks of a real cluster under each way of sharing, beside an independent simulator's figures.

`python -m tests.benchmarks.bench_simulator [--clusters quarter third half] [--rows WORDS] [--images FOLDER]`. The
trace is Microsoft's Philly cluster (msr-fiddle/philly-traces, as cleaned for Pollux, OSDI '21), on a quarter, a
third and a half of its nodes. Nothing here is asserted. Charts are drawn of the rows that differ most: each team
alone, and everything lent.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import NamedTuple

from portal.scheduler.management.simulation.chart import draw
from scheduling import Cluster
from scheduling.simulator.clusters import of_equal_nodes
from scheduling.simulator.loop import Outcome
from scheduling.simulator.metrics import Figures, summary
from scheduling.simulator.policies import Settings, Sharing, compare, simulate
from scheduling.simulator.timeline import timeline
from scheduling.simulator.trace import TraceJob
from scheduling.simulator.trace import read as read_trace
from tests.support.run.facts import DATA

TRACES = DATA / "traces"
HEADINGS = (
    "cluster",
    "way of sharing",
    "mean queueing delay s",
    "p95 s",
    "utilisation",
    "preempted",
    "GPU hours lost",
    "later than private",
    "first start later",
    "CPU s",
)


class Case(NamedTuple):
    """A row of the table: what is simulated, what the independent simulator found on the quarter, what is aimed at."""

    name: str
    settings: Settings
    reference: Sequence[str] = ()
    goal: Sequence[str] = ()
    pictured: bool = False


LENT, LOST = Settings(), Settings(work_kept=False)
CASES = (
    Case("private", Settings(Sharing.PRIVATE), ("34,953.5", "99,471", "46.2 %", "0", "0", "-", "-"), pictured=True),
    Case("quota, nodes", Settings(Sharing.QUOTA)),
    Case(
        "quota, GPUs",
        Settings(Sharing.QUOTA, quota_in_gpus=True),
        ("32,751", "58,756", "46.8 %", "0", "0", "0", "-"),
    ),
    Case("fifo", Settings(Sharing.FIFO), ("12,743", "49,852", "65.5 %", "0", "0", "6,430", "-")),
    Case("capacity, nodes, work kept", LENT, goal=("< 2,100", *("-",) * 6), pictured=True),
    Case(
        "never promoted, nodes, work kept",
        replace(LENT, promotion=False),
        ("3,625", "13,623", "65.1 %", "733", "45", "0", "-"),
    ),
    Case("capacity, nodes, work lost", LOST, goal=("< 3,500", "-", "-", "-", "< 8,000", "-", "-")),
    Case(
        "never promoted, nodes, work lost",
        replace(LOST, promotion=False),
        ("11,561", "20,912", "65.9 %", "747", "39,000", "42", "-"),
    ),
    Case(
        "capacity, GPUs, work kept",
        replace(LENT, quota_in_gpus=True),
        ("2,020", "9,268", "65.7 %", "652", "14", "2", "-"),
        ("< 2,100", *("-",) * 6),
    ),
    Case(
        "capacity, GPUs, work lost",
        replace(LOST, quota_in_gpus=True),
        ("2,342", "9,692", "66.2 %", "707", "3,691", "0", "-"),
        ("< 2,400", "-", "-", "-", "< 4,000", "-", "-"),
    ),
)


def figures_of(figures: Figures) -> list[str]:
    """A row's figures, in the order of the headings."""
    later = figures.later_than_private
    return [
        f"{figures.queue_s.mean or 0:,.1f}",
        f"{figures.queue_s.p95 or 0:,.0f}",
        f"{figures.gpu_utilisation or 0:.1%}".replace("%", " %"),
        f"{figures.preemptions:,}",
        f"{figures.gpu_hours_lost:,.0f}",
        f"{later.completions:,}" if later else "-",
        f"{later.first_starts:,}" if later else "-",
    ]


def one_cluster(name: str, rows: Sequence[str], images: Path | None) -> None:
    """The rows of one cluster whose names have one of these words."""
    document = json.loads((TRACES / f"philly_3w.{name}.cluster.json").read_text())
    cluster = of_equal_nodes(document)
    with gzip.open(TRACES / "philly_3w.csv.gz", "rt", newline="") as lines:
        trace = read_trace(lines, cluster)
    private = compare(cluster, trace, Settings()).outcomes
    for case in [one for one in CASES if any(word in one.name for word in rows)]:
        image = images / f"simulation-{name}-{slug(case)}.png" if images and case.pictured else None
        found, seconds = run(cluster, trace, case, private, image)
        print("|", " | ".join([name, case.name, *figures_of(found), f"{seconds:.1f}"]), "|", flush=True)
        if name == "quarter":
            for told, figures in (("reference", case.reference), ("goal", case.goal)):
                if figures:
                    print("|", " | ".join(["", f"({told})", *figures, "-"]), "|", flush=True)


def run(
    cluster: Cluster, trace: Sequence[TraceJob], case: Case, private: Sequence[Outcome], image: Path | None
) -> tuple[Figures, float]:
    """The figures of one row and the seconds of CPU time of its simulation."""
    begin = process_time()
    result = simulate(cluster, trace, case.settings)
    seconds = process_time() - begin
    if image is not None:
        draw(image, timeline(result.events), len(cluster.leaf_types), f"Philly, three weeks: {case.name}")
    alone = None if case.settings.sharing is Sharing.PRIVATE else private
    return summary(cluster, result.outcomes, alone).overall, seconds


def slug(case: Case) -> str:
    """The case as part of a file's name."""
    return case.name.replace(", ", "-").replace(" ", "-").lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--clusters", nargs="+", choices=["quarter", "third", "half"], default=["quarter", "third", "half"]
    )
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD", help="only rows with a word in their name")
    parser.add_argument("--images", type=Path, help="write a chart of each row into this folder")
    options = parser.parse_args()
    print("|", " | ".join(HEADINGS), "|")
    print("|" + " --- |" * len(HEADINGS))
    for name in options.clusters:
        one_cluster(name, options.rows, options.images)


if __name__ == "__main__":
    main()
