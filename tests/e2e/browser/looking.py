"""A page as a person sees it, in light, dark and narrow, and what is wrong with it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, expect

from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Stack
from tests.support.run.fixtures import ARTIFACTS
from tests.support.services.browser import is_error

AXE = Path("frontend/node_modules/axe-core/axe.min.js")
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "narrow": {"color_scheme": "light", "viewport": NARROW},
}
PHONE_AT_NIGHT: dict[str, dict[str, Any]] = {"night": {"color_scheme": "dark", "viewport": NARROW}}
"""One look, in the midst of a journey."""
EVERYTHING: dict[str, Any] = {}
COLOURS_ALONE: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""Axe's rules that ask for colours: of the same page in dark the others find what they found in light."""
SCROLLING_ALONE: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["scrollable-region-focusable"]}}
"""What a narrow page may do that a wide one does not."""
ASKED = {"light": EVERYTHING, "dark": COLOURS_ALONE, "narrow": SCROLLING_ALONE}
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Until the browser has drawn the page in its new shape."""
CROOKED = """() => [...document.querySelectorAll('.tag')].filter(tag => tag.checkVisibility()).flatMap(tag => {
  const words = document.createRange();
  words.selectNodeContents(tag);
  const [inner, outer] = [words.getBoundingClientRect(), tag.getBoundingClientRect()];
  const off = (inner.top + inner.bottom - outer.top - outer.bottom) / 2;
  return Math.abs(off) > 1.5 ? [`${tag.textContent} stands ${off} px from the middle of its tag`] : [];
})"""
REFUSED = "Failed to load resource"
"""What a browser says of every page that is answered with 400 or more."""


@contextmanager
def looking(chromium: Browser, stack: Stack, *, refused: Sequence[str] = ()) -> Iterator[tuple[Site, list[str]]]:
    """Somebody at a browser, and what is wrong with the pages; errors on the console are. `refused`: the paths that
    are answered with 400 or more, which a browser tells there."""
    context = chromium.new_context(locale="en-US", reduced_motion="reduce", **MODES["light"])
    site, faults = Site(context.new_page(), stack), list[str]()
    site.page.on("console", lambda said: faults.extend(_said(said, refused)))
    site.page.on("pageerror", lambda error: faults.append(str(error)))
    yield site, faults
    context.close()
    assert not faults, "\n".join(faults)


def _said(said: ConsoleMessage, refused: Sequence[str]) -> list[str]:
    where = said.location.get("url", "")
    expected = said.text.startswith(REFUSED) and urlsplit(where).path in refused
    return [] if expected or not is_error(said) else [f"{said.text} ({where})"]


def looked_at(page: Page, name: str, modes: dict[str, dict[str, Any]] = MODES) -> list[str]:
    """What is wrong with the page as it is now, in light, dark and narrow."""
    faults = []
    for mode, shape in modes.items():
        page.emulate_media(color_scheme=shape["color_scheme"])
        page.set_viewport_size(shape["viewport"])
        if page.locator("html.js").count():
            expect(page.locator("html")).to_have_attribute("data-bs-theme", shape["color_scheme"])
        page.evaluate(DRAWN)
        faults += look(page, f"{name}-{mode}", ASKED.get(mode, EVERYTHING))
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    return faults


def look(page: Page, name: str, asked: dict[str, Any] = EVERYTHING) -> list[str]:
    """What is wrong with the page. Keeps a picture of it if there is anything, or if BERTH_TEST_PICTURES is set."""
    sticks_out = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    faults = [f"{name}: {sticks_out} px too wide"] if sticks_out > 0 else []
    faults += [f"{name}: {fault}" for fault in page.evaluate(CROOKED)]
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("asked => axe.run({resultTypes: ['violations'], ...asked})", asked)
    for rule in found["violations"]:
        if rule["impact"] in {"serious", "critical"}:
            faults += [f"{name}: {rule['id']}: {node['html'][:200]}: {_why(node)}" for node in rule["nodes"]]
    if faults or "BERTH_TEST_PICTURES" in os.environ:
        ARTIFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)
    return faults


def _why(node: dict[str, Any]) -> str:
    return "; ".join(check["message"] for check in [*node["any"], *node["all"]])
