"""How much a page weighs and how soon it is there for somebody who was never here before, on a slow connection."""

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, CDPSession

from tests.e2e.browser.site import SESSION
from tests.support.cluster.stack import Stack

MOST_KB = 300
"""The goal: of each page, compressed, with all that it fetches by itself."""
MOST_MS = 1000
"""The goal: until the page is seen and can be used."""


@dataclass(frozen=True, slots=True)
class Line:
    """A connection to the portal."""

    words: str
    mbit: float
    latency_ms: int

    def throttle(self, cdp: CDPSession) -> None:
        bytes_per_s = self.mbit * 1e6 / 8
        cdp.send("Network.emulateNetworkConditions", {
            "offline": False, "latency": self.latency_ms,
            "downloadThroughput": bytes_per_s, "uploadThroughput": bytes_per_s,
        })  # fmt: skip


DSL = Line("10 Mbit/s, 40 ms", 10, 40)
MOBILE = Line("1.6 Mbit/s, 150 ms", 1.6, 150)
"""What Lighthouse calls slow 4G, and called fast 3G before."""


@dataclass(frozen=True, slots=True)
class Load:
    """``kilobytes`` as they came over the wire, heads of answers included; ``html`` of them are the page itself.
    Milliseconds after the address was opened: words are ``seen`` (first contentful paint), the page is ``usable`` (its
    scripts have run), and ``whole`` (nothing was fetched any more for a while)."""

    name: str
    kilobytes: float
    html: float
    seen: float
    usable: float
    whole: float

    def __str__(self) -> str:
        return (
            f"{self.name:<18}{self.kilobytes:>8.0f} kB{self.html:>6.0f} kB{self.seen:>8.0f} ms{self.usable:>7.0f} ms"
            f"{self.whole:>7.0f} ms"
        )


HEADING = f"{'page':<18}{'weight':>11}{'HTML':>9}{'seen':>11}{'usable':>10}{'whole':>10}"
GOAL = f"{'goal':<18}{f'< {MOST_KB}':>8} kB{'':>9}{f'< {MOST_MS}':>8} ms{f'< {MOST_MS}':>7} ms"
TIMES = """() => {
    const [page] = performance.getEntriesByType("navigation");
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    const ends = performance.getEntriesByType("resource").map(it => it.responseEnd);
    return [paint?.startTime ?? Infinity, page.domContentLoadedEventEnd, Math.max(page.loadEventEnd, ...ends)];
}"""


def first_load(chromium: Browser, stack: Stack, name: str, path: str, line: Line) -> Load:
    """The page opened with nothing in the browser's cache, by alice, who has signed in before."""
    context = chromium.new_context(locale="en-US", reduced_motion="reduce")
    context.add_cookies([_session(stack)])
    page = context.new_page()
    cdp = context.new_cdp_session(page)
    cdp.send("Network.enable")
    line.throttle(cdp)
    kinds, sizes = dict[str, str](), dict[str, float]()
    cdp.on("Network.responseReceived", lambda told: kinds.update({told["requestId"]: told["type"]}))
    cdp.on("Network.loadingFinished", lambda told: sizes.update({told["requestId"]: told["encodedDataLength"]}))
    page.goto(f"{stack.url}{path}")
    page.wait_for_load_state("networkidle")
    seen, usable, whole = page.evaluate(TIMES)
    context.close()
    html = sum(size for request, size in sizes.items() if kinds.get(request) == "Document")
    return Load(name, sum(sizes.values()) / 1000, html / 1000, seen, usable, whole)


def _session(stack: Stack) -> Any:
    return {
        "name": SESSION, "value": stack.sessions["alice"], "url": stack.url, "httpOnly": True, "sameSite": "Lax"
    }  # fmt: skip
