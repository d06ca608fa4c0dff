"""Fills an empty database with a large made-up cluster: `python -m tests.benchmarks.fill [--finished N] ...`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from time import perf_counter

from tests.benchmarks.filling.sizes import NotFilled, Sizes

WORDS = {
    "finished": "jobs that are over",
    "waiting": "jobs that wait",
    "running": "jobs that run and fill the virtual clusters' quotas",
    "users": "users, without passwords",
    "vcs": "virtual clusters, which share the nodes",
    "nodes": "nodes with 8 simulated GPUs each",
    "days": "how far back the finished jobs go",
    "seed": "the same number makes the same past",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.fill",
        description="Fill an empty database with a made-up cluster, to measure the portal at size. Not for a portal in "
        "use: no server is behind the nodes, and the jobs' logs are empty.",
    )
    for name, default in asdict(Sizes()).items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{WORDS[name]} (default {default:,})")
    parser.add_argument("--force", action="store_true", help="also where there are jobs already")
    options = vars(parser.parse_args(arguments))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.environ.setdefault("BERTH_DATABASE_POOL", "0")
    import django

    django.setup()
    force, begin = options.pop("force"), perf_counter()
    try:
        fill(Sizes(**options), force=force)
    except NotFilled as error:
        sys.exit(f"{error}")
    print(f"Filled in {perf_counter() - begin:.0f} s.")


def fill(sizes: Sizes, *, force: bool = False) -> None:
    """Fill Django's database. Raises NotFilled for sizes that make no cluster, and without `force` where jobs are."""
    from tests.benchmarks.filling.steps import take

    if problems := sizes.problems():
        raise NotFilled("\n".join(("Nothing was filled:", *(f"  {problem}." for problem in problems))))
    take(sizes, force=force)


if __name__ == "__main__":
    main()
