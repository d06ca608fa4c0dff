"""The fault campaign: `make chaos`, or `python -m tests.reliability.chaos --faults 1000 --seed 7`.

Plays random faults into a mixed load on two nodes, then asks whether everything that Berth promises held. Prints each
fault as it was, the time that the whole took to be well again by kind of fault, and every finding; ends with 1 where
there is one. The seed draws jobs and faults; when they meet is the machine's own chance. Needs root, Docker,
PostgreSQL and gcc.
"""

import argparse
import sys
import time

from tests.reliability.chaos.campaign import Campaign, Stuck
from tests.reliability.chaos.faults import MAKERS
from tests.reliability.chaos.load import Load
from tests.reliability.chaos.plant import Plant, running_plant
from tests.reliability.chaos.verdict import Verdict
from tests.support.people.person import alice, carol


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="draws jobs and faults (default: the time)")
    names = ", ".join(sorted(make.__name__ for make in MAKERS))
    parser.add_argument("--only", default="", help=f"only faults with this in their name, one at a time: {names}")
    asked = parser.parse_args()
    if not any(asked.only in make.__name__ for make in MAKERS):
        parser.error(f"--only {asked.only!r} names none of: {names}")
    print(f"seed {asked.seed}, {asked.faults} faults", flush=True)
    with running_plant() as plant:
        return 1 if played(plant, asked.faults, asked.seed, asked.only) else 0


def played(plant: Plant, faults: int, seed: int, only: str = "") -> int:
    """Plays the campaign and prints what came of it. Returns the number of findings."""
    load = Load([alice(plant.stack), carol(plant.stack)], seed)
    campaign = Campaign(plant, load, faults, seed, only)
    load.start()
    stuck: list[str] = []
    try:
        campaign.play()
    except Stuck as error:
        stuck.append(str(error))
    load.stop()
    findings = [*stuck, *campaign.ended, *Verdict(plant, load).findings()]
    print(f"\nseed {seed}: {campaign.done} faults, {len(load.sent)} jobs, {load.unanswered} requests sent again")
    print("\n".join(campaign.table()))
    print("jobs: " + ", ".join(f"{count} {kind}" for kind, count in sorted(load.counted().items())))
    for finding in findings:
        print(f"FOUND {finding}")
    if stuck:
        print("\n".join(tail for _, tail in plant.stack.tails()), file=sys.stderr)
    print("everything held" if not findings else f"{len(findings)} findings")
    return len(findings)


if __name__ == "__main__":
    sys.exit(main())
