"""The map of a cluster of 200 nodes with 8 GPUs each: drawn soon, and read at a glance, also on a telephone and in the
dark."""

import re
from collections.abc import Iterator
from time import perf_counter

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.keeping import looks_otherwise
from tests.e2e.browser.large_map import BORROWED, CORDONED, DRAINING, IDLE, LOST, NODES, RACK, SICK, TEAMS
from tests.e2e.browser.looking import DRAWN, MODES, looked_at
from tests.e2e.browser.pictures import OTHERWISE, large_map, take_map
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Stack
from tests.support.run.report import Report
from tests.support.services.services import Services

GPUS = NODES * 8
BOUND_MS = 15_000
"""Far above what it takes alone, since other tests share the machine."""
SHOWN = "nodes => nodes.filter(one => one.getClientRects().length).length"


@pytest.fixture(scope="module")
def large(services: Services) -> Iterator[Stack]:
    with large_map(services) as stack:
        yield stack


def test_who_has_what_what_is_free_and_what_is_sick_is_seen_at_a_glance(
    chromium: Browser, large: Stack, report: Report
) -> None:
    context = chromium.new_context(locale="en-US", reduced_motion="reduce", timezone_id="UTC", **MODES["light"])
    page = context.new_page()
    site = Site(page, large)
    site.sign_in("root")
    began = perf_counter()
    site.open("/cluster")
    squares = page.locator(".map-box .dot-gpu")
    expect(squares).to_have_count(GPUS, timeout=BOUND_MS)
    page.evaluate(DRAWN)
    drawn_ms = (perf_counter() - began) * 1000
    report.notes.append(f"the map of {GPUS} GPUs: there {drawn_ms:.0f} ms after the page was opened")
    for team in TEAMS:
        expect(page.locator(".map-key", has_text=team)).to_be_visible()
    keys = {word: _count(page, word) for word in ("free", "on loan", "sick", "closed")}
    assert keys["sick"] >= SICK + 8 * LOST - 16
    assert keys["free"] > IDLE
    assert keys["on loan"] >= BORROWED / 2
    assert page.locator(".map-section").count() == NODES / RACK
    assert page.locator(".troubles li").count() == min(12, SICK + LOST + CORDONED + DRAINING)
    page.locator(".map-key", has_text="free").click()
    faded = page.locator(".map-box .dot-gpu.is-off")
    expect(faded).to_have_count(GPUS - keys["free"])
    page.set_viewport_size(MODES["narrow"]["viewport"])
    nodes = page.locator(".map-node")
    assert nodes.evaluate_all(SHOWN) < NODES / 2
    page.locator(".map-key", has_text="free").click()
    assert nodes.evaluate_all(SHOWN) == NODES
    page.set_viewport_size(MODES["light"]["viewport"])
    assert page.locator(".map-box").bounding_box()["height"] < 1600  # type: ignore[index]
    assert looked_at(page, "large-map") == []
    report.notes += [OTHERWISE.format(name) for name in take_map(page, looks_otherwise)]
    context.close()


def _count(page: Page, word: str) -> int:
    text = page.locator(".map-key", has_text=re.compile(f"^.?{word}")).inner_text()
    return int(re.sub(r"\D", "", text))
