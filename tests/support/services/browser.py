"""Chromium for the browser tests, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
]

NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""What Chromium says of a request that it dropped because a container came or went, and a network interface of this
machine with it. It tells nothing of the page; one that misses what was dropped fails by that."""


def chromium_binary() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def is_error(said: ConsoleMessage) -> bool:
    """Whether something on the console is an error of the page."""
    return said.type == "error" and NETWORK_CHANGED not in said.text


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium that reaches loopback only."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_binary(),
            args=[*ARGUMENTS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"],
        )
        yield browser
        browser.close()
