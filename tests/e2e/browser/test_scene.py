"""A cluster as teams have it, in the browser: which pictures of the docs are not of the pages as they
are is told, and each page is light and soon there."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.browser.keeping import LARGEST, keep, looks_otherwise
from tests.e2e.browser.loads import DSL, GOAL, HEADING, MOST_KB, first_load
from tests.e2e.browser.pictures import FOLDER, OTHERWISE, pages, ready, scene, shape, take
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Stack
from tests.support.run.report import Report
from tests.support.services.services import Services

LATER = """() => {
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/\\d/g, it => (+it + 3) % 10);
}"""
"""Every figure on the page is another."""
CHANGES = {
    "a word": "document.querySelector('h1').textContent = 'Usages of all'",
    "a button": "document.querySelector('.page-head .btn').style.visibility = 'hidden'",
    "a colour": "document.documentElement.style.setProperty('--berth-line', '#c33')",
    "a place": "document.querySelector('.tiles').style.marginTop = '6px'",
}


BOUND_MS = 10_000
"""Far above the goal, since other tests share the machine; a page that waits for something takes longer."""


@pytest.fixture(scope="module")
def shown(services: Services) -> Iterator[tuple[Stack, dict[str, int]]]:
    with scene(services) as made:
        yield made


def test_pictures_whose_page_looks_otherwise_are_told_and_stay_as_they_are(
    chromium: Browser, shown: tuple[Stack, dict[str, int]], report: Report
) -> None:
    stack, jobs = shown
    before = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    report.notes += [OTHERWISE.format(name) for name in take(chromium, stack, jobs, looks_otherwise)]
    assert {path.name: path.read_bytes() for path in FOLDER.iterdir()} == before
    assert max(map(len, before.values())) <= LARGEST


def test_other_times_and_figures_make_no_page_look_otherwise_and_a_change_of_it_does(
    page: Page, shown: tuple[Stack, dict[str, int]], tmp_path: Path
) -> None:
    site, file = Site(page, shown[0]), tmp_path / "usage.webp"  # a page that does not go on by itself
    site.sign_in("alice", "/usage?by=user")
    ready(page, "usage")
    shape(page, "usage", "light")
    assert looks_otherwise(page, file), "there is none"
    keep(page, file)
    assert file.stat().st_size <= LARGEST
    assert not looks_otherwise(page, file)
    page.evaluate(LATER)
    assert not looks_otherwise(page, file)
    for what, change in CHANGES.items():
        page.evaluate(change)
        assert looks_otherwise(page, file), what
        keep(page, file)
        assert not looks_otherwise(page, file), what


def test_each_page_is_light_and_there_soon_on_a_slow_connection(
    chromium: Browser, page: Page, shown: tuple[Stack, dict[str, int]], report: Report
) -> None:
    stack, jobs = shown
    Site(page, stack).sign_in("alice")
    addresses = pages(jobs, datetime.now(UTC)) | {"help": "/help"}
    loads = [first_load(chromium, stack, name, path, DSL) for name, path in addresses.items()]
    report.notes += [f"first load at {DSL.words}", HEADING, *map(str, loads), GOAL]
    assert {load.name: load.kilobytes for load in loads if load.kilobytes >= MOST_KB} == {}
    assert {load.name: load.usable for load in loads if max(load.seen, load.usable) > BOUND_MS} == {}


def test_what_is_typed_into_the_form_before_the_editor_has_come_is_kept(
    page: Page, shown: tuple[Stack, dict[str, int]]
) -> None:
    site, held = Site(page, shown[0]), list[Route]()
    page.route("**/assets/submit-*.js", lambda route: held.append(route))
    site.sign_in("alice", "/submit")
    page.get_by_label("Name", exact=True).fill("early-bird")
    page.get_by_label("Time limit").fill("2h")
    assert held
    held[0].continue_()
    expect(page.locator(".cm-content")).to_contain_text("name: early-bird")
    expect(page.locator(".cm-content")).to_contain_text("timeLimit: 2h")
    expect(page.get_by_label("Name", exact=True)).to_have_value("early-bird")
