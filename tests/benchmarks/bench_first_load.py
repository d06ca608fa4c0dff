"""How much each page weighs for somebody who was never here before, and how soon it is there on slow connections,
printed beside the goals: `python -m tests.benchmarks.bench_first_load`.

A whole stack with three teams at work, a real Chromium with nothing in its cache whose connection is throttled by
Chromium itself; all of it shares this machine's cores. Each load is the median of a few. Nothing here is asserted.
"""

from contextlib import closing
from datetime import UTC, datetime
from statistics import median

from playwright.sync_api import Browser

from tests.benchmarks.machine import machine_told
from tests.e2e.browser.loads import DSL, GOAL, HEADING, MOBILE, Line, Load, first_load
from tests.e2e.browser.pictures import pages, scene
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Stack
from tests.support.services.browser import launched
from tests.support.services.services import Services

RUNS = 5
MORE = {"nodes": "/cluster/nodes", "node": "/cluster/nodes/gpu01", "help": "/help", "profile": "/profile"}


def measured(chromium: Browser, stack: Stack, name: str, path: str, line: Line) -> Load:
    """Each figure the median of RUNS loads."""
    loads = [first_load(chromium, stack, name, path, line) for _ in range(RUNS)]
    figures = [median(getattr(one, figure) for one in loads) for figure in Load.__slots__[1:]]
    return Load(name, *figures)


def main() -> None:
    with closing(Services()) as services, scene(services) as (stack, jobs), launched() as chromium:
        Site(chromium.new_page(), stack).sign_in("alice")
        machine_told()
        addresses = pages(jobs, datetime.now(UTC)) | MORE
        for line in (DSL, MOBILE):
            print(f"\n{line.words}; nothing cached, median of {RUNS}", HEADING, sep="\n")
            for name, path in addresses.items():
                print(measured(chromium, stack, name, path, line), flush=True)
            print(GOAL, flush=True)


if __name__ == "__main__":
    main()
