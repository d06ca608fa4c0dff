"""The pictures of the docs are of the pages as they are: what looks otherwise is taken anew, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.keeping import LARGEST, keep
from tests.browser.pictures import FOLDER, ready, scene, shape, take
from tests.browser.site import Site
from tests.support.report import Report
from tests.support.services import Services
from tests.support.stack import Stack

LATER = """() => {
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/\\d/g, it => (+it + 3) % 10);
}"""
"""Every figure on the page is another."""
CHANGES = {
    "a word": "document.querySelector('h1').textContent = 'Houme of all'",
    "a button": "document.querySelector('.page-head .btn').style.visibility = 'hidden'",
    "a colour": "document.documentElement.style.setProperty('--berth-line', '#c33')",
    "a place": "document.querySelector('.tiles').style.marginTop = '6px'",
}


@pytest.fixture(scope="module")
def shown(services: Services) -> Iterator[tuple[Stack, dict[str, int]]]:
    with scene(services) as made:
        yield made


def test_pictures_are_replaced_where_their_page_looks_otherwise(
    chromium: Browser, shown: tuple[Stack, dict[str, int]], report: Report
) -> None:
    stack, jobs = shown
    before = {path.name: path.stat().st_size for path in FOLDER.glob("*.webp")}
    for name in take(chromium, stack, jobs):
        words = "replaced: its page looks otherwise now" if name in before else "new"
        report.notes.append(f"docs/pictures/{name} is {words}; look at it, then commit it")
    assert max(path.stat().st_size for path in FOLDER.glob("*.webp")) <= LARGEST


def test_other_times_and_figures_replace_no_picture_and_a_change_of_the_page_does(
    page: Page, shown: tuple[Stack, dict[str, int]], tmp_path: Path
) -> None:
    site, file = Site(page, shown[0]), tmp_path / "home.webp"
    site.sign_in("alice")
    ready(page, "home")
    shape(page, "home", "light")
    assert keep(page, file)
    assert not keep(page, file)
    page.evaluate(LATER)
    assert not keep(page, file)
    for what, change in CHANGES.items():
        page.evaluate(change)
        assert keep(page, file), what
        assert not keep(page, file), what
    assert keep(page, file, anew=True)
