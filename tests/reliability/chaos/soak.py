"""Hours of load, and whether memory and handles of each process stay flat: `make endurance`.

First a minute without any job, for what each process takes when idle; then the load of the fault campaign, without
faults. Prints for each process its memory and handles in the second and in the last quarter of that time, the design's
goals beside them, and the campaign's verdict; ends with 1 where something grows, is above its goal, or did not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from tests.reliability.chaos.footprint import Footprint, footprint
from tests.reliability.chaos.load import Load
from tests.reliability.chaos.plant import NODES, PORTAL, Plant, running_plant
from tests.reliability.chaos.verdict import Verdict
from tests.support.people.person import alice, carol

IDLE_S = 60
EVERY_S = 10
GROWTH, GROWTH_MB, GROWTH_HANDLES = 1.1, 5.0, 10
"""What counts as growing: a tenth more, and by more than so much."""
PORTAL_MB, AGENT_MB, AGENT_IDLE_SHARE = 1024, 100, 0.01
"""Goals of the design."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.chaos.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0, help="of load (default: 120)")
    parser.add_argument("--seed", type=int, default=1, help="draws the jobs (default: 1)")
    asked = parser.parse_args()
    with running_plant() as plant:
        findings = [*idle(plant), *loaded(plant, asked.minutes * 60, asked.seed)]
    for finding in findings:
        print(f"FOUND {finding}")
    return 1 if findings else 0


def idle(plant: Plant) -> Iterator[str]:
    """Prints what each process takes without any job. Yields what is above its goal."""
    before, begun = taken(plant), time.monotonic()
    time.sleep(IDLE_S)
    after, passed_s = taken(plant), time.monotonic() - begun
    print(f"{'idle':<12}{'memory MB':>12}{'handles':>10}{'CPU % of a core':>18}")
    for name, one in after.items():
        share = (one.cpu_s - before[name].cpu_s) / passed_s
        print(f"{name:<12}{one.memory_mb:>12.0f}{one.handles:>10}{100 * share:>18.2f}", flush=True)
        if name in NODES and share > AGENT_IDLE_SHARE:
            yield f"the agent of {name} takes {100 * share:.2f} % of a core when idle, not 1 %"
    yield from _above_goals(after)


def loaded(plant: Plant, seconds: float, seed: int) -> Iterator[str]:
    """Plays the load. Prints memory and handles; yields what grew, what is above its goal, and the verdict."""
    load = Load([alice(plant.stack), carol(plant.stack)], seed)
    load.start()
    seen: dict[str, list[Footprint]] = defaultdict(list)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(EVERY_S)
        for name, one in taken(plant).items():
            seen[name].append(one)
    load.stop()
    print(f"\n{seconds / 60:.0f} min, {len(load.sent)} jobs")
    print(f"{'':<12}{'memory MB: 2nd quarter':>24}{'last':>8}{'handles: 2nd quarter':>24}{'last':>8}")
    for name, ones in seen.items():
        yield from _grown(name, ones)
    yield from _above_goals({name: ones[-1] for name, ones in seen.items()})
    yield from Verdict(plant, load).findings()


def taken(plant: Plant) -> dict[str, Footprint]:
    return {name: footprint(process.pid) for name, process in plant.stack.processes.items()}


def _grown(name: str, ones: Sequence[Footprint]) -> Iterator[str]:
    """The first quarter is left out: what is loaded once, and pools that fill."""
    quarter = max(1, len(ones) // 4)
    second, last = ones[quarter : 2 * quarter] or ones, ones[-quarter:]
    memory = [median(one.memory_mb for one in part) for part in (second, last)]
    handles = [median(one.handles for one in part) for part in (second, last)]
    print(f"{name:<12}{memory[0]:>24.0f}{memory[1]:>8.0f}{handles[0]:>24.0f}{handles[1]:>8.0f}")
    if memory[1] > memory[0] * GROWTH and memory[1] > memory[0] + GROWTH_MB:
        yield f"memory of {name} grew from {memory[0]:.0f} to {memory[1]:.0f} MB"
    if handles[1] > handles[0] * GROWTH and handles[1] > handles[0] + GROWTH_HANDLES:
        yield f"{name} held {handles[0]:.0f} handles and then {handles[1]:.0f}"


def _above_goals(now: dict[str, Footprint]) -> Iterator[str]:
    portal = sum(now[name].memory_mb for name in PORTAL)
    if portal > PORTAL_MB:
        yield f"the portal's processes take {portal:.0f} MB, not {PORTAL_MB}"
    for name in NODES:
        if now[name].memory_mb > AGENT_MB:
            yield f"the agent of {name} takes {now[name].memory_mb:.0f} MB, not {AGENT_MB}"


if __name__ == "__main__":
    sys.exit(main())
